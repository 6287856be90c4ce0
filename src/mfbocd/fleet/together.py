"""One tick of many detectors at once, each with ticks, seed and policy of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.told import SCALE, crc_tables, gather, tell
from ..belief.gains import CODE, expected_gains
from ..detector.detector import Detector
from ..detector.serialization import Serializer
from ..detector.step import Step
from ..policy import Budget, Net
from ..policy.base import Policy, largest_net, largest_nets
from ..policy.fidelity import Fidelity

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

_CRC = crc_tables()


class Moved(NamedTuple):
    """What a tick made of a detector."""

    step: Step
    spent: float
    """By all ticks so far."""
    likely: list[list[float]]
    """[run length, probability], rounded, of the likely run lengths, shortest first."""
    gains: list[float]
    """Of each fidelity at the coming tick, if the policy weighs any."""
    chosen: Fidelity
    """At the coming tick."""
    price: float | None
    """The gain one unit of cost must buy, where the policy has such a price."""
    saved: bytes
    """`Detector.to_bytes`."""


class Kind:
    """What detectors have in common that one pass of the kernels moves: there is one object of each kind.

    Fidelities of a kind are equal in zeta and cost and may differ in name; seeds, the treatment of missing readings
    and what a policy has learnt are a detector's own: they are taken from each, never from the first.
    """

    def __init__(self, bounded: bool) -> None:
        self.bounded = bounded
        """Whether states have their size for good."""


_KINDS: WeakValueDictionary[tuple[Any, ...], Kind] = WeakValueDictionary()


def kind_of(detector: Detector) -> Kind | None:
    """A detector's kind; None if there are no kernels for many of them."""
    model, policy = detector.model, detector.policy
    if model.advance is None or model.dimension > 1:
        return None
    bounded = detector.pruning.most > 0
    made = type(model), detector._filter.setup.tobytes(), detector._filter.state.size if bounded else 0
    ways = policy.zeta.tobytes(), policy.cost.tobytes()
    return _KINDS.setdefault((*made, *ways, type(policy), policy.gain, _batch_key(policy)), Kind(bounded))


class Seat:
    """A detector that is moved together with others; what is the same at every tick is found once.

    >>> from mfbocd import Gaussian
    >>> one, other = Seat(Detector(Gaussian(0, 9, 1))), Seat(Detector(Gaussian(0, 9, 1)))
    >>> one.kind is other.kind
    True
    """

    __slots__ = ("detector", "kind", "policy", "serializer")

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.renew()

    def renew(self) -> None:
        """The detector's policy is another."""
        self.policy, self.kind = self.detector.policy, kind_of(self.detector)
        self.serializer = Serializer(self.detector)


