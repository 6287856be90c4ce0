"""Many streams of one kind, advanced together."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import RLock, Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels import layout
from .._kernels.work_queue import BLOCK, stop
from ..belief.filter import Array, Filter, RunLength, observe
from ..belief.gains import CODE, Gain, expected_gains
from ..belief.hazard import Hazard
from ..belief.pruning import DEFAULT, Prune, Pruning
from ..belief.state import with_room
from ..detector.detector import Detector
from ..detector.lock import alone
from ..detector.step import Alarm, Missing, readings, report_fields, seed_of
from ..inputs.readings import cells
from ..models import Model
from ..models.base import room_for
from ..policy import Always, Choices, Policy, draw_uniform, policy_of
from ..policy.fidelity import Fidelity


@dataclass(slots=True)
class FleetStep:
    """The record of one tick of every stream: arrays of length n, as in `Step`."""

    tick: int
    choice: Choices
    """Index of the fidelity read."""
    x: Array
    """NaN if missing."""
    cost: Array
    mean: Array
    run_length: NDArray[np.int64]
    p_change: Array
    alarm: NDArray[np.bool_]
    changed_at: NDArray[np.int64]
    """At an alarm the tick the new regime most probably began at; else -1."""
    confidence: Array
    """At an alarm P(a regime began after the last alarm, within the window); else NaN."""


class Crew:
    """Threads that run the same kernel on the same board (`_kernels.work_queue`) as the caller does.

    A queue and bare threads rather than an executor: it needs no futures, and handing over takes 2 us, not 10.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def share(self, kernel: Callable[..., None], arguments: tuple[Any, ...], streams: int, threads: int) -> None:
        """Run the kernel on this thread and up to `threads - 1` others; returns when every stream is done.

        The last of the arguments is the board. An error of any thread is one here: what became of the streams is not
        known then.
        """
        job = Job(kernel, arguments, streams, [])
        for _ in range(self._staff(min(threads, -(-streams // BLOCK)) - 1)):
            self._jobs.put(job)
        job.work()
        if job.errors:
            raise job.errors[0]

    def _staff(self, wanted: int) -> int:
        """How many others there are for the work, at most those wanted: dead ones are replaced, as after a fork."""
        if wanted <= 0:
            return 0
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if not self._threads:
            self._jobs = SimpleQueue()  # of a forked process: what stood in the other's
        while len(self._threads) < wanted:
            thread = Thread(target=_work, args=(self._jobs,), name="mfbocd-fleet", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter ends: this one can do all of it
                break
            self._threads.append(thread)
        return min(wanted, len(self._threads))

    def __del__(self) -> None:
        for _ in getattr(self, "_threads", ()):
            self._jobs.put(None)


class Job(NamedTuple):
    """A kernel, its arguments, how many streams it is for, and what went wrong."""

    kernel: Callable[..., None]
    arguments: tuple[Any, ...]
    streams: int
    errors: list[BaseException]

    def work(self) -> None:
        """Run it. Whoever fails lets go those who wait, in a kernel, for what it had taken."""
        try:
            self.kernel(*self.arguments)
        except BaseException as error:
            self.errors.append(error)
            stop(self.arguments[-1], self.streams)


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.work()
        del job  # or it would keep a fleet's states until the next


class Fleet:
    """`n` streams with the same model, fidelities, hazard and policy, in one flat array.

    Stream i is what ``Detector(..., seed=seed + i)`` would be, to the bit (on one type of CPU with one set of library
    versions: docs/scale.md, "The same bits"); `detector(i)` takes it out.
    One thread at a time may use a fleet, which has threads of its own; a second one gets a RuntimeError.

    >>> from mfbocd import Gaussian
    >>> fleet = Fleet(3, Gaussian(0, 9, 1), hazard=0.01)
    >>> for x in ([0.0, 0.1, 5.0], [0.2, 0.0, 5.1], [0.1, 9.0, 5.2]):
    ...     step = fleet.update(x)
    >>> step.alarm
    array([False,  True, False])
    >>> fleet.spent
    9.0
    """

    def __init__(
        self,
        n: int,
        model: Model,
        fidelities: Iterable[Fidelity] | Fidelity | None = None,
        hazard: float | Hazard | Sequence[float] | Callable[[Any], Any] = 1 / 250,
        *,
        policy: Policy | None = None,
        prune: Prune | Sequence[Prune] | Pruning | None = DEFAULT,
        alarm: Alarm | float | None = Alarm(),  # noqa: B008 (frozen)
        seed: int = 0,
        missing: Missing = "raise",
        threads: int | None = None,
    ) -> None:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n must be a whole number of at least 1, not {n!r}")
        if n >= 2**53:
            raise ValueError("n must be below 2**53: a fleet is memory")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads!r}")
        self._lock = RLock()
        self._broken: str | None = None
        self.n = int(n)
        # A detector checks the arguments and is what every stream starts from.
        self._like = Detector(
            model, fidelities, hazard, policy=Always(), prune=prune, alarm=alarm, seed=seed, missing=missing
        )
        size = self._like._filter.state.size
        room_for(f"a fleet of {self.n} streams with {8 * size} bytes each", float(self.n) * size)
        seed_of(self._like.seed + self.n - 1)
        self.model = model
        self.fidelities = self._like.fidelities
        self.policy = policy_of(policy, self.fidelities).bind(self.fidelities, self.n)
        self.missing = missing
        self.threads = threads or (os.cpu_count() or 1)
        self.seeds = list(range(self._like.seed, self._like.seed + self.n))
        self.spent_by_stream = np.zeros(self.n)
        self._states = np.tile(self._like._filter.state, (self.n, 1))
        self._states[:, layout.SEED] = self.seeds
        self._rows = np.arange(self.n)
        self._zeta = np.array([f.zeta for f in self.fidelities])
        self._cost = self.policy.cost
        self._index = {f.name: j for j, f in enumerate(self.fidelities)}
        self._tick = -1
        self._crew = Crew()
        self.policy.initialize(self._like._filter)

    def __repr__(self) -> str:
        names = ", ".join(self._index)
        return f"<Fleet of {self.n} x {self.model!r} over {names}: {self.ticks} ticks, spent {self.spent:g}>"

    @alone
    def __copy__(self) -> Fleet:
        """Another fleet as this one is, sharing what no tick changes."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        other._states, other.spent_by_stream = self._states.copy(), self.spent_by_stream.copy()
        other.policy = copy.copy(self.policy)
        return other

    @alone
    def __deepcopy__(self, memo: dict[int, Any]) -> Fleet:
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_crew")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._crew = RLock(), Crew()

    # --- the loop --------------------------------------------------------------------------------------------

    @alone
    def choose(self, raws: Sequence[Any] | None = None) -> Choices:
        """Index of the fidelity each stream should read next; asking changes nothing.

        One policy with one price serves all streams, so a `Budget` goes where it tells most. `raws`, one a stream,
        are what costs that are functions are asked about.
        """
        planned = self.policy.schedule(self.seeds, self.ticks, 1)
        if planned is not None:
            return np.asarray(planned[0])
        return self.policy.pick(
            self.gains(self.policy.gain or "joint"), self._costs(raws), draw_uniform(self.seeds, self.ticks)
        )

    @alone
    def gains(self, gain: Gain = "joint") -> Array:
        """What each stream's reading at each fidelity is expected to tell (`Detector.gains`), (n, J)."""
        if self.model.gains is None:
            return np.array([expected_gains(self._belief(i), self._zeta, gain) for i in range(self.n)])
        out = np.empty((self.n, len(self._zeta)))
        board = np.zeros(2, dtype=np.int64)
        job = (self._states, self._like._filter.setup, self._rows, self._zeta, CODE[gain], out, board)
        self._crew.share(self.model.gains, job, self.n, self.threads)
        return out

    def _costs(self, raws: Sequence[Any] | None) -> Array:
        """The cost of each stream and fidelity, (n, J)."""
        if not self.policy.priced:
            return np.broadcast_to(self._cost, (self.n, self._cost.size))
        if raws is None or len(raws) != self.n:
            raise ValueError(f"raws must hold {self.n} raw inputs: some fidelity's cost is a function of them")
        return np.array([[f.cost_of(raw) for f in self.fidelities] for raw in raws])

    @alone
    def update(self, x: Any, fidelity: Any = None, *, raws: Sequence[Any] | None = None) -> FleetStep:
        """Tell what every stream read: x of shape (n,), NaN or None where a reading may be missing; (n, d) where a
        reading has d numbers.

        `fidelity` is one name or Fidelity for all, or one name or index a stream; the chosen ones unless told.
        Bad input names the stream and changes nothing.
        """
        if self._broken is not None:
            raise RuntimeError(f"this fleet is unusable: a tick broke off among its streams ({self._broken})")
        values = self._readings(x)
        choice = self._choices(fidelity, raws)
        zeta = self._zeta.take(choice)
        cost = self._costs(raws)[np.arange(self.n), choice] if self.policy.priced else self._cost.take(choice)
        fed = values
        if self.missing == "skip":
            skipped = np.isnan(values).reshape(self.n, -1).all(axis=1)
            fed = values.copy()
            fed[skipped] = 0.0
            zeta = np.where(skipped, 0.0, zeta)
        report = np.empty((1, layout.FIELDS, self.n))
        self._advance(fed[None], zeta[None], report)
        self._tick += 1
        self.spent_by_stream += cost
        if self.policy.learns:
            self.policy.record_cost(cost)
        reported = report_fields(report[0])
        if self.model.dimension > 1:
            reported["mean"] = self.mean
        return FleetStep(tick=self._tick, choice=choice, x=values, cost=cost, **reported)

    def _advance(self, x: Array, zeta: Array, report: Array) -> None:
        setup = self._like._filter.setup
        if not self._like.pruning.most:
            self._make_room(len(x))
        if self.model.advance is None:
            before = self._states.copy()
            try:
                for i, state in enumerate(self._states):
                    observe(self.model, state, setup, x[0, i], zeta[0, i])
                    report[0, :, i] = state[layout.REPORT]
            except BaseException:
                self._states = before
                raise
            return
        job = (self._states, setup, self._rows, x, zeta, report, np.zeros(2, dtype=np.int64))
        try:
            self._crew.share(self.model.advance, job, self.n, self.threads)
        except BaseException as error:
            self._broken = f"{type(error).__name__}: {error}"
            raise

    def _make_room(self, ticks: int) -> None:
        cap = int(self._states[0, layout.CAP])
        if self._states[:, layout.COUNT].max() + ticks > cap:
            self._states = np.stack([with_room(self.model, s, max(2 * cap, cap + ticks)) for s in self._states])

    def _choices(self, fidelity: Any, raws: Sequence[Any] | None) -> Choices:
        if fidelity is None:
            return self.choose(raws)
        if isinstance(fidelity, (str, Fidelity)):
            return np.full(self.n, self._one(fidelity), dtype=np.int64)
        given = np.asarray(fidelity)
        if given.shape != (self.n,):
            raise ValueError(f"fidelity must be one, or one a stream: {self.n}, not of shape {given.shape}")
        if given.dtype.kind in "iu":
            bad = np.flatnonzero((given < 0) | (given >= len(self.fidelities)))
            if bad.size:
                raise ValueError(
                    f"stream {bad[0]}: fidelity index must lie in [0, {len(self.fidelities)}), not {given[bad[0]]}"
                )
            return given.astype(np.int64)
        return np.array([self._one(f) for f in given.tolist()], dtype=np.int64)

    def _one(self, fidelity: Any) -> int:
        name = fidelity.name if isinstance(fidelity, Fidelity) else fidelity
        if not isinstance(name, str) or name not in self._index:
            raise ValueError(f"fidelity must be one of {', '.join(self._index)}, not {fidelity!r}")
        return self._index[name]

    def _readings(self, x: Any) -> Array:
        given = cells(x)
        d = self.model.dimension
        shape = (self.n,) if d == 1 else (self.n, d)
        if given.shape != shape:
            raise ValueError(f"x must have one reading a stream, shape {shape}, not {given.shape}")
        return readings(self.model, given, self.missing, where=lambda i: f"stream {i}")

    # --- what is known ---------------------------------------------------------------------------------------

    @property
    def ticks(self) -> int:
        """Ticks so far."""
        return self._tick + 1

    @property
    def spent(self) -> float:
        """What all readings cost together."""
        return float(self.spent_by_stream.sum())

    @property
    @alone
    def mean(self) -> Array:
        """E[x_{t+1}] of each stream, (n,); (n, d) where a reading has d numbers."""
        if self.model.dimension > 1:
            return np.array([self._belief(i).predictive(1.0)[0] for i in range(self.n)])
        return self._states[:, layout.MEAN].copy()

    @property
    def log_evidence(self) -> Array:
        """log p(x_1 .. x_t) of each stream."""
        return self._states[:, layout.EVIDENCE].copy()

    @alone
    def run_length(self, i: int) -> RunLength:
        """The filtered posterior of stream i."""
        return self._belief(i).run_length

    @alone
    def changed(self, within: int) -> Array:
        """P(a regime began in the last `within` ticks), for each stream."""
        return np.array([self._belief(i).p_changed(within) for i in range(self.n)])

    def _belief(self, i: int) -> Filter:
        """The run-length posterior of stream i, to be read: it shares the fleet's memory."""
        if not 0 <= i < self.n:
            raise IndexError(f"stream must lie in [0, {self.n}), not {i!r}")
        belief = copy.copy(self._like._filter)
        belief.adopt(self._states[i])
        return belief

    @alone
    def detector(self, i: int) -> Detector:
        """Stream i as a detector of its own, from here on independent of the fleet."""
        state = self._belief(i).state.copy()
        like, policy = self._like, self.policy.for_one_stream()
        detector = Detector(
            self.model,
            self.fidelities,
            like.hazard,
            policy=policy,
            prune=like.pruning,
            alarm=like.alarm,
            seed=self.seeds[i],
            missing=self.missing,
        )
        detector.policy.restore(policy.state())  # what was learnt together
        detector._adopt(state, float(self.spent_by_stream[i]))
        return detector
