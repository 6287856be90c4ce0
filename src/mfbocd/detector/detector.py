"""Detection of changepoints in one stream: choose, observe, update; alarms; save and load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._kernels.template import ONE_ROW
from ..belief.alarm import Alarm
from ..belief.filter import Array, Filter, outlier_probability
from ..belief.hazard import Hazard, hazard_of
from ..belief.pruning import DEFAULT, Prune, Pruning
from ..inputs.arguments import boolean, not_negative, whole
from ..inputs.display import count_text, html_facts
from ..models import Model
from ..policy import Policy, policy_of
from ..policy.fidelity import Fidelity, checked
from .learning import learn_cost
from .lifecycle import Lifecycle, OnError
from .lock import exclusive, in_use
from .observing import observe, read
from .shadow import ShadowGuard, guards_of
from .step import Missing, Step, alarm_of, reading, seed_of


class Detector(Lifecycle):
    """Multi-fidelity Bayesian online changepoint detection in one stream.

    Each tick is one round of a loop: choose a fidelity, observe at it, update the belief about the run length.
    `step` does all three; `choose` and `update` leave the observing to the caller. Only one thread at a time may use
    a detector: a second one gets a RuntimeError (docs/scale.md).

    Parameters
    ----------
    model : Model
        The family of the readings with its conjugate prior.
    fidelities : iterable of Fidelity, or Fidelity, optional
        The ways to observe. By default one full observation per tick: ordinary BOCD.
    hazard : float, Hazard, sequence of float or callable
        P(change) per tick: a number in (0, 1), 1/250 by default, or one by run length (`Hazard`). `Learned()` learns
        it from the readings.
    policy : Policy, optional
        How the next fidelity is chosen; `Budget(share=0.35)` by default (docs/deciding.md).
    prune : Threshold, TopK, Resample, a sequence of them, or None
        How the number of hypotheses is bounded; `Resample(256)` by default (docs/pruning.md). None is exact, and adds
        one hypothesis per tick.
    alarm : Alarm, float or None
        When `Step.alarm` is set: an `Alarm`, its threshold alone, or None for never.
    seed : int
        Seed of the policy's and the resampling's random numbers.
    missing : {"raise", "skip"}
        What a reading of None or NaN does: it raises an error, or counts as a tick without a reading.
    on_error : {"raise", "fallback"}
        What `step` does if an observer raises an error or gives no reading: it raises, or asks another fidelity, pays
        for both and names the failed one in `Step.failed`.
    shadow : int or mapping of str to ShadowGuard, optional
        Every so many ticks, `step` reads the best fidelity and a lower one, and warns when the pairs show that the
        lower one is worse than declared. An int guards every fidelity below the best; none by default.
    surprise : bool
        Whether every step has its `Step.surprise`; False by default, because computing the tails takes longer than
        the update. It changes nothing else, may be switched at any time, and is saved.
    learn : bool
        Whether the zeta of the fidelities that `shadow` watches is learned from the pairs, and the cost of every
        fidelity from what its readings actually cost (argument `cost` of `update`, or an attribute `last_cost` of the
        observer after a `step`); False by default (docs/calibrating.md, "Learning zeta and cost while running").

    Attributes
    ----------
    model, fidelities, hazard, policy, alarm, seed, missing, on_error, shadow, surprise, learn : Any
        The arguments; `policy` is a copy bound to the fidelities. With `learn`, `fidelities` are as learned.
    pruning : Pruning
        `prune` in the form that the filter uses.
    spent : float
        Cost of all readings so far.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range, or if they do not fit each other.

    Examples
    --------
    >>> from mfbocd import Gaussian
    >>> detector = Detector(
    ...     Gaussian(mean=0, var=9, noise_var=1),
    ...     fidelities=[Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)],
    ...     hazard=1 / 250,
    ... )
    >>> for x in [0.1, -0.2, 0.0, 0.1, 7.9, 8.1]:
    ...     step = detector.update(x, "gps")
    ...     if step.alarm:
    ...         print(f"tick {step.tick}: changed at {step.changed_at}, P = {step.confidence:.3f}")
    tick 4: changed at 4, P = 1.000
    >>> detector.choose().name, detector.spent
    ('gps', 240.0)
    """

    def __init__(
        self,
        model: Model,
        fidelities: Iterable[Fidelity] | Fidelity | None = None,
        hazard: float | Hazard | Sequence[float] | Callable[[Any], Any] = 1 / 250,
        *,
        policy: Policy | None = None,
        prune: Prune | Sequence[Prune] | Pruning | None = DEFAULT,
        alarm: Alarm | float | None = Alarm(),  # noqa: B008 (frozen)
        seed: int = 0,
        missing: Missing = "raise",
        on_error: OnError = "raise",
        shadow: int | Mapping[str, ShadowGuard] | None = None,
        surprise: bool = False,
        learn: bool = False,
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model must be one of mfbocd's models, such as Gaussian(0, 9, 1), not {model!r}")
        if missing not in ("raise", "skip"):
            raise ValueError(f"missing must be 'raise' or 'skip', not {missing!r}")
        if on_error not in ("raise", "fallback"):
            raise ValueError(f"on_error must be 'raise' or 'fallback', not {on_error!r}")
        self._renew()
        self.model = model
        self.fidelities = checked(fidelities)
        model.check_zetas([fidelity.zeta for fidelity in self.fidelities])
        corrects = next((f for f in self.fidelities if f.has_correction), None)
        if corrects is not None and model.dimension > 1:
            raise ValueError(
                f"Fidelity.offset and Fidelity.scale of {corrects.name!r} need readings of one number, not of the "
                f"{model.dimension} of {type(model).__name__}"
            )
        self.hazard = hazard_of(hazard)
        self.alarm = alarm_of(alarm)
        self.pruning = Pruning.of(prune)
        self.seed = seed_of(seed)
        self.missing = missing
        self.on_error = on_error
        self.surprise = boolean("", "surprise", surprise)
        self.learn = boolean("", "learn", learn)
        self.shadow = guards_of(shadow, model, self.fidelities, learn)
        self.policy = policy_of(policy, self.fidelities).bind(self.fidelities)
        self.spent = 0.0
        self._filter = Filter(model, self.hazard, self.pruning, alarm=self.alarm, seed=self.seed)
        self.policy.initialize(self._filter)
        self._by_name = {f.name: f for f in self.fidelities}
        self._no_reading = 0.0 if model.dimension == 1 else np.zeros(model.dimension)
        self._checked = model.check if model.dimension == 1 else partial(reading, model, missing=missing)
        self._recurrent = [f for f in self.fidelities if hasattr(f.observe, "warmup")]
        self._quoted, self._chosen = (-2, None, {}), (-2, None)
        self._tick = -1

    def __repr__(self) -> str:
        names = ", ".join(f.name for f in self.fidelities)
        ticks = count_text(self._tick + 1, "tick")
        return f"<Detector of {self.model!r} over {names}: {ticks}, spent {self.spent:g}>"

    def _repr_html_(self) -> str:
        ways = "; ".join(
            f"{f.name} (zeta {f.zeta:g}, cost {'a function' if callable(f.cost) else format(f.cost, 'g')})"
            for f in self.fidelities
        )
        facts = {
            "model": repr(self.model),
            "fidelities": ways,
            "hazard": repr(self.hazard),
            "policy": repr(self.policy) if len(self.fidelities) > 1 else None,
            "alarm": repr(self.alarm),
            "spent": self.spent,
            "run length": self.map_run_length,
        }
        return html_facts(f"Detector: {count_text(self.ticks, 'tick')}", facts.items())

    @exclusive
    def choose(self, raw: Any = None) -> Fidelity:
        """Return the fidelity to read at the coming tick.

        Until the next `update` the answer stays the same.

        Parameters
        ----------
        raw : Any
            The raw input; needed where a cost is a function of it.

        Returns
        -------
        Fidelity
            One of `fidelities`.

        Examples
        --------
        >>> from mfbocd import Gaussian, Net
        >>> imu, gps = Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)
        >>> detector = Detector(Gaussian(0, 9, 1), [imu, gps], policy=Net(0.01))
        >>> detector.choose()
        Fidelity(name='gps', zeta=1.0, cost=40.0)
        """
        chosen = self._choose(raw)
        self._chosen = self._tick, chosen
        return chosen

    def update(
        self, x: Any, fidelity: Fidelity | str | None = None, *, raw: Any = None, cost: float | None = None
    ) -> Step:
        """Update the belief with a reading; an error changes nothing.

        Parameters
        ----------
        x : Any
            The reading: a number, or a sequence of numbers if the model's readings have several
            (`mfbocd.inputs.readings` lists the accepted types). None, and NaN with ``missing="skip"``, is a tick
            without a reading: the hazard acts and nothing is learned. Its cost is paid if a fidelity is given: it was
            asked and gave no reading.
        fidelity : Fidelity or str, optional
            What `x` was read at. It may be omitted if there is only one fidelity, or after `choose` at this tick:
            then it is the chosen one.
        raw : Any
            The raw input; needed where a cost is a function of it and `choose` did not get it at this tick.
        cost : float, optional
            What the reading actually cost, if that is known only afterwards; by default what the fidelity costs. With
            ``learn=True``, later choices expect a cost that follows it.

        Returns
        -------
        Step
            The record of the tick.

        Raises
        ------
        TypeError, ValueError
            If the model cannot have produced `x`, or if the fidelity is unknown, or omitted where there are several.

        Examples
        --------
        >>> from mfbocd import Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1))
        >>> step = detector.update(0.5)
        >>> step.tick, step.run_length, round(step.mean, 3)
        (0, 0, 0.448)
        """
        if not self._lock.acquire(False):  # `exclusive` takes twice as long
            raise in_use(self)
        try:
            found = self._by_name.get(fidelity) if type(fidelity) is str else None
            if found is None:
                found = self._resolve(fidelity, x)
            value = self._accept(x, found)
            if cost is not None:
                return self._apply_paid(value, found, cost)
            cost = 0.0 if found is None else found.cost if type(found.cost) is float else self._cost_of(found, raw)
            return self._apply(value, found, cost)
        finally:
            self._lock.release()

    def _resolve(self, fidelity: Fidelity | str | None, x: Any) -> Fidelity | None:
        """Return the fidelity that `x` was read at; None for a tick at which nothing was asked."""
        if fidelity is not None:
            return self._own_fidelity(fidelity)
        if x is None:
            return None
        if len(self.fidelities) == 1:
            return self.fidelities[0]
        tick, chosen = self._chosen
        if tick != self._tick:
            raise ValueError(
                f"fidelity must be one of {', '.join(self._by_name)}: with several fidelities, give the one that was "
                "read, or call choose() first and read what it chose"
            )
        return chosen

    @exclusive
    def step(self, raw: Any = None) -> Step:
        """Choose a fidelity, observe `raw` with it and with no other, and update.

        With `shadow`, the best fidelity is read as well at some ticks, and is what the update uses. An observer with
        memory (`adapters.recurrent`) is fed the raw inputs of the ticks at which it is not read.

        Parameters
        ----------
        raw : Any
            The raw input, which is passed to `Fidelity.observe`. A fidelity without `observe` takes it as the
            reading, which makes sense only if it is the only one.

        Returns
        -------
        Step
            The record of the tick.

        Examples
        --------
        >>> from mfbocd import Gaussian
        >>> gps = Fidelity("gps", zeta=1.0, cost=40, observe=lambda raw: raw["position"])
        >>> detector = Detector(Gaussian(0, 9, 1), gps)
        >>> detector.step({"position": 0.3}).x
        0.3
        """
        if self.on_error == "raise" and not self.shadow and not self._recurrent and not self.learn:
            chosen = self._choose(raw)
            cost = self._cost_of(chosen, raw)  # before the reading, which may change what the next one costs
            return self._apply(read(self, chosen, raw), chosen, cost)
        seen = observe(self, raw)
        step = self._apply(seen.value, seen.fidelity, seen.cost, seen.failed, seen.warning)
        for f in self._recurrent:
            if f.name not in seen.asked:
                f.observe.feed(raw)  # type: ignore[union-attr]
        return step

    @exclusive
    def wait(self, ticks: int) -> Step:
        """Let ticks pass with no reading and at no cost: a gap in irregular time.

        Parameters
        ----------
        ticks : int
            How many, at least 1.

        Returns
        -------
        Step
            The record of the last of them.

        Raises
        ------
        TypeError, ValueError
            If `ticks` is not a whole number of at least 1.

        Examples
        --------
        >>> from mfbocd import Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01, alarm=None)
        >>> step = detector.update(0.3)
        >>> detector.wait(100).tick, round(detector.p_changed(within=100), 3)  # 1 - 0.99^100
        (100, 0.634)
        """
        for _ in range(whole("", "ticks", ticks, 1)):
            step = self._apply(None, None, 0.0)
        return step

    def _apply_paid(self, value: Any, fidelity: Fidelity | None, cost: float) -> Step:
        """Advance the belief by one tick whose actual cost is given."""
        actual = not_negative("", "cost", cost)
        step = self._apply(value, fidelity, actual)
        if self.learn and fidelity is not None:
            learn_cost(self, fidelity.name, actual)
        return step

    def _accept(self, x: Any, fidelity: Fidelity | None) -> Any:
        """Return a reading in the form the filter takes; None if it is missing and may be."""
        # A chained comparison is the quickest test for a finite number: NaN fails it too.
        if type(x) is float and -math.inf < x < math.inf and (fidelity is None or not fidelity.has_correction):
            return self._checked(x)
        return reading(self.model, x, self.missing, fidelity)

    def _apply(
        self,
        value: Any,
        fidelity: Fidelity | None,
        cost: float,
        failed: tuple[str, ...] = (),
        warning: str | None = None,
    ) -> Step:
        """Advance the belief by one tick with a checked reading, and pay for it."""
        surprise = None
        if value is None or fidelity is None:
            report = self._filter.observe(self._no_reading, 0.0)
        else:
            if self.surprise and fidelity.zeta > 0.0:
                surprise = self._filter.surprise(value, fidelity.zeta)
            report = self._filter.observe(value, fidelity.zeta)
        self.spent += cost
        self._tick += 1
        tick = self._tick
        if self.policy.learns:
            self.policy.record_cost((cost,))
        mean: Any
        mean, run, change, alarm, changed_at, confidence = report
        if self.model.dimension > 1:
            mean = tuple(self._filter.predictive(1.0)[0].tolist())
            value = None if value is None else tuple(value.tolist())
        name = None if fidelity is None else fidelity.name
        odd = outlier_probability(self.model, self._filter.state) if self.model.has_outliers else None
        if not alarm:
            step = Step(tick, name, value, cost, mean, int(run), change, False, None, None, failed, warning, odd)
        else:
            at = int(changed_at)
            step = Step(tick, name, value, cost, mean, int(run), change, True, at, confidence, failed, warning, odd)
        return step if surprise is None else step._replace(surprise=surprise)

    def _cost_of(self, fidelity: Fidelity, raw: Any) -> float:
        """Return the cost of a reading: what `choose` found at this tick, since reading may change the next cost."""
        if type(fidelity.cost) is float:
            return fidelity.cost
        tick, asked, costs = self._quoted
        if tick == self._tick and (raw is None or raw is asked):
            return costs[fidelity.name]
        return fidelity.cost_of(raw)

    @exclusive
    def _advance(self, x: Array, zeta: Array, report: Array) -> None:
        """Apply many checked ticks of a compiled model at once: x and zeta (T, 1); fills `report` (T, FIELDS, 1)."""
        self._filter.make_room(len(x))

        def call(kernel: Callable[..., None], arguments: tuple[Any, ...]) -> None:
            kernel(*arguments, np.zeros(2, dtype=np.int64))

        self.model.advance_with(call, self._filter.state[None], self._filter.setup, ONE_ROW, x, zeta, report)
        self._tick += len(x)
