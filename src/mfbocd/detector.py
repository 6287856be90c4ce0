"""What a user holds: choose, observe, update; an alarm; save and load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np

from . import models
from ._kernels import layout as at
from .fidelity import Fidelity, checked
from .filter import Array, Filter, RunLength, Start, state_of, table
from .hazard import Hazard
from .information import GAINS, FidelityGain, Gains, expected_gains
from .models import Model
from .policy import POLICIES, Policy, policy_of
from .prune import DEFAULT, Prune, Pruning
from .saving import pack, unpack
from .shadow import ShadowGuard, guards_of
from .tick import NEVER, Alarm, Missing, Step, alarm_of, level_of, reading, seed_of

OnError = Literal["raise", "fallback"]


class Detector:
    """Multi-fidelity Bayesian online changepoint detection of one stream.

    Parameters
    ----------
    model: the conjugate family with its prior.
    fidelities: the ways to observe; without them one full observation a tick, ordinary BOCD.
    hazard: P(change) a tick, a number in (0, 1), or by run length: see `Hazard`.
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

    >>> detector = Detector(
    ...     models.Gaussian(mean=0, var=9, noise=1),
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
        self.model = model
        self.fidelities = checked(fidelities)
        self.hazard = Hazard(hazard)
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
        self.policy.prime(self.filter)
        self._known = {f.name: f for f in self.fidelities}
        self._recurrent = [f for f in self.fidelities if hasattr(f.observe, "warmup")]
        self._quoted: tuple[int, Any, dict[str, float]] = (-2, None, {})
        self._tick = -1

    def __repr__(self) -> str:
        names = ", ".join(f.name for f in self.fidelities)
        return f"<Detector of {self.model!r} over {names}: {self._tick + 1} ticks, spent {self.spent:g}>"

    # --- the loop --------------------------------------------------------------------------------------------

    def choose(self, raw: Any = None) -> Fidelity:
        """The fidelity to read next. Asking changes nothing: until `update`, the answer stays the same.

        `raw` is what costs that are functions are asked about.
        """
        return self.fidelities[self.policy.choose(self.filter, self.seed, self._costs(raw))]

    def update(self, x: float | None, fidelity: Fidelity | str | None = None, *, raw: Any = None) -> Step:
        """Tell what was read, at which fidelity (the chosen one unless told); bad input changes nothing.

        None, or NaN with ``missing="skip"``, is a tick with no observation: the hazard acts, nothing is
        learnt. Its cost is paid if a fidelity is named: it was asked, and had no answer. A cost that is a function
        is as `choose` was told at this tick, or of `raw` if that was another.
        """
        known = self._known.get(fidelity) if type(fidelity) is str else None
        if known is None:
            known = self._resolve(fidelity, x, raw)
        # A chained comparison is the quickest test for a finite number: NaN fails it too.
        if type(x) is float and -math.inf < x < math.inf:
            value: float | None = self.model.check(x)
        else:
            value = reading(self.model, x, self.missing)
        cost = 0.0 if known is None else known.cost if type(known.cost) is float else self._cost_of(known, raw)
        return self._tell(value, known, cost)

    def step(self, raw: Any = None) -> Step:
        """Choose a fidelity, observe `raw` with it, and with no other, and update.

        A fidelity with no `observe` takes `raw` itself as the reading, which makes sense only if it is the
        only one. With `shadow`, now and then the best fidelity is read too, and is what the update uses. An
        observer with memory (`adapters.recurrent`) is fed the raws of the ticks at which it is not read.
        """
        wanted = self._shadowed(raw) or [self.choose(raw)]
        others = self.fidelities if self.on_error == "fallback" else ()
        spare = [f for f in sorted(others, key=lambda f: -f.zeta) if f not in wanted]
        asked = set()
        told: list[tuple[Fidelity, float | None]] = []
        cost, failed = 0.0, []
        first: Exception | None = None
        for f in (*wanted, *spare):
            extra = f.cost_of(raw)  # asked before it reads: a reading may change what the next costs
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
        step = self._tell(value, f, cost, tuple(failed), said)
        for f in self._recurrent:
            if f.name not in asked:
                f.observe.feed(raw)  # type: ignore[union-attr]
        return step

    def _shadowed(self, raw: Any) -> list[Fidelity]:
        """The best fidelity and a lower one, at a tick at which a guard is to judge the pair; else none."""
        tick = self._tick + 1
        due = [name for name, guard in self.shadow.items() if guard.due(tick)]
        if not due:
            return []
        low = self._known[due[tick // self.shadow[due[0]].every % len(due)]]
        pair = [max(self.fidelities, key=lambda f: f.zeta), low]
        return pair if self.policy.affords(sum(f.cost_of(raw) for f in pair)) else []

    def _tell(
        self,
        value: float | None,
        known: Fidelity | None,
        cost: float,
        failed: tuple[str, ...] = (),
        warning: str | None = None,
    ) -> Step:
        """Move the belief by one tick that is known to be sound, and pay for it."""
        if value is None or known is None:
            report = self.filter.observe(0.0, 0.0)
        else:
            report = self.filter.observe(value, known.zeta)
        self.spent += cost
        self._tick += 1
        if self.policy.learns:
            self.policy.paid(np.array([cost]))
        mean, run, change, alarm, changed_at, confidence = report
        seen = (self._tick, None if known is None else known.name, value, cost, mean, int(run), change)
        told = (True, int(changed_at), confidence) if alarm else (False, None, None)
        return tuple.__new__(Step, (*seen, *told, failed, warning))  # twice as fast as Step(...)

    def _observe(self, fidelity: Fidelity, raw: Any) -> float | None:
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

    def _resolve(self, fidelity: Fidelity | str | None, x: float | None, raw: Any = None) -> Fidelity | None:
        if fidelity is None:
            return None if x is None else self.choose(raw)
        name = fidelity.name if isinstance(fidelity, Fidelity) else fidelity
        known = self._known.get(name) if isinstance(name, str) else None
        if known is None or (isinstance(fidelity, Fidelity) and fidelity != known):
            raise ValueError(f"fidelity must be one of {', '.join(self._known)}, not {fidelity!r}")
        return known

    # --- what is known ---------------------------------------------------------------------------------------

    @property
    def ticks(self) -> int:
        """Ticks so far."""
        return self._tick + 1

    @property
    def run_length(self) -> RunLength:
        """The filtered posterior: `.length` and `.weight`, shortest first. r_t = 0: x_t began a new regime."""
        return self.filter.run_length

    @property
    def map_run_length(self) -> int | None:
        """The most probable run length; None before the first tick."""
        return int(self.filter.state[at.RUN]) if self._tick >= 0 else None

    def changed(self, within: int) -> float:
        """P(a regime began in the last `within` ticks): P(r_t < within), the stream's own start left out."""
        return self.filter.changed(within)

    def regime(self, level: float = 0.9) -> Start:
        """When the current regime began: most probable tick, a `level` credible interval, P(that tick)."""
        if self._tick < 0:
            raise ValueError("no regime has begun: there was no tick yet")
        return self.filter.start(level_of(level))

    @property
    def log_evidence(self) -> float:
        """log p(x_1 .. x_t), the sum of the log predictives."""
        return float(self.filter.state[at.EVIDENCE])

    @property
    def mean(self) -> float:
        """E[x_{t+1}], a change at t + 1 allowed for (equation `bocd_predictive`)."""
        return float(self.filter.state[at.MEAN])

    @property
    def variance(self) -> float:
        """Var[x_{t+1}] of a full-fidelity reading."""
        return self.filter.predictive(1.0)[1]

    def interval(self, level: float = 0.9, fidelity: Fidelity | str | None = None) -> tuple[float, float]:
        """Where x_{t+1} will lie with probability `level`, equal tails, read at full fidelity unless told."""
        known = None if fidelity is None else self._resolve(fidelity, 0.0)
        zeta = 1.0 if known is None else known.zeta
        if zeta == 0.0:
            raise ValueError(f"fidelity {fidelity!r} is a skip: it reads nothing that could lie anywhere")
        tail = 0.5 * (1.0 - level_of(level))
        return self.filter.quantile(tail, zeta), self.filter.quantile(1.0 - tail, zeta)

    @property
    def parameter(self) -> tuple[float, float]:
        """Mean and variance of the current regime's parameter."""
        return self.filter.parameter()

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

    def to_bytes(self) -> bytes:
        """Everything but functions as a small versioned binary; the loaded twin gives the same bits ever after."""
        try:
            spec = {"kind": type(self.model).__name__, **self.model.spec()}
        except TypeError:
            spec = {"kind": type(self.model).__name__}
        live = table(self.filter.state)
        facts = {
            "model": spec,
            "fidelities": [[f.name, f.zeta, None if callable(f.cost) else f.cost] for f in self.fidelities],
            "policy": {"kind": type(self.policy).__name__, **self.policy.spec()},
            "learnt": self.policy.state(),
            "on_error": self.on_error,
            "shadow": {name: guard.spec() for name, guard in self.shadow.items()},
            "pruning": asdict(self.pruning),
            "alarm": asdict(self.alarm) if self.alarm else None,
            "seed": self.seed,
            "missing": self.missing,
            "spent": self.spent,
            "rows": live.shape[0],
        }
        head = self.filter.state[: at.HEAD].copy()
        head[at.CAP] = 0.0  # how much room there happens to be is no part of the state
        return pack(facts, {"hazard": self.hazard.table, "head": head, "live": live.ravel()})

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        observers: Mapping[str, Callable[[Any], Any]] | None = None,
        costs: Mapping[str, Callable[[Any], float]] | None = None,
        model: Model | None = None,
    ) -> Detector:
        """The saved detector. Functions are given again: `observers` and `costs` by name, `model` if it held any."""
        facts, arrays = unpack(data)
        spec = facts["model"]
        kind = spec.pop("kind")
        if model is None:
            if not spec or not hasattr(models, kind):
                raise ValueError(f"the saved detector's model is {kind}, which holds functions: pass model=")
            model = getattr(models, kind)(**spec)
        elif type(model).__name__ != kind:
            raise ValueError(f"the saved detector's model is {kind}, not {model!r}")
        known = {name for name, _, _ in facts["fidelities"]}
        observers, costs = dict(observers or {}), dict(costs or {})
        for field, given in (("observers", observers), ("costs", costs)):
            for name in given:
                if name not in known:
                    raise ValueError(f"{field} names {name!r}, which is none of {', '.join(sorted(known))}")
        fidelities = []
        for name, zeta, cost in facts["fidelities"]:
            if cost is None and name not in costs:
                raise ValueError(f"the cost of {name!r} was a function, which bytes cannot carry: pass costs=")
            fidelities.append(Fidelity(name, zeta, costs.get(name, cost), observers.get(name)))
        policy = dict(facts["policy"])
        detector = cls(
            model,
            fidelities,
            Hazard(arrays["hazard"]),
            policy=POLICIES[policy.pop("kind")](**policy),
            prune=Pruning(**facts["pruning"]),
            alarm=Alarm(**facts["alarm"]) if facts["alarm"] else None,
            seed=facts["seed"],
            missing=facts["missing"],
            on_error=facts["on_error"],
            shadow={name: ShadowGuard.from_spec(spec) for name, spec in facts["shadow"].items()},
        )
        detector.policy.restore(facts["learnt"])
        if model.columns + at.STATS != facts["rows"]:
            raise ValueError(
                f"the saved detector has {facts['rows'] - at.STATS} statistics, {model!r} {model.columns}"
            )
        live = arrays["live"].reshape(facts["rows"], -1)
        detector.adopt(state_of(model, arrays["head"], live, int(detector.filter.state[at.CAP])), facts["spent"])
        return detector

    def advance(self, x: Array, zeta: Array, report: Array) -> None:
        """Many checked ticks of a compiled model at once: x and zeta (T, 1), `report` (T, FIELDS, 1) is filled."""
        assert self.model.advance is not None
        self.filter.make_room(len(x))
        board = np.zeros(2, dtype=np.int64)
        self.model.advance(self.filter.state[None], self.filter.setup, x, zeta, report, board)
        self._tick += len(x)

    def adopt(self, state: Array, spent: float) -> None:
        """Go on from another stream's state of the same set-up (loading, or a stream taken out of a fleet)."""
        self.filter.adopt(state)
        self._tick = self.filter.ticks - 1
        self.spent = spent
