"""The rules that are compared: policies of the library, and peers that know both levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfbocd import Alarm, Fleet, Resample
from mfbocd.belief.gains import GAINS, Gain
from mfbocd.policy import Always, Budget, InformationRate, Net, Policy, Random

from . import peers
from .focus import focus
from .settings import ON_OR_OFF, PLAIN, Array, Drawn, Setting

Choices = NDArray[np.int64]
NEVER = 10**9
RATE = "paper's rate"
TUNED = "price tuned to the spend, change"
KEPT = 64  # run-length hypotheses of every filter


class Outcome(NamedTuple):
    """What happened on streams, tick by tick; after the alarm that ends a stream, nothing."""

    alarm: NDArray[np.bool_]
    """(T, n)"""
    choice: Choices
    """(T, n): the fidelity read, -1 if none."""

    def delays(self, drawn: Drawn, wait: int) -> Array:
        """Ticks of each new regime up to its alarm, that of the alarm included, (n, changes)."""
        ends = [*drawn.changes[1:], len(drawn.table)]
        found = np.empty((self.alarm.shape[1], len(drawn.changes)))
        for k, (change, end) in enumerate(zip(drawn.changes, ends, strict=True)):
            part = self.alarm[change : min(end, change + wait)]
            found[:, k] = np.where(part.any(axis=0), part.argmax(axis=0) + 1, len(part))
        return found

    def spent(self, setting: Setting, first: int) -> float:
        """Average cost from tick `first` on, as position between the cheapest and the most expensive fidelity."""
        choice = self.choice[first:]
        return setting.share(float(np.where(choice >= 0, setting.cost[choice], 0.0).mean()))


@dataclass(frozen=True)
class Rule:
    """A way to choose fidelities and to raise alarms.

    `design` fixes what depends on the setting, so that quiet streams spend what they should; `run` then needs only a
    threshold, in log odds or nats: a false alarm becomes about e times rarer with each unit.
    """

    name: str
    run: Callable[[Setting, str, float, Drawn, float, int], Outcome]
    """Of a setting, the kind of change, the design, streams, the threshold and a seed."""
    design: Callable[[Setting, str, float, float, int], float]
    """Of a setting, the kind of change, the spend, the threshold and a seed."""
    oracle: str = ""
    """What it knows beyond the model; empty for rules without such knowledge."""
    sized: bool = False
    """It knows the size of the change, so its design and threshold depend on it."""
    fixed: bool = False
    """It spends what it spends: there is nothing to choose."""


# --- policies of the library -------------------------------------------------------------------------------------

Chooser = Callable[[Fleet, int], Choices]


def follow(
    setting: Setting, policy: Policy, drawn: Drawn, threshold: float, seed: int, choose: Chooser | None = None
) -> Outcome:
    """Advance one detector per stream, each with a policy of its own, until its first alarm after the last change."""
    ticks, n, _ = drawn.table.shape
    fleet = Fleet(
        n,
        setting.model,
        setting.fidelities,
        setting.hazard,
        policy=policy,
        alarm=Alarm(setting.within, 1.0 / (1.0 + math.exp(-threshold)), **setting.alarm),
        prune=Resample(KEPT),
        share_policy=False,
        seed=seed,
        threads=1,
    )
    alarm, choice = np.zeros((ticks, n), dtype=np.bool_), np.full((ticks, n), -1, dtype=np.int64)
    alive = np.arange(n)
    last = drawn.changes[-1] if drawn.changes else NEVER
    for t in range(ticks):
        some = None if alive.size == n else alive
        chosen = fleet.choose(streams=some) if choose is None else choose(fleet, t)[alive]
        step = fleet.update(drawn.table[t, alive, chosen], chosen, streams=some)
        alarm[t, alive], choice[t, alive] = step.alarm, chosen
        if t >= last and step.alarm.any():
            alive = alive[~step.alarm]
            if not alive.size:
                break
    return Outcome(alarm, choice)


def _spend(setting: Setting, change: str, spend: float, threshold: float, seed: int) -> float:
    return spend


def _budget(gain: Gain) -> Rule:
    def run(setting: Setting, change: str, spend: float, drawn: Drawn, threshold: float, seed: int) -> Outcome:
        return follow(setting, Budget(share=spend, gain=gain), drawn, threshold, seed)

    return Rule(f"budget, {gain}", run, _spend)


def _random(setting: Setting, change: str, spend: float, drawn: Drawn, threshold: float, seed: int) -> Outcome:
    """The most expensive fidelity with the probability that spends as much, else the cheapest."""
    p = np.zeros(len(setting.fidelities))
    p[setting.cost.argmin()], p[setting.cost.argmax()] = 1.0 - spend, spend
    return follow(setting, Random(p.tolist()), drawn, threshold, seed)


def _periodic(setting: Setting, change: str, spend: float, drawn: Drawn, threshold: float, seed: int) -> Outcome:
    """The most expensive fidelity at equal distances, with a random phase for each stream, else the cheapest."""
    low, high = int(setting.cost.argmin()), int(setting.cost.argmax())
    phase = np.random.default_rng([seed, 2]).random(drawn.table.shape[1])

    def choose(fleet: Fleet, t: int) -> Choices:
        due = np.floor(phase + (t + 1) * spend) > np.floor(phase + t * spend)
        return np.where(due, high, low)

    return follow(setting, Always(), drawn, threshold, seed, choose)


def _always(index: int) -> Rule:
    def run(setting: Setting, change: str, spend: float, drawn: Drawn, threshold: float, seed: int) -> Outcome:
        return follow(setting, Always(setting.fidelities[index].name), drawn, threshold, seed)

    return Rule("always low" if index == 0 else "always high", run, _spend, fixed=True)


def _weighted_rate(setting: Setting, weight: float) -> InformationRate:
    """From 1 for the cheapest fidelity to `weight` for the most expensive one, geometrically in between."""
    last = len(setting.fidelities) - 1
    return InformationRate([weight ** (j / last) for j in range(last + 1)])


def _tuned(name: str, policy: Callable[[Setting, float], Policy], low: float, high: float) -> Rule:
    """A policy whose only argument, between `low` and `high`, is chosen so that quiet streams spend the budget."""

    def run(setting: Setting, change: str, argument: float, drawn: Drawn, threshold: float, seed: int) -> Outcome:
        return follow(setting, policy(setting, argument), drawn, threshold, seed)

    def design(setting: Setting, change: str, spend: float, threshold: float, seed: int) -> float:
        drawn = Drawn(setting.quiet(seed, 24, setting.lead + 1000), ())

        def spent(log_argument: float) -> float:
            return run(setting, change, math.exp(log_argument), drawn, threshold, seed).spent(setting, setting.lead)

        return math.exp(bisect(spent, spend, math.log(low), math.log(high), halvings=9))

    return Rule(name, run, design)


# --- peers -------------------------------------------------------------------------------------------------------

Peer = Callable[[Array, int, float, float], peers.Run]


def _each(peer: Peer, ratio: Array, drawn: Drawn, design: float, threshold: float) -> Outcome:
    last = drawn.changes[-1] if drawn.changes else NEVER
    runs = [peer(ratio[:, :, i], last, design, threshold) for i in range(ratio.shape[2])]
    return Outcome(np.stack([a for a, _ in runs], axis=1), np.stack([c for _, c in runs], axis=1))


def _data_efficient(ratio: Array, after: int, step: float, threshold: float) -> peers.Run:
    return peers.data_efficient_cusum(ratio, after, step, 100.0, threshold)


def _peer(name: str, peer: Peer, low: float, high: float, *, endless: bool = False) -> Rule:
    """A peer whose only argument, between e^low and e^high, is chosen so that quiet streams spend what they should.

    With `endless` this spend is that of streams on which no alarm is raised.
    """

    def run(setting: Setting, change: str, design: float, drawn: Drawn, threshold: float, seed: int) -> Outcome:
        ratio = np.ascontiguousarray(setting.ratio[change](drawn.table))
        return _each(peer, ratio, drawn, math.exp(design), threshold)

    def design(setting: Setting, change: str, spend: float, threshold: float, seed: int) -> float:
        drawn = Drawn(setting.quiet(seed, 40, setting.lead + 3000), ())

        def spent(log_argument: float) -> float:
            level = math.inf if endless else threshold
            return run(setting, change, log_argument, drawn, level, seed).spent(setting, setting.lead)

        return bisect(spent, spend, low, high, halvings=14)

    return Rule(name, run, design, oracle="knows both levels", sized=True)


def _watching(ratio: Array, after: int, design: float, threshold: float) -> peers.Run:
    return peers.suspicious_cusum(ratio, after, -1.0, threshold)  # always suspicious


def _focus(setting: Setting, change: str, design: float, drawn: Drawn, threshold: float, seed: int) -> Outcome:
    last = drawn.changes[-1] if drawn.changes else NEVER
    alarm = np.stack([focus(x, last, threshold) for x in drawn.table[:, :, -1].T], axis=1)
    return Outcome(alarm, np.full(alarm.shape, len(setting.fidelities) - 1))


SUSPICIOUS = _peer("CUSUM, both levels known", peers.suspicious_cusum, math.log(1e-4), math.log(12.0))
OPTIMAL = _peer("optimal rule, both levels known", peers.suspicious_shiryaev, 0.0, 12.0)
TWO_EXPERIMENTS = _peer("2E-CUSUM, both levels known", peers.two_experiment_cusum, math.log(1e-4), math.log(100.0))
# the duty cycle that DE-CuSum is defined by is that of streams without alarms
DATA_EFFICIENT = _peer("DE-CuSum, both levels known", _data_efficient, math.log(1e-4), math.log(10.0), endless=True)
WATCHING = replace(_peer("CUSUM at every tick, both levels known", _watching, 0.0, 1.0), design=_spend, fixed=True)
FOCUS = Rule("FOCuS at every tick, level before known", _focus, _spend, oracle="knows the level before", fixed=True)


def bisect(value: Callable[[float], float], wanted: float, low: float, high: float, *, halvings: int) -> float:
    """The argument between `low` and `high` at which a monotone function comes closest to `wanted`.

    >>> round(bisect(lambda x: x**2, 2.0, 0.0, 4.0, halvings=30), 4)
    1.4142
    """
    rising = value(high) > value(low)
    best = (math.inf, low)
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        found = value(middle)
        best = min(best, (abs(found - wanted), middle))
        low, high = (low, middle) if (found > wanted) == rising else (middle, high)
    return best[1]


OURS = "budget, change"
"""The rule whose losses are listed."""
RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("random", _random, _spend),
        Rule("periodic", _periodic, _spend),
        *(_budget(gain) for gain in GAINS),
        _tuned(RATE, _weighted_rate, 0.05, 50.0),
        _tuned(TUNED, lambda setting, price: Net(price, gain="change"), 1e-6, 1.0),
        _always(0),
        _always(-1),
        OPTIMAL,
        SUSPICIOUS,
        TWO_EXPERIMENTS,
        DATA_EFFICIENT,
        WATCHING,
        FOCUS,
    )
}


def rules_of(setting: Setting) -> list[Rule]:
    """The rules that make sense in a setting.

    Peers need a fixed size of change. With a skip DE-CuSum takes the place of those that always read; where there is
    nothing else to read, the best of them and FOCuS read every tick. With a skip the paper's rule never reads: before
    the first reading its gain is 0 at every fidelity. A price is tuned where DE-CuSum is tuned in the same way.
    """
    zeta = [f.zeta for f in setting.fidelities]
    reading = {OPTIMAL.name, SUSPICIOUS.name, TWO_EXPERIMENTS.name}
    out = set() if setting.ratio else reading | {DATA_EFFICIENT.name}
    out |= reading if 0.0 in zeta else {DATA_EFFICIENT.name}
    out |= {"always low", RATE} if zeta[0] == 0.0 else set()
    if zeta != [0.0, 1.0]:
        out |= {WATCHING.name, FOCUS.name}
    if setting.name == PLAIN:
        return [RULES[name] for name in ("always high", WATCHING.name, FOCUS.name)]
    if setting.name in ON_OR_OFF:
        out |= {"periodic", FOCUS.name}
    else:
        out.add(TUNED)
    return [rule for rule in RULES.values() if rule.name not in out]
