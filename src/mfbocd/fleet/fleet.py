"""Many streams with one configuration, advanced together."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from ..belief.alarm import Alarm
from ..belief.filter import Array, Filter, observe, outlier_probability
from ..belief.gains import CODE, Gain, checked_gain, expected_gains
from ..belief.hazard import Hazard
from ..belief.likely import likely_run_lengths
from ..belief.pruning import DEFAULT, Prune, Pruning
from ..belief.records import RunLength
from ..detector.detector import Detector
from ..detector.lock import OneThread, exclusive
from ..detector.step import Missing, report_fields, seed_of
from ..inputs.arguments import finite, positive, whole
from ..inputs.display import count_text, html_facts
from ..models import Model
from ..policy import Budget, Choices, Fidelity, Policy, SharedBudget, draw_uniform, policy_of
from ..policy.own import OwnPolicies
from . import serialization
from .inputs import choices_of, observed, readings_of
from .names import Names, Streams
from .rows import Rows, Selected
from .step import Decision, FleetStep
from .workers import Workers, new_queue


class Fleet(OneThread):
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

    _transient = OneThread._transient | {"_workers", "_serializer"}

    missing: Missing
    share_policy: bool
    model: Model
    fidelities: tuple[Fidelity, ...]
    threads: int
    _like: Detector
    """A stream before its first tick, with the arguments of all."""
    _added: int
    """Number of streams ever added: the next default name and seed follow from it."""
    _own: OwnPolicies | None
    """The policy of each stream, if they do not share one."""
    _follows: bool
    """Whether the budget's number of streams follows this fleet; otherwise the caller sets it."""
    _zeta: Array
    _filter: Filter
    _rows: Rows
    _names: Names
    _policy: Policy
    _shared: SharedBudget | None
    """The budget that the streams share, if their policy is a budget."""

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

    # --- what is known about the streams --------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._rows.n

    @property
    def policy(self) -> Policy:
        """The policy that all streams share, or of which each stream has a copy."""
        return self._policy if self._shared is None else self._shared.policy

    @property
    def names(self) -> list[str]:
        """Name of each stream, in the order of the streams."""
        return self._names.all()

    @property
    def seeds(self) -> NDArray[np.int64]:
        """Seed of each stream, shape (n,)."""
        return self._rows.seed[: len(self)].copy()

    @property
    def ticks(self) -> NDArray[np.int64]:
        """Number of ticks of each stream so far, shape (n,)."""
        return self._rows.tick[: len(self)].copy()

    @property
    def spent(self) -> float:
        """Total cost of all readings."""
        with np.errstate(over="ignore"):
            return float(self._rows.spent[: len(self)].sum())

    @property
    def spent_by_stream(self) -> Array:
        """Total cost of the readings of each stream, shape (n,)."""
        return self._rows.spent[: len(self)].copy()

    @property
    @exclusive
    def mean(self) -> Array:
        """E[x_{t+1}] of each stream, shape (n,); (n, d) where a reading has d numbers."""
        return self._means(np.arange(len(self)))

    def _means(self, rows: Choices) -> Array:
        if self.model.dimension > 1:
            found = [self._belief(row).predictive(1.0)[0] for row in rows.tolist()]
            return np.array(found).reshape(len(rows), self.model.dimension)
        return np.asarray(self._rows.states[rows, layout.MEAN])

    @property
    def log_evidence(self) -> Array:
        """log p(x_1 .. x_t) of each stream, shape (n,), a density in the units of its readings."""
        states = self._rows.states[: len(self)]
        return np.asarray(states[:, layout.EVIDENCE] + states[:, layout.SLOPES])

    @exclusive
    def run_length(self, stream: str | int) -> RunLength:
        """Return the filtered run-length posterior of one stream.

        Parameters
        ----------
        stream : str or int
            Name or index of the stream.

        Returns
        -------
        RunLength
            The posterior.
        """
        return self._belief(self._names.row(stream)).run_length

    @exclusive
    def likely(self, least: float, most: int, *, streams: Streams | None = None) -> list[list[list[float]]]:
        """Return the likely run lengths of streams with their probabilities, rounded to 4 digits.

        Parameters
        ----------
        least : float
            Smallest probability to include.
        most : int
            Largest number of run lengths per stream; the most probable are kept.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        list of list of [run length, probability]
            One list per stream, shortest run first.
        """
        return likely_run_lengths(self._rows.states, self._names.rows(streams), least, most)

    @exclusive
    def p_changed(self, within: int, *, streams: Streams | None = None) -> Array:
        """Return P(a regime began in the last `within` ticks) of each stream; the start of a stream is not a change.

        Parameters
        ----------
        within : int
            Number of ticks, at least 1.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        ndarray
            Probabilities, shape (m,).
        """
        return np.array([self._belief(row).p_changed(within) for row in self._names.rows(streams).tolist()])

    def _belief(self, row: int) -> Filter:
        """The posterior of one stream, read-only: it shares the fleet's memory and is in the model's units."""
        belief = copy.copy(self._filter)
        belief.adopt(self._rows.states[row])
        return belief

    @exclusive
    def gains(self, gain: Gain = "joint", *, streams: Streams | None = None) -> Array:
        """Return the expected gain of reading each stream at each fidelity, as `Detector.gains`.

        Parameters
        ----------
        gain : {'joint', 'run_length', 'variance', 'change'}, default 'joint'
            Which gain.
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        ndarray
            Shape (m, J).

        Raises
        ------
        ValueError
            If `gain` is none of the four.
        """
        return self._gains(self._names.rows(streams), checked_gain("Fleet", gain))

    def _gains(self, rows: Choices, gain: Gain) -> Array:
        out = np.empty((len(rows), len(self._zeta)))
        if self.model.gains is None:
            for k, row in enumerate(rows.tolist()):
                out[k] = expected_gains(self._belief(row), self._zeta, gain)
        elif len(rows):
            job = (self._rows.states, self._filter.setup, rows, self._zeta, CODE[gain], out, new_queue())
            self._workers.share(self.model.gains, job, len(rows), self.threads)
        return out

    # --- streams come and go -----------------------------------------------------------------------------------

    def _fresh_state(self, units: tuple[float, float]) -> Array:
        """The state of a stream before its first tick."""
        state = self._rows.fresh.copy()
        if units != (0.0, 1.0):
            self.model.rescaled(*units)  # refuses a family that has none
            state[layout.MEAN] = units[0] + units[1] * state[layout.MEAN]
        return state

    def _place(self, name: str | None) -> tuple[int, str]:
        """A row for one more stream, and its name; an error changes nothing."""
        name = self._names.free(self._added) if name is None else self._names.check_new(name)
        if self._follows and self._shared is not None:
            self._shared.streams = len(self) + 1
        elif self._shared is None and self._own is None:
            self._policy.streams = len(self) + 1
        capacity = self._rows.reserve()
        if capacity is not None and self._own is not None:
            self._own.resize(capacity)
        return len(self), name

    @exclusive
    def add(
        self, name: str | None = None, *, seed: int | None = None, offset: float = 0.0, scale: float = 1.0
    ) -> int:
        """Add a stream before its first tick.

        Parameters
        ----------
        name : str, optional
            A new name; by default the first free number, starting from the number of streams ever added.
        seed : int, optional
            Seed of the stream; by default that of the constructor plus the number of streams ever added.
        offset : float, default 0.0
            Offset of its readings: the model sees ``(x - offset) / scale``.
        scale : float, default 1.0
            Scale of its readings.

        Returns
        -------
        int
            Index of the stream.

        Raises
        ------
        TypeError, ValueError
            If an argument has the wrong type or is out of range, or a stream has this name already.
        """
        units = units_of(1, offset, scale)[0]
        chosen = seed_of(self._like.seed + self._added if seed is None else seed)
        state = self._fresh_state(units)
        row, name = self._place(name)
        self._rows.set(row, state, chosen, 0.0, units)
        if self._own is not None:
            self._own.reset(row)
        self._rows.n += 1
        self._names.append(name)
        self._added += 1
        return row

    @exclusive
    def remove(self, streams: Streams | str | int) -> None:
        """Remove streams.

        The last stream takes the index of a removed one, so indices may refer to other streams afterwards; names do
        not change.

        Parameters
        ----------
        streams : str, int or sequence of those
            Names or indices of the streams.
        """
        given: Any = [streams] if isinstance(streams, (str, int, np.integer)) else streams
        rows = sorted(self._names.rows(given).tolist(), reverse=True)
        if self._follows and self._shared is not None:
            self._shared.streams = max(len(self) - len(rows), 1)
        elif self._shared is None and self._own is None:
            self._policy.streams = max(len(self) - len(rows), 1)
        for row in rows:
            if self._own is not None:
                self._own.move(len(self) - 1, row)
            capacity = self._rows.remove(row)
            if capacity is not None and self._own is not None:
                self._own.resize(capacity)
            self._names.remove(row)

    @exclusive
    def extract(self, stream: str | int) -> Detector:
        """Return a copy of one stream as an independent detector, in the units of its readings.

        If streams share a `Budget`, the detector gets an equal part of it, at the current price.

        Parameters
        ----------
        stream : str or int
            Name or index of the stream.

        Returns
        -------
        Detector
            The copy.
        """
        row = self._names.row(stream)
        like, own = self._like, self._rows
        policy = self._own.of(row) if self._own is not None else self.policy.for_one_stream()
        detector = Detector(
            self._model_of(row),
            self.fidelities,
            like.hazard,
            policy=policy,
            prune=like.pruning,
            alarm=like.alarm,
            seed=int(own.seed[row]),
            missing=self.missing,
        )
        detector.policy.restore(policy.state())
        detector._adopt(own.states[row].copy(), float(own.spent[row]))
        return detector

    def _model_of(self, row: int) -> Model:
        units = float(self._rows.offset[row]), float(self._rows.scale[row])
        return self.model if units == (0.0, 1.0) else self.model.rescaled(*units)

    @exclusive
    def insert(
        self,
        detector: Detector | bytes,
        name: str | None = None,
        *,
        replace: bool = False,
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> int:
        """Add a copy of a detector, or of a saved detector, as a stream.

        Parameters
        ----------
        detector : Detector or bytes
            It must have the model, fidelities, hazard, pruning, alarm and `missing` of this fleet, and also its
            policy unless streams share one; in that case what the detector's policy has learned is dropped.
        name : str, optional
            Name of the stream; by default as in `add`.
        replace : bool, default False
            Whether to replace a stream of this name, which keeps its index. Otherwise an existing name is an error.
        offset : float, default 0.0
            Offset of its readings: the detector's model is that of the fleet in these units.
        scale : float, default 1.0
            Scale of its readings.

        Returns
        -------
        int
            Index of the stream.

        Raises
        ------
        ValueError
            If the detector does not match this fleet; the message names the difference.
        """
        units = units_of(1, offset, scale)[0]
        model = self.model if units == (0.0, 1.0) else self.model.rescaled(*units)
        found = detector if isinstance(detector, Detector) else self._serializer.load(self, detector, units, model)
        serialization.check_same(self, found, model)
        if self._own is not None:
            copy.copy(self._own.like).restore(found.policy.state())  # an error changes nothing
        row = self._names.find(name) if replace and name is not None else None
        return self._put(found, name, row, units)

    def _put(
        self,
        found: Detector,
        name: str | None = None,
        row: int | None = None,
        units: tuple[float, float] = (0.0, 1.0),
    ) -> int:
        """Copy a detector that fits into a row, by default a new one; return the row."""
        state = self._rows.fitted(found._filter.state)
        if row is None:
            row, name = self._place(name)
            self._rows.n += 1
            self._names.append(name)
            self._added += 1
        if self._own is not None:
            self._own.restore(row, found.policy.state())
        self._rows.set(row, state, found.seed, found.spent, units)
        return row

    def _take(self, row: int, detector: Detector) -> None:
        """Make the detector that was put into a row continue from it; both then share the state's memory."""
        if self._own is not None:
            detector.policy.restore(self._own.state(row))
        detector._adopt(self._rows.states[row], float(self._rows.spent[row]))

    # --- saving ----------------------------------------------------------------------------------------------

    @exclusive
    def to_bytes(self, stream: str | int | None = None) -> bytes:
        """Save one stream or the whole fleet in a small versioned binary format.

        Parameters
        ----------
        stream : str or int, optional
            Name or index of a stream; the result is that of ``extract(stream).to_bytes()``. By default the whole
            fleet is saved, for `from_bytes`.

        Returns
        -------
        bytes
            The saved state.
        """
        if stream is None:
            return serialization.to_bytes(self)
        return self._serializer.dump(self, np.array([self._names.row(stream)]))[0]

    @exclusive
    def to_bytes_each(self, *, streams: Streams | None = None) -> list[bytes]:
        """Return ``to_bytes(stream)`` of each of many streams.

        Parameters
        ----------
        streams : sequence of str or int, optional
            Names or indices of the streams; all by default.

        Returns
        -------
        list of bytes
            One per stream.
        """
        return self._serializer.dump(self, self._names.rows(streams))

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        observers: Mapping[str, Callable[[Any], Any]] | None = None,
        costs: Mapping[str, Callable[[Any], float]] | None = None,
        model: Model | None = None,
        threads: int | None = None,
    ) -> Self:
        """Load a whole fleet that was saved with `to_bytes`.

        Functions are not saved and must be passed again.

        Parameters
        ----------
        data : bytes
            The saved fleet.
        observers : mapping, optional
            The `observe` function of each fidelity that had one, by its name.
        costs : mapping, optional
            The cost function of each fidelity that had one, by its name.
        model : Model, optional
            The model, if it contains functions.
        threads : int, optional
            Number of threads of the fleet; by default the number of CPUs.

        Returns
        -------
        Fleet
            The loaded fleet.
        """
        return serialization.from_bytes(cls, data, observers or {}, costs or {}, model, threads)

    # --- one tick ------------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        super()._renew()
        self._workers = Workers()
        self._serializer = serialization.RowSerializer()

    @exclusive
    def __copy__(self) -> Self:
        """Return an independent copy, which shares what never changes."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        other._rows, other._names, other._policy = self._rows.copy(), self._names.copy(), copy.copy(self._policy)
        other._own, other._shared = copy.copy(self._own), copy.copy(self._shared)
        return other

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


def units_of(n: int, offset: Any, scale: Any) -> list[tuple[float, float]]:
    """Return one (offset, scale) per stream, or raise an error that names the field."""
    columns = []
    for field, given, check in (("offset", offset, finite), ("scale", scale, positive)):
        values = [given] * n if np.ndim(given) == 0 else list(given)
        if len(values) != n:
            raise ValueError(f"{field} must be one number, or one per stream: {n}, not {len(values)}")
        columns.append([check("Fleet", field, value) for value in values])
    return list(zip(*columns, strict=True))
