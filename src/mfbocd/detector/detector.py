"""Detection of changepoints in one stream: choose, observe, update; alarms; save and load."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from .._kernels import layout
from .._kernels.template import ONE_ROW
from ..belief.alarm import Alarm
from ..belief.filter import Array, Filter, outlier_probability
from ..belief.gains import Gain, expected_gains
from ..belief.hazard import Hazard, hazard_of
from ..belief.pruning import DEFAULT, Prune, Pruning
from ..belief.records import RunLength, Start
from ..belief.state import fresh_state
from ..inputs.arguments import boolean, not_negative, probability, whole
from ..inputs.display import count_text, html_facts
from ..models import Mixture, Model
from ..policy import Choices, Policy, policy_of
from ..policy.fidelity import Fidelity, checked
from .base import BaseDetector
from .learning import learn_cost
from .level_rule import LevelRule
from .lock import exclusive, in_use
from .observing import observe, read, shadow_pair
from .serialization import Serializer, from_bytes
from .shadow import ShadowGuard, guards_for, guards_of
from .step import Missing, Step, alarm_of, reading, report_fields, seed_of

OnError = Literal["raise", "fallback"]

CHUNK = 4096  # ticks per compiled call: limits how far the state of an unpruned filter must be enlarged in advance


class Detector(BaseDetector):
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
        observer after a `step`, which must be at least 0: anything else is an error of the observer); False by
        default (docs/calibrating.md, "Learning zeta and cost while running").

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

    model: Model
    """The family of the readings with its prior."""
    hazard: Hazard
    """P(change) by run length, as it was given; `hazard_posterior` is its posterior if it is learned."""
    pruning: Pruning
    """How the number of hypotheses is bounded, as the filter uses it."""
    on_error: OnError
    """What `step` does if an observer fails: "raise" or "fallback"."""
    shadow: dict[str, ShadowGuard]
    """Guards of the declared zetas, by fidelity."""
    learn: bool
    """Whether zeta and cost are learned."""

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
        self.model = self._reader = model
        self.dimension = model.dimension
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
        self._quoted, self._chosen = (-1, None, {}), (-1, None)
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
            asked and gave no reading. None is always accepted at a skip (zeta 0), which is not asked for a reading.
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

    @exclusive
    def update_from(self, value_of: Callable[[Fidelity], Any], raw: Any = None) -> Step:
        """Choose a fidelity, or a shadow pair if one is due, take the readings from a table, and update."""
        pair = None
        if self.shadow:
            pair = shadow_pair(self, raw, value_of)
        if pair is None:
            return super().update_from(value_of, raw)
        return self._apply(pair.value, pair.fidelity, pair.cost, warning=pair.warning)

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
        """Let ticks pass with no reading and at no cost: a gap in irregular time."""
        for _ in range(whole("", "ticks", ticks, 1)):
            step = self._apply(None, None, 0.0)
        return step

    @property
    def ticks(self) -> int:
        """Number of ticks so far."""
        return self._tick + 1

    @property
    @exclusive
    def run_length(self) -> RunLength:
        """The filtered posterior P(r_t = l | x_1..x_t), shortest run first; r_t = 0 if x_t began a new regime.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
        >>> for x in (0.0, 0.1, 4.0):
        ...     step = detector.update(x)
        >>> detector.run_length.length, detector.run_length.weight.round(4)
        (array([0, 1, 2]), array([0.2571, 0.0102, 0.7327]))
        """
        return self._filter.run_length

    @property
    def last_alarm(self) -> int:
        """Tick of the last alarm; -1 before the first."""
        return int(self._filter.state[layout.FIRED])

    @property
    def level_rule(self) -> LevelRule:
        """How the levels of regimes follow from the readings."""
        return LevelRule.of(self.model, self.fidelities)

    @property
    def map_run_length(self) -> int | None:
        """The most probable run length; None before the first tick."""
        return int(self._filter.state[layout.RUN]) if self._tick >= 0 else None

    @exclusive
    def p_changed(self, within: int) -> float:
        """Return P(a regime began in the last `within` ticks), that is P(r_t < within).

        The start of the stream itself does not count as a change.

        Parameters
        ----------
        within : int
            Length of the window in ticks, at least 1.

        Returns
        -------
        float
            The probability; 0 before the first tick.

        Raises
        ------
        ValueError
            If `within` is below 1.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01)
        >>> for x in (0.0, 0.1, -0.2, 3.0, 3.2):
        ...     step = detector.update(x)
        >>> round(detector.p_changed(within=1), 3), round(detector.p_changed(within=3), 3)
        (0.016, 0.43)
        """
        return self._filter.p_changed(within)

    @exclusive
    def families(self) -> dict[str, float]:
        """Return the probability of each family of a `Mixture` in the current regime, averaged over run lengths.

        Returns
        -------
        dict of str to float
            P(family | x_1..x_t) by name (`Mixture.names`); the prior probabilities before the first tick.

        Raises
        ------
        TypeError
            If the model is not a `Mixture`.

        Examples
        --------
        >>> from mfbocd import Detector, GaussianUnknown, Mixture, Trend
        >>> detector = Detector(Mixture(GaussianUnknown(), Trend()), hazard=0.01)
        >>> for t in range(20):
        ...     step = detector.update(0.5 * t + 0.3 * (-1) ** t)
        >>> {name: round(p, 3) for name, p in detector.families().items()}
        {'GaussianUnknown': 0.0, 'Trend': 1.0}
        """
        if not isinstance(self.model, Mixture):
            raise TypeError(f"{type(self.model).__name__} is one family: only a Mixture has several")
        shares = self.model.families(self.model.prior())
        if self._tick >= 0:
            shares = self._filter.run_length.weight[::-1] @ self.model.families(self._filter.stats)
        return dict(zip(self.model.names, shares.tolist(), strict=True))

    @property
    @exclusive
    def hazard_posterior(self) -> tuple[Array, Array]:
        """The candidates of a `Learned` hazard and their posterior probabilities; else the hazard's table and 1.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian, Learned, simulate
        >>> stream = simulate.gaussian(Gaussian(0, 9, 1), hazard=0.05, ticks=1000, seed=1)
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=Learned())
        >>> for x in stream.table[:, 0]:
        ...     step = detector.update(x)
        >>> hazard, probability = detector.hazard_posterior
        >>> round(float(hazard @ probability), 2)
        0.05
        """
        candidates = self._filter.candidates
        return self.hazard.table, candidates if candidates.size else np.ones(1)

    @property
    def log_evidence(self) -> float:
        """Log p(x_1 .. x_t), the sum of the log predictives."""
        state = self._filter.state
        return float(state[layout.EVIDENCE] + state[layout.SLOPES])

    @property
    @exclusive
    def mean(self) -> Any:
        """E[x_{t+1}], where a change at t + 1 is possible; an array if a reading has several numbers."""
        if self.model.dimension > 1:
            return self._filter.predictive(1.0)[0]
        return float(self._filter.state[layout.MEAN])

    @property
    @exclusive
    def variance(self) -> Any:
        """Var[x_{t+1}] of a full-fidelity reading; an array if a reading has several numbers."""
        return self._filter.predictive(1.0)[1]

    @exclusive
    def interval(self, level: float = 0.9, fidelity: Fidelity | str | None = None) -> tuple[Any, Any]:
        """Return the interval that x_{t+1} lies in with a given probability, with equal tails.

        Parameters
        ----------
        level : float
            Probability of the interval, in (0, 1).
        fidelity : Fidelity or str, optional
            The fidelity of that reading; full fidelity (zeta = 1) by default.

        Returns
        -------
        tuple
            Lower and upper end: floats, or arrays if a reading has several numbers, each with its own interval.

        Raises
        ------
        ValueError
            If the fidelity is unknown, or has zeta = 0 and so reads nothing.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1))
        >>> [round(end, 2) for end in detector.interval(0.9)]
        [-5.2, 5.2]
        """
        zeta = 1.0 if fidelity is None else self._own_fidelity(fidelity).zeta
        if zeta == 0.0:
            raise ValueError(f"fidelity {fidelity!r} is a skip: it reads nothing that could lie anywhere")
        tail = 0.5 * (1.0 - probability("", "level", level))
        low, high = self._filter.quantile(tail, zeta), self._filter.quantile(1.0 - tail, zeta)
        # Ends closer than the accuracy of the search may come out in the wrong order.
        return low, np.maximum(low, high) if self.model.dimension > 1 else max(low, high)

    @property
    @exclusive
    def parameter(self) -> tuple[Any, Any]:
        """Mean and variance of the current regime's parameter; arrays if there are several parameters."""
        return self._filter.parameter()

    @exclusive
    def expected_gains(self, gain: Gain) -> Array:
        """Return one kind of gain of each fidelity at the coming tick."""
        return expected_gains(self._filter, self.policy.zeta, gain)

    def explain(self) -> str:
        """Name the model and the hazard."""
        return f"The model is {self.model!r}, with P(change) = {self.hazard!r} per tick."

    @exclusive
    def to_bytes(self) -> bytes:
        """Return everything except functions as a small versioned binary, never pickle.

        A loaded detector continues with identical results on the same type of CPU and with the same library versions
        (docs/scale.md, "The same bits").

        Returns
        -------
        bytes
            What `from_bytes` takes.

        Raises
        ------
        ValueError
            If the cost spent is not finite.
        """
        return Serializer(self).write(self)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        observers: Mapping[str, Callable[[Any], Any]] | None = None,
        costs: Mapping[str, Callable[[Any], float]] | None = None,
        model: Model | None = None,
    ) -> Self:
        """Return the detector that `to_bytes` saved; functions, which cannot be saved, are passed again.

        Parameters
        ----------
        data : bytes
            The saved detector.
        observers : mapping of str to callable, optional
            `Fidelity.observe` by name.
        costs : mapping of str to callable, optional
            `Fidelity.cost` by name, needed where it was a function.
        model : Model, optional
            The model, needed if it contains functions (`ExponentialFamily`, `Grid`).

        Returns
        -------
        Detector
            A detector that continues where the saved one was.

        Raises
        ------
        TypeError
            If `data` is not bytes.
        ValueError
            If the bytes are no saved detector, are damaged or have another format version, or if a function is
            missing.

        Examples
        --------
        >>> from mfbocd import Detector, Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1))
        >>> step = detector.update(0.5)
        >>> Detector.from_bytes(detector.to_bytes()).update(0.7) == detector.update(0.7)
        True
        """
        found: Self = from_bytes(cls, data, observers or {}, costs or {}, model)
        return found

    @exclusive
    def reset(self) -> None:
        """Forget the stream: belief, ticks and alarms start again; `spent` and what the policy has learned stay."""
        self._adopt(fresh_state(self.model, self._filter.setup, self.seed), self.spent)

    @exclusive
    def with_fidelities(self, fidelities: Iterable[Fidelity] | Fidelity, policy: Policy | None = None) -> Self:
        """Return a detector with the same belief and other ways to read.

        Use it when a sensor is added or lost, or when a zeta or a cost has drifted.

        Parameters
        ----------
        fidelities : iterable of Fidelity, or Fidelity
            The new ways to observe.
        policy : Policy, optional
            Another policy; by default this one's, with what it has learned, such as the price of a `Budget`.

        Returns
        -------
        Detector
            The new detector; this one is unchanged. A guard of `shadow` keeps its pairs if its zeta is the same, and
            begins again with the new zeta otherwise.

        Examples
        --------
        >>> from mfbocd import Budget, Detector, Gaussian
        >>> imu, gps = Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)
        >>> detector = Detector(Gaussian(0, 9, 1), [imu, gps], policy=Budget(share=0.3))
        >>> step = detector.update(0.2, "gps")
        >>> other = detector.with_fidelities([imu, Fidelity("gps", zeta=1.0, cost=60)])
        >>> other.ticks, other.spent, other.fidelities[1].cost
        (1, 40.0, 60.0)
        """
        make: Any = type(self)
        own = type(self.policy)(**self.policy.spec())
        own.shared = self.policy.shared  # one of several streams may not be able to spend what all may
        other: Self = make(
            self.model,
            fidelities,
            self.hazard,
            policy=own if policy is None else policy,
            prune=self.pruning,
            alarm=self.alarm,
            seed=self.seed,
            missing=self.missing,
            on_error=self.on_error,
            surprise=self.surprise,
            learn=self.learn,
        )
        if policy is None:
            other.policy.restore(self.policy.state())
        other.shadow = guards_for(self.shadow, self._by_name, other.fidelities)
        other._adopt(self._filter.state.copy(), self.spent)
        return other

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

    def _start(self, level: float) -> Start:
        """Return when the current regime began."""
        return self._filter.start(level)

    def without_seasons(self, x: Array, tick: Choices) -> Array:
        """Return readings without the fixed seasons of the model."""
        return self.model.without_seasons(x, tick)

    @property
    def has_outliers(self) -> bool:
        """Whether steps have the probability of an outlier."""
        return self.model.has_outliers

    @property
    def bulk(self) -> bool:
        """Whether `advance` takes many readings at once."""
        return self.model.advance is not None and not self.shadow and not self.policy.priced

    @exclusive
    def advance(self, x: Array, choice: Choices) -> dict[str, Any]:
        """Apply many ticks of a compiled model, in chunks."""
        missing = np.isnan(x)
        zeta = np.where(missing, 0.0, self.policy.zeta[choice])
        applied = np.where(missing, 0.0, x)
        report = np.empty((len(x), layout.FIELDS, 1))

        def call(kernel: Callable[..., None], arguments: tuple[Any, ...]) -> None:
            kernel(*arguments, np.zeros(2, dtype=np.int64))

        for start in range(0, len(x), CHUNK):
            part = slice(start, start + CHUNK)
            self._filter.make_room(len(x[part]))
            states = self._filter.state[None]
            self.model.advance_with(
                call, states, self._filter.setup, ONE_ROW, applied[part, None], zeta[part, None], report[part]
            )
        self._tick += len(x)
        # summed in order, so that the total has the same bits as tick by tick
        self.spent = float(np.add.accumulate(np.append(self.spent, self.policy.cost[choice]))[-1])
        return report_fields(report[:, :, 0].T.copy())

    def _choose(self, raw: Any) -> Fidelity:
        """Return the fidelity that the policy chooses for the coming tick."""
        return self.fidelities[self.policy.choose(self._filter, self.seed, self._costs(raw))]

    def _adopt(self, state: Array, spent: float) -> None:
        """Continue from another state of the same configuration, such as a loaded one or a row of a fleet."""
        self._filter.adopt(state)
        self._tick = self._filter.ticks - 1
        self.spent = spent
        self._quoted, self._chosen = (-1, None, {}), (-1, None)  # they belong to the previous stream

    @exclusive
    def __copy__(self) -> Self:
        """Return an independent detector in the same state; it shares the observers and what never changes."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        other._filter, other.policy = copy.copy(self._filter), copy.copy(self.policy)
        other._filter.adopt(self._filter.state.copy())
        other.shadow = {name: copy.copy(guard) for name, guard in self.shadow.items()}
        return other

    def _use(self, fidelities: tuple[Fidelity, ...], policy: Policy) -> None:
        """Replace the fidelities by others of the same names, with the policy bound to them."""
        self.fidelities, self.policy = fidelities, policy
        self._by_name = {f.name: f for f in fidelities}
        self._recurrent = [f for f in fidelities if hasattr(f.observe, "warmup")]
