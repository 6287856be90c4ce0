"""What a user holds: choose, observe, update; an alarm; save and load."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from .._kernels import layout
from .._kernels.template import ONE_ROW
from ..belief.filter import Array, Filter, RunLength, Start, fresh_state
from ..belief.gains import GAINS, FidelityGain, Gain, Gains, expected_gains
from ..belief.hazard import Hazard, hazard_of
from ..belief.pruning import DEFAULT, Prune, Pruning
from ..models import Model
from ..policy import Policy, policy_of
from ..policy.fidelity import Fidelity, checked
from .lock import OneThread, alone, in_use
from .serialization import Serializer, from_bytes
from .shadow import ShadowGuard, guards_of
from .step import NEVER, Alarm, Missing, Step, alarm_of, level_of, reading, seed_of

OnError = Literal["raise", "fallback"]


class Detector(OneThread):
    """Multi-fidelity Bayesian online changepoint detection of one stream.

    Parameters
    ----------
    model: the conjugate family with its prior.
    fidelities: the ways to observe; without them one full observation a tick, ordinary BOCD.
    hazard: P(change) a tick, a number in (0, 1), or by run length: see `Hazard`; `Learned()` learns it.
    policy: how the next fidelity is chosen; without one, `Budget(share=0.35)`: docs/deciding.md says why.
    prune: how hypotheses are kept few; None is exact, and grows by one hypothesis a tick. The default bounds
        memory: `docs/pruning.md` says what that costs.
    alarm: an `Alarm`, just its threshold, or None for no alarms.
    seed: of the policy's and the resampling's draws.
    missing: what a reading of None or NaN does: "raise", or "skip" for a tick at which nothing was learnt.
    on_error: what `step` does when an observer raises or gives no reading: "raise", or "fallback" to ask another
        fidelity, pay for both and say so in the step.
    shadow: every so many ticks `step` reads the best fidelity and a lower one, and says when the pairs show that the
        lower is worse than declared: a number of ticks, or `calibrate.ShadowGuard` objects by name.

    One thread at a time may use a detector: a second one gets a RuntimeError (docs/scale.md).

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
    >>> print(detector.gains())
      fidelity       zeta      cost  run length     joint   variance
      imu             0.1         1     0.00981   0.03414    0.03839
    > gps               1        40     0.02231   0.22003    0.18407
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
        self.hazard = hazard_of(hazard)
        self.alarm = alarm_of(alarm)
        self.pruning = Pruning.of(prune)
        self.seed = seed_of(seed)
        self.missing: Missing = missing
        self.on_error: OnError = on_error
        self.shadow = guards_of(shadow, model, self.fidelities)
        self.policy = policy_of(policy, self.fidelities).bind(self.fidelities)
        self.spent = 0.0
        within, threshold = (self.alarm.within, self.alarm.threshold) if self.alarm else (1, NEVER)
        self.filter = Filter(model, self.hazard, self.pruning, within=within, threshold=threshold, seed=self.seed)
        self.policy.initialize(self.filter)
        self.by_name = {f.name: f for f in self.fidelities}
        self.nothing = 0.0 if model.dimension == 1 else np.zeros(model.dimension)
        self._checked = model.check if model.dimension == 1 else partial(reading, model, missing=missing)
        self._recurrent = [f for f in self.fidelities if hasattr(f.observe, "warmup")]
        self._quoted: tuple[int, Any, dict[str, float]] = (-2, None, {})
        self._tick = -1

    def __repr__(self) -> str:
        names = ", ".join(f.name for f in self.fidelities)
        return f"<Detector of {self.model!r} over {names}: {self._tick + 1} ticks, spent {self.spent:g}>"

    # --- the loop --------------------------------------------------------------------------------------------

    @alone
    def choose(self, raw: Any = None) -> Fidelity:
        """The fidelity to read next. Asking changes nothing: until `update`, the answer stays the same.

        `raw` is what costs that are functions are asked about.
        """
        return self.fidelities[self.policy.choose(self.filter, self.seed, self._costs(raw))]

    def update(self, x: Any, fidelity: Fidelity | str | None = None, *, raw: Any = None) -> Step:
        """Tell what was read, at which fidelity (the chosen one unless told); bad input changes nothing.

        x is a number, or a sequence of them where the model's readings have several; `mfbocd.inputs.readings` lists
        the accepted types.

        None, or NaN with ``missing="skip"``, is a tick with no observation: the hazard acts, nothing is
        learnt. Its cost is paid if a fidelity is named: it was asked, and had no answer. A cost that is a function
        is as `choose` was told at this tick, or of `raw` if that was another.
        """
        if not self._lock.acquire(False):  # as `alone`, which takes twice as long
            raise in_use(self)
        try:
            known = self.by_name.get(fidelity) if type(fidelity) is str else None
            if known is None:
                known = self._resolve(fidelity, x, raw)
            value = self.taken(x)
            cost = 0.0 if known is None else known.cost if type(known.cost) is float else self._cost_of(known, raw)
            return self.tell(value, known, cost)
        finally:
            self._lock.release()

    @alone
    def step(self, raw: Any = None) -> Step:
        """Choose a fidelity, observe `raw` with it, and with no other, and update.

        A fidelity with no `observe` takes `raw` itself as the reading, which makes sense only if it is the
        only one. With `shadow`, now and then the best fidelity is read too, and is what the update uses. An
        observer with memory (`adapters.recurrent`) is fed the raws of the ticks at which it is not read.
        """
        if self.on_error == "raise" and not self.shadow and not self._recurrent:
            chosen = self.choose(raw)
            paid = self._cost_of(chosen, raw)  # asked before it reads, as below
            return self.tell(self._observe(chosen, raw), chosen, paid)
        quoted = self._shadowed(raw)
        if not quoted:
            chosen = self.choose(raw)
            quoted = {chosen.name: self._cost_of(chosen, raw)}
        wanted = [self.by_name[name] for name in quoted]
        others = self.fidelities if self.on_error == "fallback" else ()
        spare = [f for f in sorted(others, key=lambda f: -f.zeta) if f not in wanted]
        asked = set()
        told: list[tuple[Fidelity, Any]] = []
        cost, failed = 0.0, []
        first: Exception | None = None
        for f in (*wanted, *spare):
            # asked once, before it reads: a reading may change what the next costs
            extra = quoted[f.name] if f in wanted else f.cost_of(raw)
            if f in spare and (told or not self.policy.affords(cost + extra)):
                continue
            cost += extra
            asked.add(f.name)
            try:
                told.append((f, self._observe(f, raw)))
            except Exception as error:
                if self.on_error == "raise":
                    raise
                first = first or error
                failed.append(f.name)
        if not told and first is not None and self.missing == "raise":
            raise first
        said = None
        if len(told) == 2:
            low = told[1][0].name
            warning = self.shadow[low].observe(told[0][1], told[1][1])
            said = None if warning is None else f"{low}: {warning}"
        f, value = next((pair for pair in told if pair[1] is not None), told[0] if told else (wanted[0], None))
        step = self.tell(value, f, cost, tuple(failed), said)
        for f in self._recurrent:
            if f.name not in asked:
                f.observe.feed(raw)  # type: ignore[union-attr]
        return step

    def _shadowed(self, raw: Any) -> dict[str, float]:
        """The costs of the best fidelity and a lower one, at a tick at which a guard is to judge the pair."""
        tick = self._tick + 1
        due = [name for name, guard in self.shadow.items() if guard.due(tick)]
        if not due:
            return {}
        low = self.by_name[due[tick // self.shadow[due[0]].every % len(due)]]
        pair = {f.name: f.cost_of(raw) for f in (max(self.fidelities, key=lambda f: f.zeta), low)}
        return pair if self.policy.affords(sum(pair.values())) else {}

    def taken(self, x: Any) -> Any:
        """A reading as the filter takes it, None if it is missing and may be; an error if the model has no such."""
        # A chained comparison is the quickest test for a finite number: NaN fails it too.
        if type(x) is float and -math.inf < x < math.inf:
            return self._checked(x)
        return reading(self.model, x, self.missing)

    def tell(
        self,
        value: Any,
        known: Fidelity | None,
        cost: float,
        failed: tuple[str, ...] = (),
        warning: str | None = None,
        *,
        learn: bool = True,
    ) -> Step:
        """Move the belief by one tick, all of which is known to be sound, and pay for it: the end of `update`.

        With `learn=False` the policy is not told what was paid.
        """
        if value is None or known is None:
            report = self.filter.observe(self.nothing, 0.0)
        else:
            report = self.filter.observe(value, known.zeta)
        tick = self.count(cost)
        if learn and self.policy.learns:
            self.policy.record_cost((cost,))
        mean: Any
        mean, run, change, alarm, changed_at, confidence = report
        if self.model.dimension > 1:
            mean = tuple(self.filter.predictive(1.0)[0].tolist())
            value = None if value is None else tuple(value.tolist())
        seen = (tick, None if known is None else known.name, value, cost, mean, int(run), change)
        told = (True, int(changed_at), confidence) if alarm else (False, None, None)
        return tuple.__new__(Step, (*seen, *told, failed, warning))  # twice as fast as Step(...)

    def count(self, cost: float) -> int:
        """Count a tick by which the belief has moved, and what it cost; which tick it was."""
        self.spent += cost
        self._tick += 1
        return self._tick

    def _observe(self, fidelity: Fidelity, raw: Any) -> Any:
        """What a fidelity reads, checked; None of a skip, and of a missing reading if no other will be asked."""
        if fidelity.observe is not None:
            raw = fidelity.observe(raw)
        elif fidelity.zeta == 0.0:
            return None
        elif len(self.fidelities) > 1:
            raise TypeError(
                f"fidelity {fidelity.name!r} has no observe: give it one, or use choose() and update(x, fidelity)"
            )
        return reading(self.model, raw, self.missing if self.on_error == "raise" else "raise")

    def _costs(self, raw: Any) -> Array | None:
        """What each fidelity costs for this raw input, if that depends on it."""
        if not self.policy.priced:
            return None
        costs = {f.name: f.cost_of(raw) for f in self.fidelities}
        self._quoted = (self._tick, raw, costs)
        return np.array(list(costs.values()))

    def _cost_of(self, fidelity: Fidelity, raw: Any) -> float:
        """What a reading cost: as `choose` was told at this tick, since reading may change what the next costs."""
        tick, asked, costs = self._quoted
        if tick == self._tick and (raw is None or raw is asked):
            return costs[fidelity.name]
        return fidelity.cost_of(raw)

    def _resolve(self, fidelity: Fidelity | str | None, x: Any, raw: Any = None) -> Fidelity | None:
        if fidelity is None:
            return None if x is None else self.choose(raw)
        name = fidelity.name if isinstance(fidelity, Fidelity) else fidelity
        known = self.by_name.get(name) if isinstance(name, str) else None
        if known is None or (isinstance(fidelity, Fidelity) and fidelity != known):
            raise ValueError(f"fidelity must be one of {', '.join(self.by_name)}, not {fidelity!r}")
        return known

    # --- what is known ---------------------------------------------------------------------------------------

    @property
    def weighed(self) -> Gain | None:
        """The gain the policy weighs, where there is a choice."""
        return self.policy.gain if len(self.fidelities) > 1 else None

    @property
    def ticks(self) -> int:
        """Ticks so far."""
        return self._tick + 1

    @property
    @alone
    def run_length(self) -> RunLength:
        """The filtered posterior: `.length` and `.weight`, shortest first. r_t = 0: x_t began a new regime."""
        return self.filter.run_length

    @property
    def map_run_length(self) -> int | None:
        """The most probable run length; None before the first tick."""
        return int(self.filter.state[layout.RUN]) if self._tick >= 0 else None

    @alone
    def changed(self, within: int) -> float:
        """P(a regime began in the last `within` ticks): P(r_t < within), the stream's own start left out."""
        return self.filter.changed(within)

    @alone
    def regime(self, level: float = 0.9) -> Start:
        """When the current regime began: most probable tick, a `level` credible interval, P(that tick)."""
        if self._tick < 0:
            raise ValueError("no regime has begun: there was no tick yet")
        return self.filter.start(level_of(level))

    @property
    @alone
    def hazards(self) -> tuple[Array, Array]:
        """Candidate hazards and their posterior probabilities, of a `Learned` one; else the hazard's table and 1.

        >>> from mfbocd import Gaussian, Learned, simulate
        >>> stream = simulate.gaussian(Gaussian(0, 9, 1), hazard=0.05, ticks=1000, seed=1)
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=Learned())
        >>> for x in stream.table[:, 0]:
        ...     step = detector.update(x)
        >>> hazard, probability = detector.hazards
        >>> round(float(hazard @ probability), 2)
        0.06
        """
        candidates = self.filter.candidates
        return self.hazard.table, candidates if candidates.size else np.ones(1)

    @property
    def log_evidence(self) -> float:
        """log p(x_1 .. x_t), the sum of the log predictives."""
        return float(self.filter.state[layout.EVIDENCE])

    @property
    @alone
    def mean(self) -> Any:
        """E[x_{t+1}], a change at t + 1 allowed for (`bocd_predictive`); an array if x has several numbers."""
        return float(self.filter.state[layout.MEAN]) if self.model.dimension == 1 else self.filter.predictive(1.0)[0]

    @property
    @alone
    def variance(self) -> Any:
        """Var[x_{t+1}] of a full-fidelity reading; of each number, if it has several."""
        return self.filter.predictive(1.0)[1]

    @alone
    def interval(self, level: float = 0.9, fidelity: Fidelity | str | None = None) -> tuple[Any, Any]:
        """Where x_{t+1} will lie with probability `level`, equal tails, read at full fidelity unless told.

        Of a reading with several numbers each has an interval of its own.
        """
        known = None if fidelity is None else self._resolve(fidelity, 0.0)
        zeta = 1.0 if known is None else known.zeta
        if zeta == 0.0:
            raise ValueError(f"fidelity {fidelity!r} is a skip: it reads nothing that could lie anywhere")
        tail = 0.5 * (1.0 - level_of(level))
        return self.filter.quantile(tail, zeta), self.filter.quantile(1.0 - tail, zeta)

    @property
    @alone
    def parameter(self) -> tuple[Any, Any]:
        """Mean and variance of the current regime's parameter; arrays if there are several."""
        return self.filter.parameter()

    @alone
    def gains(self, raw: Any = None) -> Gains:
        """What each fidelity is expected to tell at the coming tick, and its cost: print it to see why."""
        chosen = self.choose(raw)
        told = {gain: expected_gains(self.filter, self.policy.zeta, gain) for gain in GAINS}
        rows = []
        for j, f in enumerate(self.fidelities):
            run_length, joint, variance = (float(told[gain][j]) for gain in GAINS)
            rows.append(FidelityGain(f.name, f.zeta, f.cost_of(raw), run_length, joint, variance, f is chosen))
        return Gains(rows)

    # --- saving ----------------------------------------------------------------------------------------------

    @alone
    def to_bytes(self) -> bytes:
        """Everything but functions as a small versioned binary; the loaded twin gives the same bits ever after.

        The same bits hold on one type of CPU with one set of library versions: docs/scale.md, "The same bits".
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
        """The saved detector. Functions are given again: `observers` and `costs` by name, `model` if it held any."""
        found: Self = from_bytes(cls, data, observers or {}, costs or {}, model)
        return found

    # --- when the stream or the ways to read it change ---------------------------------------------------------

    @alone
    def wait(self, ticks: int) -> Step:
        """Let `ticks` ticks pass with no reading and at no cost: a gap in irregular time. Returns the last step.

        >>> from mfbocd import Gaussian
        >>> detector = Detector(Gaussian(0, 9, 1), hazard=0.01, alarm=None)
        >>> step = detector.update(0.3)
        >>> detector.wait(100).tick, round(detector.changed(within=100), 3)  # 1 - 0.99^100
        (100, 0.634)
        """
        if isinstance(ticks, bool) or not isinstance(ticks, (int, np.integer)) or ticks < 1:
            raise ValueError(f"ticks must be a whole number of at least 1, not {ticks!r}")
        for _ in range(int(ticks)):
            step = self.tell(None, None, 0.0)
        return step

    @alone
    def reset(self) -> None:
        """Forget the stream: belief, ticks and alarms begin anew. Money spent and the price learnt are kept."""
        self.adopt(fresh_state(self.model, self.filter.setup, self.seed), self.spent)

    @alone
    def with_fidelities(self, fidelities: Iterable[Fidelity] | Fidelity, policy: Policy | None = None) -> Self:
        """The same belief with other ways to read: one more, one less, another zeta or a cost that drifted.

        The policy is the same with what it has learnt, a `Budget`'s price above all, unless another is given.

        >>> from mfbocd import Budget, Gaussian
        >>> imu, gps = Fidelity("imu", zeta=0.1, cost=1), Fidelity("gps", zeta=1.0, cost=40)
        >>> detector = Detector(Gaussian(0, 9, 1), [imu, gps], policy=Budget(share=0.3))
        >>> step = detector.update(0.2, "gps")
        >>> dearer = detector.with_fidelities([imu, Fidelity("gps", zeta=1.0, cost=60)])
        >>> dearer.ticks, dearer.spent, dearer.fidelities[1].cost
        (1, 40.0, 60.0)
        """
        same = policy is None
        if policy is None:
            policy = type(self.policy)(**self.policy.spec())
        other = type(self)(
            self.model,
            fidelities,
            self.hazard,
            policy=policy,
            prune=self.pruning,
            alarm=self.alarm,
            seed=self.seed,
            missing=self.missing,
            on_error=self.on_error,
        )
        if same:
            other.policy.restore(self.policy.state())
        known = {f.name for f in other.fidelities}
        other.shadow = {name: guard for name, guard in self.shadow.items() if name in known}
        other.adopt(self.filter.state.copy(), self.spent)
        return other

    @alone
    def __copy__(self) -> Self:
        """Another detector as this one is: they share what no tick changes, and the observers."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        other.filter, other.policy = copy.copy(self.filter), copy.copy(self.policy)
        other.filter.adopt(self.filter.state.copy())
        other.shadow = {name: copy.copy(guard) for name, guard in self.shadow.items()}
        return other

    def twin(self) -> Self:
        """`copy.copy` of this detector."""
        return copy.copy(self)

    @alone
    def advance(self, x: Array, zeta: Array, report: Array) -> None:
        """Many checked ticks of a compiled model at once: x and zeta (T, 1), `report` (T, FIELDS, 1) is filled."""
        assert self.model.advance is not None
        self.filter.make_room(len(x))
        board = np.zeros(2, dtype=np.int64)
        self.model.advance(self.filter.state[None], self.filter.setup, ONE_ROW, x, zeta, report, board)
        self._tick += len(x)

    def adopt(self, state: Array, spent: float) -> None:
        """Go on from another stream's state of the same set-up (loading, or a stream taken out of a fleet)."""
        self.filter.adopt(state)
        self._tick = self.filter.ticks - 1
        self.spent = spent
        self._quoted = (-2, None, {})  # of the stream before
