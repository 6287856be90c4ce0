"""How a detector is copied, saved, loaded, reset, and rebuilt with other fidelities."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self

from ..belief.alarm import Alarm
from ..belief.pruning import Pruning
from ..belief.state import Array, fresh_state
from ..models import Model
from ..policy import Policy
from ..policy.fidelity import Fidelity
from .lock import exclusive
from .posterior import Posterior
from .serialization import Serializer, from_bytes
from .shadow import ShadowGuard, guards_for
from .step import Missing

OnError = Literal["raise", "fallback"]


class Lifecycle(Posterior):
    """The part of `Detector` that copies, saves, loads and replaces its state."""

    pruning: Pruning
    """How the number of hypotheses is bounded, as the filter uses it."""
    alarm: Alarm | None
    """When `Step.alarm` is set; None for never."""
    missing: Missing
    """What a missing reading does: "raise" or "skip"."""
    on_error: OnError
    """What `step` does if an observer fails: "raise" or "fallback"."""
    shadow: dict[str, ShadowGuard]
    """Guards of the declared zetas, by fidelity."""
    surprise: bool
    """Whether every step has its `Step.surprise`."""
    spent: float
    """Cost of all readings so far."""
    _chosen: tuple[int, Fidelity | None]  # the tick and the fidelity of the last `choose`
    _recurrent: list[Fidelity]  # those whose observers have a memory

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

    def _adopt(self, state: Array, spent: float) -> None:
        """Continue from another state of the same configuration, such as a loaded one or a row of a fleet."""
        self._filter.adopt(state)
        self._tick = self._filter.ticks - 1
        self.spent = spent
        self._quoted, self._chosen = (-2, None, {}), (-2, None)  # they belong to the previous stream

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