class Mover:
    """Moves detectors by one tick: those of a kind in one pass of the kernels, to the bit as each would alone.

    Parameters
    ----------
    least: the probability from which a run length is told.
    rows: how many are told at most, the most probable.

    >>> from mfbocd import Gaussian
    >>> detectors = [Detector(Gaussian(0, 9, 1)) for _ in range(2)]
    >>> full = detectors[0].fidelities[0]
    >>> moved = Mover(least=0.01, rows=16).move([Seat(d) for d in detectors], [0.3, 0.5], [full, full])
    >>> [(m.step.tick, m.step.x, m.likely) for m in moved]
    [(0, 0.3, [[0, 1.0]]), (0, 0.5, [[0, 1.0]])]
    >>> moved[1].saved == detectors[1].to_bytes()
    True
    """

    def __init__(self, least: float, rows: int) -> None:
        self.least, self.rows = least, rows
        # Used again and again: as much memory as many states take is new to the process each time, and slow.
        self._states, self._share = np.empty(0), np.empty(0)
        self._length, self._ends, self._stops = (np.empty(0, dtype=np.int64) for _ in range(3))
        self._saved = np.empty(0, dtype=np.uint64)

    def move(
        self,
        seats: Sequence[Seat],
        values: Sequence[Any],
        known: Sequence[Fidelity],
        prices: Sequence[float | None] = (),
    ) -> list[Moved]:
        """One tick of each, with a reading as `Detector._accept` gives it, at a fidelity of known cost.

        Where a price is given, the choice is the largest net gain at it, and the policy learns nothing: it is of a
        stream that shares a budget with others.

        An error is of all: what became of which detector is not said, and they are to be made again from their bytes.
        """
        found: dict[int, Moved] = {}
        alike: dict[Any, list[int]] = defaultdict(list)
        for i, seat in enumerate(seats):
            if seat.policy is not seat.detector.policy:
                seat.renew()
            kind = seat.kind
            own = not prices or prices[i] is None
            if kind is None or len(seats) == 1:
                found[i] = self._one(seat, values[i], known[i], None if own else prices[i])
            elif kind.bounded:
                alike[kind, own].append(i)
            else:
                belief = seat.detector._filter
                belief.make_room(1)
                alike[kind, own, belief.state.size].append(i)
        for key, many in alike.items():
            given = () if key[1] else [prices[i] for i in many]
            parts = (seats, values, known)
            if len(many) < len(seats):
                parts = [seats[i] for i in many], [values[i] for i in many], [known[i] for i in many]
            found.update(zip(many, self._many(*parts, given), strict=True))
        return [found[i] for i in range(len(seats))]

    def _one(self, seat: Seat, value: Any, known: Fidelity, price: float | None) -> Moved:
        detector = seat.detector
        step = detector._apply(value, known, known.cost_of(), learn=price is None)
        state, addresses = detector._filter.state[None], _addresses([detector])  # it is put back where it is already
        (likely,), (saved,) = self._told(state, [seat], addresses)
        return Moved(step, detector.spent, likely, *decided(detector, price), saved)

    def _many(
        self,
        seats: Sequence[Seat],
        values: Sequence[Any],
        known: Sequence[Fidelity],
        given: Sequence[float | None],
    ) -> list[Moved]:
        """Those of one kind. What is done for each takes longer than the kernels: columns all through, not rows."""
        detectors, policies = [seat.detector for seat in seats], [seat.policy for seat in seats]
        n, like, policy = len(seats), detectors[0], policies[0]
        size, setup = like._filter.state.size, like._filter.setup
        self._states = _room(self._states, n * size)
        states = self._states[: n * size].reshape(n, size)
        addresses = _addresses(detectors)
        gather(addresses, states)
        x = np.array([[like._no_reading if value is None else value for value in values]])
        zeta = np.array([[0.0 if v is None else fidelity.zeta for fidelity, v in zip(known, values, strict=True)]])
        report = np.empty((1, layout.FIELDS, n))
        assert like.model.advance is not None
        like.model.advance(states, setup, np.arange(n), x, zeta, report, _board())
        out = np.empty((n, policy.zeta.size))
        if like._gain is not None:
            assert like.model.gains is not None
            like.model.gains(states, setup, np.arange(n), policy.zeta, CODE[like._gain], out, _board())
        costs = [fidelity.cost_of() for fidelity in known]
        ticks = [detector._count_tick(cost) for detector, cost in zip(detectors, costs, strict=True)]
        spent = [detector.spent for detector in detectors]
        if not given and policy.learns:
            _record(policies, costs)
        prices = given or [_price(policy) for policy in policies]
        gains: list[list[float]] = [[]] * n
        chosen: list[Fidelity] = []
        if like._gain is not None:
            gains = out.tolist()
            if given or isinstance(policy, Net) or (isinstance(policy, Budget) and policy.cap is None):
                picked = largest_nets(out, policy.cost, np.array(prices, dtype=float)).tolist()
            else:
                picked = [d.policy.pick_one(g, d.seed, d.ticks) for d, g in zip(detectors, gains, strict=True)]
            chosen = [d.fidelities[j] for d, j in zip(detectors, picked, strict=True)]  # a kind has no names
        likely, saved = self._told(states, seats, addresses)
        if like._gain is None:
            chosen = [detector.choose() for detector in detectors]
        steps = map(_step, zip(*_columns(ticks, known, values, costs, report[0]), strict=False))
        return list(map(_moved, zip(steps, spent, likely, gains, chosen, prices, saved, strict=True)))

    def _told(
        self, states: Array, seats: Sequence[Seat], addresses: Numbers
    ) -> tuple[list[list[list[float]]], list[bytes]]:
        """The likely run lengths of each state and its detector as bytes; it is put back to its address."""
        n = len(states)
        numbers, checks = np.empty((n, 0)), np.zeros(n, dtype=np.uint64)
        self._length, self._share = _room(self._length, n * self.rows), _room(self._share, n * self.rows)
        self._saved = _room(self._saved, states.size + n)
        self._ends, self._stops = _room(self._ends, n), _room(self._stops, n)
        length, share, ends, saved, stops = self._length, self._share, self._ends, self._saved, self._stops
        tell(states, self.least, self.rows, length, share, ends, numbers, checks, _CRC, saved, stops, addresses)
        places = ends[:n].tolist()
        shares = (share[: places[-1]] / SCALE).tolist()
        pairs = list(map(list, zip(length[: places[-1]].tolist(), shares, strict=True)))
        likely = [pairs[low:high] for low, high in zip([0, *places], places, strict=False)]
        return likely, [seat.serializer.write(seat.detector) for seat in seats]


