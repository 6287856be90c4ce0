"""Many streams with one configuration, advanced together."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..belief.alarm import Alarm
from ..belief.filter import Array, observe, outlier_probability
from ..belief.hazard import Hazard
from ..belief.pruning import DEFAULT, Prune, Pruning
from ..detector.detector import Detector
from ..detector.lock import exclusive
from ..detector.step import Missing, report_fields, seed_of
from ..inputs.arguments import whole
from ..inputs.display import count_text, html_facts
from ..models import Model
from ..policy import Budget, Choices, Fidelity, Policy, SharedBudget, draw_uniform, policy_of
from ..policy.own import OwnPolicies
from .inputs import choices_of, observed, readings_of
from .names import Names
from .posterior import Streams
from .rows import Rows, Selected
from .step import Decision, FleetStep
from .streams import StreamSet, units_of
from .workers import new_queue


class Fleet(StreamSet):
    """Many streams with the same model, fidelities, hazard and policy, in one matrix.

    Every stream has its own clock: an update may be for all streams or for some. Streams have names; they can be
    added, removed, extracted as a `Detector` and inserted.

    Parameters
    ----------
    n : int
        Initial number of streams, at least 0.
    model : Model
        The model of every stream, as in `Detector`.
    fidelities : sequence of Fidelity or Fidelity, optional
        The ways to observe, as in `Detector`.
    hazard : float, Hazard, sequence of float or callable, default 1 / 250
        Probability of a change per tick, as in `Detector`.
    policy : Policy or SharedBudget, optional
        How fidelities are chosen; by default as in `Detector`. With a `SharedBudget` this fleet is part of a larger
        group; the caller then sets the number of streams of the group.
    prune : Threshold, TopK, Resample, sequence of those or None, optional
        How the number of hypotheses is limited, as in `Detector`.
    alarm : Alarm, float or None, optional
        When an alarm is raised, as in `Detector`.
    seed : int, default 0
        Stream i has the seed ``seed + i``.
    missing : {'raise', 'skip'}, default 'raise'
        What a missing reading (None or NaN) does, as in `Detector`.
    threads : int, optional
        Number of threads that share an update; by default the number of CPUs.
    names : sequence of str, optional
        Names of the streams, all different; by default "0", "1" and so on.
    offset : float or sequence of float, default 0.0
        Offset of the readings, one for all streams or one each: the model sees ``(x - offset) / scale``, and
        everything reported is in the units of the readings. Only for location-scale families (`Model.rescaled`).
    scale : float or sequence of float, default 1.0
        Scale of the readings, one for all streams or one each.
    share_policy : bool, default True
        Whether all streams share one policy with one price. A `Budget` is then the cost per tick of all streams
        together (`SharedBudget`) and is spent where the gain is largest. False gives every stream its own policy.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or if they do not fit each other.

    Notes
    -----
    With ``share_policy=False``, stream i is identical to ``Detector(..., seed=seed + i)``, to the bit (on one type of
    CPU with one set of library versions: docs/scale.md, "The same bits"), in whatever order and combination streams
    are updated.

    Only one thread at a time may use a fleet, which has threads of its own; a second one gets a RuntimeError.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> fleet = Fleet(3, Gaussian(0, 9, 1), hazard=0.01, names=["north", "east", "south"])
    >>> for x in ([0.0, 0.1, 5.0], [0.2, 0.0, 5.1], [0.1, 9.0, 5.2]):
    ...     step = fleet.update(x)
    >>> step.alarm
    array([False,  True, False])
    >>> step = fleet.update([9.1], streams=["east"])
    >>> fleet.ticks, fleet.spent
    (array([3, 4, 3]), 10.0)
    """

    def __init__(
        self,
        n: int,
        model: Model,
        fidelities: Iterable[Fidelity] | Fidelity | None = None,
        hazard: float | Hazard | Sequence[float] | Callable[[Any], Any] = 1 / 250,
        *,
        policy: Policy | SharedBudget | None = None,
        prune: Prune | Sequence[Prune] | Pruning | None = DEFAULT,
        alarm: Alarm | float | None = Alarm(),  # noqa: B008 (frozen)
        seed: int = 0,
        missing: Missing = "raise",
        threads: int | None = None,
        names: Iterable[str] | None = None,
        offset: float | Sequence[float] | Array = 0.0,
        scale: float | Sequence[float] | Array = 1.0,
        share_policy: bool = True,
    ) -> None:
        n = whole("", "n", n, 0)
        if threads is not None:
            threads = whole("", "threads", threads, 1)
        self._renew()
        self._broken: str | None = None
        given = policy.policy if isinstance(policy, SharedBudget) else policy
        if given is not None and share_policy and isinstance(given, Policy):
            given = copy.copy(given)
            given.shared = True  # one stream alone may not be able to spend what all may
        # A detector checks the arguments, and is what every stream starts from.
        self._like = Detector(
            model, fidelities, hazard, policy=given, prune=prune, alarm=alarm, seed=seed, missing=missing
        )
        self._filter = self._like._filter
        self.model, self.missing, self.share_policy = model, missing, bool(share_policy)
        self.fidelities = self._like.fidelities
        self.threads = threads or (os.cpu_count() or 1)
        seed_of(self._like.seed + max(n, 1) - 1)
        self._rows = Rows(model, self._filter.state, n, self._like.seed)
        self._names = Names(n, names)
        self._added = n  # number of streams ever added: the next default name and seed
        self._zeta = np.array([f.zeta for f in self.fidelities])
        self._index = {f.name: j for j, f in enumerate(self.fidelities)}
        self._own: OwnPolicies | None = None
        self._shared: SharedBudget | None = None
        self._policy = self._like.policy
        self._follows = False
        if isinstance(policy, SharedBudget):
            if not share_policy:
                raise ValueError("a SharedBudget is one policy of many streams: share_policy=False contradicts it")
            self._shared = policy
        elif not share_policy:
            self._own = OwnPolicies(self._like.policy, n)
        elif isinstance(self._like.policy, Budget):
            budget = policy if isinstance(policy, Budget) else policy_of(None, self.fidelities)
            assert isinstance(budget, Budget)
            self._shared = SharedBudget(budget, self.fidelities, self._filter, max(n, 1), lockstep=True)
            self._follows = True
        else:
            self._policy = policy_of(policy, self.fidelities).bind(self.fidelities, max(n, 1))
            self._policy.initialize(self._filter)
        for row, units in enumerate(units_of(n, offset, scale)):
            if units != (0.0, 1.0):
                self._rows.set(row, self._fresh_state(units), int(self._rows.seed[row]), 0.0, units)

    def __repr__(self) -> str:
        names = ", ".join(self._index)
        return f"<Fleet of {len(self)} x {self.model!r} over {names}: spent {self.spent:g}>"

    def _repr_html_(self) -> str:
        facts = {"model": repr(self.model), "fidelities": ", ".join(self._index), "spent": self.spent}
        return html_facts(f"Fleet of {count_text(len(self), 'stream')}", facts.items())

    # --- the loop --------------------------------------------------------------------------------------------

    @exclusive
    def choose(self, raws: Sequence[Any] | None = None, *, streams: Streams | None = None) -> Choices:
        """Choose the fidelity that each stream should read next; this changes nothing.

        If streams share a `Budget`, a choice for all streams gives the budget to those with the largest gain per unit
        of cost. In a choice for some streams, each gets the largest net gain at the current price.

        Parameters
        ----------
        raws : sequence, optional
            The raw input of each stream; needed where a cost is a function of it.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        ndarray of int
            Index of each fidelity, shape (m,).
        """
        selected = self._selected(streams)
        return self._decide(selected, self._quoted(raws, len(selected.rows)))[0]

    @exclusive
    def decide(self, raws: Sequence[Any] | None = None, *, streams: Streams | None = None) -> Decision:
        """Return the choice of `choose` with the gains and the price that led to it.

        Parameters
        ----------
        raws : sequence, optional
            The raw input of each stream; needed where a cost is a function of it.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        Decision
            Choices, the gains that the policy uses, the prices, and the limits that decide in their place.
        """
        selected = self._selected(streams)
        choice, gains = self._decide(selected, self._quoted(raws, len(selected.rows)))
        return Decision(selected.rows, choice, gains, self._prices(selected.rows), self._limits(selected.rows))

    def _decide(self, selected: Selected, quoted: Array | None) -> tuple[Choices, Array]:
        """Choices and the gains that led to them; an update without a fidelity takes the choice of the same tick."""
        choice, gains = self._choices_and_gains(selected, quoted)
        own, at = self._rows, selected.at
        own.chosen[at], own.chosen_at[at] = choice, own.tick[at]
        return choice, gains

    def _choices_and_gains(self, selected: Selected, quoted: Array | None) -> tuple[Choices, Array]:
        rows, at = selected
        none = np.empty((len(rows), 0))
        if len(self.fidelities) == 1:
            return np.zeros(len(rows), dtype=np.int64), none
        policy = self.policy
        seeds, ticks = self._rows.seed[at], self._rows.tick[at]
        if policy.gain is None:
            planned = policy.scheduled(seeds, ticks)
            if planned is not None:
                return planned, none
        gains = self._gains(rows, policy.gain or "joint")
        draws = draw_uniform(seeds, ticks)
        costs = np.broadcast_to(policy.cost, gains.shape) if quoted is None else quoted
        if self._own is not None:
            return self._own.pick(rows, gains, costs, draws, seeds, ticks), gains
        return (self._shared or policy).pick(gains, costs, draws), gains

    def _prices(self, rows: Choices) -> Array | None:
        if self._own is not None:
            return self._own.prices(rows)
        price = getattr(self._shared or self._policy, "price", None)
        return None if price is None else np.full(len(rows), float(price))

    def _limits(self, rows: Choices) -> NDArray[np.str_]:
        if self._own is not None:
            return self._own.limits(rows)
        return np.full(len(rows), getattr(self._shared or self._policy, "limit", ""), dtype="U9")

    @exclusive
    def update(
        self,
        x: Any,
        fidelity: Any = None,
        *,
        streams: Streams | None = None,
        raws: Sequence[Any] | None = None,
    ) -> FleetStep:
        """Advance streams by one tick each.

        Parameters
        ----------
        x : array_like
            One reading per stream, shape (m,) or (m, d); NaN or None where it is missing, with ``missing="skip"``.
        fidelity : str, Fidelity or sequence, optional
            The fidelity of the readings: one for all streams, or a name or index for each. Where there are several
            fidelities it may be omitted only after `choose`: it is then what that returned.
        streams : sequence of str or int, optional
            Names or indices of the streams that were read, all different; all streams by default.
        raws : sequence, optional
            The raw input of each stream; needed where a cost is a function of it.

        Returns
        -------
        FleetStep
            In the order of `streams`.

        Raises
        ------
        TypeError, ValueError, KeyError, IndexError
            For invalid input. The message names the stream; no stream is changed.
        RuntimeError
            If an earlier update was interrupted within a kernel: the states are then undefined.
        """
        selected = self._ready(streams)
        rows = selected.rows
        quoted = self._quoted(raws, len(rows))
        choice = choices_of(self, fidelity, rows)
        values = readings_of(self, x, rows, choice)
        return self._advance(selected, values, choice, self._paid(quoted, choice))

    @exclusive
    def step(self, raws: Sequence[Any], *, streams: Streams | None = None) -> FleetStep:
        """Choose a fidelity for each stream, observe its raw input at that fidelity only, and update.

        Parameters
        ----------
        raws : sequence
            One raw input per stream. A fidelity without `observe` uses the raw input as the reading, which makes
            sense only if it is the only fidelity; a skip (zeta 0) reads nothing.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        FleetStep
            In the order of `streams`.

        Raises
        ------
        TypeError
            If a chosen fidelity has no `observe`, or one that stores earlier inputs, which would be of other streams.
        """
        selected = self._ready(streams)
        rows = selected.rows
        if len(raws) != len(rows):
            raise ValueError(f"raws must have one raw input for each of {len(rows)} streams, not {len(raws)}")
        quoted = self._quoted(raws, len(rows))
        choice = self._decide(selected, quoted)[0]
        values = observed(self, rows, choice, raws)
        return self._advance(selected, values, choice, self._paid(quoted, choice))

    def _selected(self, streams: Streams | None) -> Selected:
        rows = self._names.rows(streams)
        return Selected(rows, slice(len(rows)) if streams is None else rows)

    def _ready(self, streams: Streams | None) -> Selected:
        """The rows of the streams that are to be updated."""
        if self._broken is not None:
            raise RuntimeError(f"this fleet is unusable: an update of its streams was interrupted ({self._broken})")
        selected = self._selected(streams)
        if self._shared is not None:
            self._shared.check(len(selected.rows))
        return selected

    def _quoted(self, raws: Sequence[Any] | None, m: int) -> Array | None:
        """The cost of each fidelity for each of m raw inputs, (m, J); None where costs are numbers."""
        if not self.policy.priced:
            return None
        if raws is None or len(raws) != m:
            raise ValueError(f"raws must hold {m} raw inputs: some fidelity's cost is a function of them")
        return np.array([[f.cost_of(raw) for f in self.fidelities] for raw in raws]).reshape(m, len(self.fidelities))

    def _paid(self, quoted: Array | None, choice: Choices) -> Array:
        """What each stream pays for the chosen fidelity, (m,)."""
        return self.policy.cost.take(choice) if quoted is None else quoted[np.arange(len(choice)), choice]

    def _advance(self, selected: Selected, values: Array, choice: Choices, cost: Array) -> FleetStep:
        """One tick of these streams, all of whose input was checked."""
        rows, at = selected
        m, own = len(rows), self._rows
        zeta, seen = self._zeta.take(choice), values
        units = np.flatnonzero((own.offset[rows] != 0.0) | (own.scale[rows] != 1.0)) if own.has_units else rows[:0]
        scaled = rows[units]
        if units.size:
            seen = values.copy()
            seen[units] = (values[units] - own.offset[scaled]) / own.scale[scaled]
        absent = np.isnan(values) if values.ndim == 1 else np.isnan(values).all(axis=1)
        if absent.any():
            seen = np.where(absent.reshape(m, *[1] * (values.ndim - 1)), 0.0, seen)
            zeta = np.where(absent, 0.0, zeta)
        tick = own.tick[at].copy()
        report = np.empty((1, layout.FIELDS, m))
        self._run(rows, seen[None], zeta[None], report)
        if units.size:
            # kernels use the model's units; the report, and these numbers of the state, are in those of the readings
            report[0, 0, units] = own.offset[scaled] + own.scale[scaled] * report[0, 0, units]
            own.states[scaled, layout.MEAN] = report[0, 0, units]
            own.states[scaled, layout.EVIDENCE] -= np.where(zeta[units] > 0.0, np.log(own.scale[scaled]), 0.0)
        own.tick[at] = tick + 1
        self._pay(selected, cost)
        reported = report_fields(report[0])
        if self.model.dimension > 1:
            reported["mean"] = self._means(rows)
        if self.model.has_outliers:
            reported["outlier"] = np.array([outlier_probability(self.model, own.states[k]) for k in rows.tolist()])
        names = tuple(self._index)
        read: dict[str, Any] = {"streams": rows, "tick": tick, "choice": choice, "x": values, "cost": cost}
        return FleetStep(**read, **reported, fidelities=names, fleet_size=len(self))

    def _pay(self, selected: Selected, cost: Array) -> None:
        """Count what readings cost, and let the policy learn from it."""
        rows, at = selected
        with np.errstate(over="ignore"):  # an infinite sum is an error only when the fleet is saved
            self._rows.spent[at] += cost
            if self._shared is not None:
                self._shared.record(float(cost.sum()), len(rows))
        if self._own is not None:
            self._own.record(rows, cost)
        elif self._shared is None and self._policy.learns and len(rows):
            self._policy.record_cost(cost)

    def _run(self, rows: Choices, x: Array, zeta: Array, report: Array) -> None:
        """Advance the states by the kernel or the model's methods: x and zeta (1, m); `report` is filled."""
        own, setup = self._rows, self._filter.setup
        if not self._like.pruning.most:
            own.make_room(rows, len(x))
        if self.model.advance is None:
            before = own.states[rows]
            try:
                for k, row in enumerate(rows.tolist()):
                    report[0, :, k] = observe(self.model, own.states[row], setup, x[0, k], float(zeta[0, k]))
            except BaseException:
                own.states[rows] = before
                raise
        elif len(rows):

            def call(kernel: Callable[..., None], arguments: tuple[Any, ...]) -> None:
                self._workers.share(kernel, (*arguments, new_queue()), len(rows), self.threads)

            try:
                self.model.advance_with(call, own.states, setup, rows, x, zeta, report)
            except BaseException as error:
                self._broken = f"{type(error).__name__}: {error}"
                raise
