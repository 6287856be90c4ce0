"""What a user holds: choose, observe, update; an alarm; save and load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from . import models
from ._kernels import layout as at
from .fidelity import Fidelity, checked
from .filter import Array, Filter, RunLength, Start, state_of, table
from .hazard import Hazard
from .models import Model
from .models.base import finite
from .policy import POLICIES, Always, Policy
from .prune import DEFAULT, Prune, Pruning
from .saving import pack, unpack

Missing = Literal["raise", "skip"]
NEVER = 2.0  # an alarm level no probability reaches


@dataclass(frozen=True)
class Alarm:
    """Fire when P(a change within the last `within` ticks) reaches `threshold`.

    One change is one alarm: after it fires, only regimes that began later than that tick count towards the
    next. `within` must be long enough for the evidence to gather: a change is no longer seen once it is older.

    >>> Alarm(within=30, threshold=0.9)
    Alarm(within=30, threshold=0.9)
    """

    within: int = 50
    threshold: float = 0.9

    def __post_init__(self) -> None:
        if isinstance(self.within, bool) or not isinstance(self.within, int):
            raise TypeError(f"Alarm.within must be a whole number, not {self.within!r}")
        if self.within < 1:
            raise ValueError(f"Alarm.within must be at least 1, not {self.within!r}")
        if not 0.0 < finite("Alarm", "threshold", self.threshold) <= 1.0:
            raise ValueError(f"Alarm.threshold must lie in (0, 1], not {self.threshold!r}")


class Step(NamedTuple):
    """The record of one tick."""

    tick: int
    """0 for the first."""
    fidelity: str | None
    """Name of the fidelity read; None where time merely passed."""
    x: float | None
    """The reading; None if it was missing."""
    cost: float
    mean: float
    """E[x_{t+1}] after this tick."""
    run_length: int
    """MAP of r_t: ticks since the first of the current regime."""
    p_change: float
    """P(change within the alarm's window)."""
    alarm: bool
    changed_at: int | None
    """At an alarm, the tick the new regime most probably began at."""
    confidence: float | None
    """At an alarm, P(a regime began after the last alarm, within the window)."""


class Detector:
    """Multi-fidelity Bayesian online changepoint detection of one stream.

    Parameters
    ----------
    model: the conjugate family with its prior.
    fidelities: the ways to observe; without them one full observation a tick, ordinary BOCD.
    hazard: P(change) a tick, a number in (0, 1), or by run length: see `Hazard`.
    policy: how the next fidelity is chosen; without one, the fidelity with the largest zeta every time.
    prune: how hypotheses are kept few; None is exact, and grows by one hypothesis a tick. The default bounds
        memory: `docs/pruning.md` says what that costs.
    alarm: an `Alarm`, just its threshold, or None for no alarms.
    seed: of the policy's and the resampling's draws.
    missing: what a reading of None or NaN does: "raise", or "skip" for a tick at which nothing was learnt.

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
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model must be one of mfbocd's models, such as Gaussian(0, 9, 1), not {model!r}")
        if missing not in ("raise", "skip"):
            raise ValueError(f"missing must be 'raise' or 'skip', not {missing!r}")
        self.model = model
        self.fidelities = checked(fidelities)
        self.hazard = Hazard(hazard)
        self.alarm = alarm_of(alarm)
        self.pruning = Pruning.of(prune)
        self.seed = seed_of(seed)
        self.missing: Missing = missing
        self.policy = policy_of(policy).bind(self.fidelities)
        self.spent = 0.0
        within, threshold = (self.alarm.within, self.alarm.threshold) if self.alarm else (1, NEVER)
        self.filter = Filter(model, self.hazard, self.pruning, within=within, threshold=threshold, seed=self.seed)
        self._known = {f.name: f for f in self.fidelities}
        self._tick = -1

    def __repr__(self) -> str:
        names = ", ".join(f.name for f in self.fidelities)
        return f"<Detector of {self.model!r} over {names}: {self._tick + 1} ticks, spent {self.spent:g}>"

    # --- the loop --------------------------------------------------------------------------------------------

    def choose(self) -> Fidelity:
        """The fidelity to read next. Asking changes nothing: until `update`, the answer stays the same."""
        return self.fidelities[self.policy.choose(self.filter, self.seed)]

    def update(self, x: float | None, fidelity: Fidelity | str | None = None) -> Step:
        """Tell what was read, at which fidelity (the chosen one unless told); bad input changes nothing.

        None, or NaN with ``missing="skip"``, is a tick with no observation: the hazard acts, nothing is
        learnt. Its cost is paid if a fidelity is named: it was asked, and had no answer.
        """
        known = self._known.get(fidelity) if type(fidelity) is str else None
        if known is None:
            known = self._resolve(fidelity, x)
        # A chained comparison is the quickest test for a finite number: NaN fails it too.
        if type(x) is float and -math.inf < x < math.inf:
            value: float | None = self.model.check(x)
        else:
            value = self._reading(x)
        if value is None:
            report = self.filter.observe(0.0, 0.0)
        else:
            assert known is not None
            report = self.filter.observe(value, known.zeta)
        name, cost = (None, 0.0) if known is None else (known.name, known.cost)
        self.spent += cost
        self._tick += 1
        mean, run, change, alarm, changed_at, confidence = report
        seen = (self._tick, name, value, cost, mean, int(run), change)
        told = (True, int(changed_at), confidence) if alarm else (False, None, None)
        return tuple.__new__(Step, seen + told)  # twice as fast as Step(...)

    def step(self, raw: Any = None) -> Step:
        """Choose a fidelity, observe `raw` with it, and with no other, and update.

        A fidelity with no `observe` takes `raw` itself as the reading, which makes sense only if it is the
        only one.
        """
        fidelity = self.choose()
        if fidelity.observe is not None:
            return self.update(fidelity.observe(raw), fidelity.name)
        if len(self.fidelities) > 1:
            raise TypeError(
                f"fidelity {fidelity.name!r} has no observe: give it one, or use choose() and update(x, fidelity)"
            )
        return self.update(raw, fidelity.name)

    def _resolve(self, fidelity: Fidelity | str | None, x: float | None) -> Fidelity | None:
        if fidelity is None:
            return None if x is None else self.choose()
        name = fidelity.name if isinstance(fidelity, Fidelity) else fidelity
        known = self._known.get(name) if isinstance(name, str) else None
        if known is None or (isinstance(fidelity, Fidelity) and fidelity != known):
            raise ValueError(f"fidelity must be one of {', '.join(self._known)}, not {fidelity!r}")
        return known

    def _reading(self, x: Any) -> float | None:
        return reading(self.model, x, self.missing)

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
        if isinstance(within, bool) or not isinstance(within, (int, np.integer)) or within < 1:
            raise ValueError(f"within must be a whole number of at least 1, not {within!r}")
        return self.filter.changed(int(within))

    def regime(self, level: float = 0.9) -> Start:
        """When the current regime began: most probable tick, a `level` credible interval, P(that tick)."""
        if self._tick < 0:
            raise ValueError("no regime has begun: there was no tick yet")
        return self.filter.start(_level(level))

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
        tail = 0.5 * (1.0 - _level(level))
        return self.filter.quantile(tail, zeta), self.filter.quantile(1.0 - tail, zeta)

    @property
    def parameter(self) -> tuple[float, float]:
        """Mean and variance of the current regime's parameter."""
        return self.filter.parameter()

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
            "fidelities": [[f.name, f.zeta, f.cost] for f in self.fidelities],
            "policy": {"kind": type(self.policy).__name__, **self.policy.spec()},
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
        model: Model | None = None,
    ) -> Detector:
        """The saved detector. Functions are given again: `observers` by fidelity name, `model` if it held any."""
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
        for name in observers or {}:
            if name not in known:
                raise ValueError(f"observers names {name!r}, which is none of {', '.join(sorted(known))}")
        policy = dict(facts["policy"])
        detector = cls(
            model,
            [Fidelity(name, zeta, cost, (observers or {}).get(name)) for name, zeta, cost in facts["fidelities"]],
            Hazard(arrays["hazard"]),
            policy=POLICIES[policy.pop("kind")](**policy),
            prune=Pruning(**facts["pruning"]),
            alarm=Alarm(**facts["alarm"]) if facts["alarm"] else None,
            seed=facts["seed"],
            missing=facts["missing"],
        )
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