def decided(detector: Detector, given: float | None = None) -> tuple[list[float], Fidelity, float | None]:
    """`Moved.gains`, `chosen` and `price` of a detector: the choice of `Detector.choose`, the gains weighed once.

    If a price is given, the choice is the largest net gain at it.

    >>> from mfbocd import Gaussian, Net
    >>> detector = Detector(Gaussian(0, 9, 1), [Fidelity("imu", 0.1, 1), Fidelity("gps", 1, 40)], policy=Net(0.01))
    >>> gains, chosen, price = decided(detector)
    >>> [round(gain, 2) for gain in gains], chosen.name, price
    ([0.32, 1.15], 'gps', 0.01)
    """
    policy, weighed = detector.policy, detector._gain
    price = _price(policy) if given is None else given
    if weighed is None:
        return [], detector.choose(), price
    gains = expected_gains(detector._filter, policy.zeta, weighed).tolist()
    if given is None:
        picked = policy.pick_one(gains, detector.seed, detector.ticks)
    else:
        picked = largest_net(gains, policy.costs, given)
    return gains, detector.fidelities[picked], price


def _batch_key(policy: Policy) -> tuple[Any, ...]:
    if isinstance(policy, Budget):
        return policy.target, policy._unit, policy._began, policy.cap
    return ()


def _record(policies: Sequence[Policy], costs: Sequence[float]) -> None:
    like = policies[0]
    if not isinstance(like, Budget) or not like.numeric:
        for policy, cost in zip(policies, costs, strict=True):
            policy.record_cost((cost,))
        return
    budgets = [policy for policy in policies if isinstance(policy, Budget)]
    learnt = like.learn(np.array([(p.log_price, p.debt, p.ticks) for p in budgets]), np.array(costs))
    for p, (log_price, debt, _) in zip(budgets, learnt.tolist(), strict=True):
        p.log_price, p.debt = log_price, debt
        p.ticks += 1


def _price(policy: Policy) -> float | None:
    """The gain one unit of cost must buy now, if there is such a price."""
    return getattr(policy, "price", None)


# a named tuple of a tuple without a call in Python, which would take four times as long
_step: Callable[[tuple[Any, ...]], Step] = partial(tuple.__new__, Step)
_moved: Callable[[tuple[Any, ...]], Moved] = partial(tuple.__new__, Moved)


def _columns(
    ticks: Sequence[int], known: Sequence[Fidelity], values: Sequence[Any], costs: Sequence[float], report: Array
) -> list[Iterable[Any]]:
    """The fields of steps, as `Detector._apply` fills them in."""
    mean, run, change, fired, changed_at, confidence = report
    names, alarm = [fidelity.name for fidelity in known], fired.astype(bool).tolist()
    when: Iterable[Any] = repeat(None)
    sure: Iterable[Any] = repeat(None)
    if True in alarm:
        when = [int(t) if a else None for t, a in zip(changed_at, alarm, strict=True)]
        sure = [p if a else None for p, a in zip(confidence.tolist(), alarm, strict=True)]
    runs = run.astype(np.int64).tolist()
    seen = [ticks, names, values, costs, mean.tolist(), runs, change.tolist()]
    return [*seen, alarm, when, sure, repeat(()), repeat(None)]


def _addresses(detectors: Sequence[Detector]) -> Numbers:
    return np.array([detector._filter.address for detector in detectors], dtype=np.int64)


def _board() -> Numbers:
    """Of kernels that threads could share (`_kernels.work_queue`): here one does all."""
    return np.zeros(2, dtype=np.int64)


def _room(array: NDArray[T], size: int) -> NDArray[T]:
    """The array, or another of at least this size."""
    return array if array.size >= size else np.empty(2 * size, dtype=array.dtype)