def reading(model: Model, x: Any, missing: Missing) -> float | None:
    """A reading as a float the model can have produced, None if it is missing and may be; else an error."""
    if x is None or (isinstance(x, (float, np.floating)) and math.isnan(x)):
        if missing == "skip":
            return None
        raise ValueError(f"x is {x!r}: pass missing='skip' if a reading may be missing")
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    if not isinstance(x, (bool, int, float, np.bool_, np.integer, np.floating)):
        raise TypeError(f"x must be a number, not {x!r}")
    value = float(x)
    if math.isinf(value):
        raise ValueError(f"x must be finite, not {x!r}")
    return model.check(value)


def alarm_of(alarm: Alarm | float | None) -> Alarm | None:
    """An Alarm from itself, from a threshold, or none."""
    if alarm is None or isinstance(alarm, Alarm):
        return alarm
    return Alarm(threshold=finite("Detector", "alarm", alarm))


def seed_of(seed: int) -> int:
    """A seed the kernels can hold."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed must be a whole number, not {seed!r}")
    if not 0 <= seed < 2**53:
        raise ValueError(f"seed must lie in [0, 2**53), not {seed!r}")
    return int(seed)


def policy_of(policy: Policy | None) -> Policy:
    """The policy, or the default."""
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy must be a policy such as Always('gps'), not {policy!r}")
    return Always() if policy is None else policy


def _level(level: float) -> float:
    if not 0.0 < finite("Detector", "level", level) < 1.0:
        raise ValueError(f"level must lie in (0, 1), not {level!r}")
    return float(level)
