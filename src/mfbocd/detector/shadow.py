"""A check at run time: do paired readings contradict the declared zeta?"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..inputs.arguments import finite, positive, probability, whole
from ..inputs.copies import Independent
from ..inputs.readings import number
from ..models import Bernoulli, Gaussian, Model
from ..policy.fidelity import Fidelity
from .learning import GuardMethod, ZetaGrid

# How much worse than declared each alternative is: the variance of a difference grows by a factor, or a share of the
# agreement is lost. A coarse grid is enough: between two of them evidence grows nearly as fast as at the nearer one.
_INFLATED = (1.1, 1.25, 1.5, 2.0, 4.0, 16.0)
_LOST = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
_FULL = 1e300  # the largest evidence: a saved state must consist of finite numbers


class ShadowWarning(UserWarning):
    """Paired readings contradict a declared zeta.

    Parameters
    ----------
    declared : float
        The declared zeta.
    suggested : float
        A zeta that fits the pairs better.
    pairs : int
        Number of pairs seen.
    odds : float
        Evidence against the declared zeta.

    Examples
    --------
    >>> warning = ShadowWarning(declared=0.9, suggested=0.675, pairs=57, odds=118.0)
    >>> print(warning)
    57 paired readings contradict zeta = 0.9 (evidence 118 to 1): about 0.675 would fit them better
    """

    def __init__(self, declared: float, suggested: float, pairs: int, odds: float) -> None:
        super().__init__(
            f"{pairs} paired readings contradict zeta = {declared:g} (evidence {odds:.3g} to 1): "
            f"about {suggested:.3g} would fit them better"
        )
        self.declared = declared
        self.suggested = suggested
        self.pairs = pairs
        self.odds = odds


class ShadowGuard(Independent):
    """Warns when paired readings show that the low fidelity is worse than declared.

    At every `every`-th tick both fidelities are read (a shadow reading). The guard tests after every pair, so it
    cannot use a test made for a single look. It computes the evidence

        E_n = sum_k w_k mean_a prod_{i = k .. n} p_a(pair_i) / p_declared(pair_i) + sum_{k > n} w_k,

    over alternatives a worse than declared and the pair k from which the low fidelity got worse,
    w_k = 1 / (k (k + 1)). If zeta is as declared or better, E is a non-negative supermartingale that starts at 1, so
    by Ville's inequality P(it ever reaches 1 / (1 - level)) <= 1 - level: that bounds false warnings over the whole
    stream, however long it is and whenever it is checked. The sum over k detects a sensor that ages: without it,
    a thousand good pairs would have to be outweighed first. It costs one number per alternative.

    Parameters
    ----------
    declared : float
        The declared zeta of the low fidelity, in (0, 1].
    every : int
        Ticks from one pair to the next.
    method : {"gaussian", "accuracy", "information", "tpr"}
        What a pair shows. ``"gaussian"``: high - low ~ N(0, noise_var (1 + 1 / zeta)) with independent errors. A bias
        of either, a high fidelity worse than `noise_var` and an outlier that is not normal contradict that as well.
        ``"accuracy"`` and ``"information"``: low = high with probability q, where zeta = q or (2 q - 1)^2.
        ``"tpr"``: the same for pairs with high = 1, zeta = q; the others show nothing.
    level : float
        1 - the probability of a false warning over the whole stream, in (0, 1).
    noise_var : float, optional
        The model's noise variance, for ``"gaussian"`` only.
    learn : bool
        Whether `zeta` is learned from the pairs; False by default. `Detector(learn=True)` switches it on.

    Attributes
    ----------
    pairs : int
        Number of pairs that could have shown something.
    warning : ShadowWarning or None
        The warning, from the pair that caused it on.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> guard = ShadowGuard(declared=0.9, every=20, method="accuracy")
    >>> [tick for tick in range(60) if guard.due(tick)]
    [19, 39, 59]
    >>> for right in [1, 0, 1, 0, 0, 1, 0, 0]:
    ...     warning = guard.observe(high=1, low=right)
    ...     if warning:
    ...         print(warning)
    8 paired readings contradict zeta = 0.9 (evidence 121 to 1): about 0.45 would fit them better
    """

    def __init__(
        self,
        declared: float,
        every: int,
        method: GuardMethod,
        *,
        level: float = 0.99,
        noise_var: float | None = None,
        learn: bool = False,
    ) -> None:
        if method not in ("gaussian", "accuracy", "tpr", "information"):
            raise ValueError(
                f"ShadowGuard.method must be 'gaussian', 'accuracy', 'tpr' or 'information', not {method!r}"
            )
        if (noise_var is None) == (method == "gaussian"):
            raise ValueError(
                f"ShadowGuard.noise_var is needed for 'gaussian' and for nothing else, not {noise_var!r}"
            )
        self.declared = probability("ShadowGuard", "declared", declared, "(0, 1]")
        self.every = whole("ShadowGuard", "every", every, 1)
        self.method: GuardMethod = method
        self.level = probability("ShadowGuard", "level", level)
        self.noise_var = None if noise_var is None else positive("ShadowGuard", "noise_var", noise_var)
        self.pairs = 0
        self.warning: ShadowWarning | None = None
        self._evidence = [0.0] * len(_LOST)
        self._grid = ZetaGrid(self.declared, method, self.noise_var)
        self._belief: list[float] | None = None
        if learn:
            self.start_learning()

    def __repr__(self) -> str:
        return (
            f"<ShadowGuard of zeta = {self.declared:g} by {self.method}, every {self.every} ticks: "
            f"{self.pairs} pairs, evidence {self.evidence:.3g}>"
        )

    def due(self, tick: int) -> bool:
        """Return whether both fidelities are to be read at a tick, by a schedule that does not depend on the data.

        Parameters
        ----------
        tick : int
            Index of the tick; 0 is the first.

        Returns
        -------
        bool
            True at every `every`-th tick.
        """
        return (tick + 1) % self.every == 0

    def observe(self, high: float | None, low: float | None) -> ShadowWarning | None:
        """Take a pair of readings into account.

        Parameters
        ----------
        high, low : float or None
            The readings; a pair with a missing one is ignored.

        Returns
        -------
        ShadowWarning or None
            The warning, once, at the pair that makes the evidence sufficient.

        Raises
        ------
        ValueError
            If the readings must be 0 or 1 and are not.
        """
        if high is None or low is None:
            return None
        x, y = number(high, "high"), number(low, "low")
        if math.isnan(x) or math.isnan(y):
            return None
        ratios = self._spread(x, y) if self.method == "gaussian" else self._agreement(x, y)
        if ratios is None:
            return None
        self.pairs += 1
        if self._belief is not None:
            self._belief = self._grid.updated(self._belief, x, y)
        share = 1.0 / (self.pairs * (self.pairs + 1.0) * len(ratios))
        self._evidence = [min((e + share) * r, _FULL) for e, r in zip(self._evidence, ratios, strict=True)]
        if self.warning is not None or self.evidence < 1.0 / (1.0 - self.level):
            return None
        self.warning = ShadowWarning(self.declared, self._suggested(), self.pairs, self.evidence)
        return self.warning

    @property
    def evidence(self) -> float:
        """E_n: how many times better a zeta below the declared one explains the pairs; 1 at the start."""
        return min(sum(self._evidence) + 1.0 / (self.pairs + 1.0), _FULL)

    @property
    def learn(self) -> bool:
        """Whether zeta is learned from the pairs."""
        return self._belief is not None

    @property
    def zeta(self) -> float:
        """The learned zeta: the declared one before the first pair, and without `learn`."""
        return self.declared if self._belief is None or not self.pairs else self._grid.value(self._belief)

    def start_learning(self) -> None:
        """Learn zeta from the coming pairs, if it is not learned already."""
        if self._belief is None:
            self._belief = self._grid.start()

    def _spread(self, high: float, low: float) -> list[float]:
        assert self.noise_var is not None
        # A product, not a power: Python's power raises where the product is infinite.
        scaled = 0.5 * (high - low) * (high - low) / (self.noise_var * (1.0 + 1.0 / self.declared))
        return [math.exp(min(scaled * (1.0 - 1.0 / v), 690.0)) / math.sqrt(v) for v in _INFLATED]

    def _agreement(self, high: float, low: float) -> list[float] | None:
        for name, value in (("high", high), ("low", low)):
            if value not in (0.0, 1.0):
                raise ValueError(f"{name} must be 0 or 1 for ShadowGuard.method = {self.method!r}, not {value!r}")
        if self.method == "tpr" and high == 0.0:
            return None
        if high == low:
            return [1.0 - lost for lost in _LOST]
        q = self._agreeing()
        # A declared zeta of 1 means that the two never differ: one difference is sufficient.
        return [(1.0 - q * (1.0 - lost)) / (1.0 - q) if q < 1.0 else _FULL for lost in _LOST]

    def _agreeing(self) -> float:
        """Return the declared P(low = high)."""
        return 0.5 * (1.0 + math.sqrt(self.declared)) if self.method == "information" else self.declared

    def _suggested(self) -> float:
        """Return the zeta of the alternative with most evidence; unlike a mean over all pairs it forgets old ones."""
        best = max(range(len(self._evidence)), key=self._evidence.__getitem__)
        if self.method == "gaussian":
            # noise_var (1 + 1 / zeta) is inflated
            return 1.0 / (_INFLATED[best] * (1.0 + 1.0 / self.declared) - 1.0)
        q = self._agreeing() * (1.0 - _LOST[best])
        return max(2.0 * q - 1.0, 0.0) ** 2 if self.method == "information" else q

    def spec(self) -> dict[str, Any]:
        """Return arguments and state as plain values, for saving.

        Returns
        -------
        dict
            What `from_spec` takes.

        Examples
        --------
        >>> ShadowGuard(0.9, every=20, method="tpr").spec()["state"]["pairs"]
        0
        """
        given = self.warning
        learned = {} if self._belief is None else {"learned": self._belief}  # left out by default
        warning = None if given is None else [given.declared, given.suggested, given.pairs, given.odds]
        return {
            "declared": self.declared,
            "every": self.every,
            "method": self.method,
            "level": self.level,
            "noise_var": self.noise_var,
            "state": {"pairs": self.pairs, "evidence": list(self._evidence), "warning": warning} | learned,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> ShadowGuard:
        """Return the guard that `spec` describes, in the same state.

        Parameters
        ----------
        spec : dict
            As `spec` returns it.

        Returns
        -------
        ShadowGuard
            A guard that continues where that one was.

        Raises
        ------
        TypeError, ValueError
            If no guard can have had this state.

        Examples
        --------
        >>> guard = ShadowGuard(0.5, every=10, method="gaussian", noise_var=1.0)
        >>> guard.observe(0.3, 1.9)
        >>> ShadowGuard.from_spec(guard.spec()).evidence == guard.evidence
        True
        """
        given = dict(spec)
        state = given.pop("state")
        guard = cls(**given)
        guard.pairs = whole("ShadowGuard", "pairs", state["pairs"], 0)
        guard._evidence = [finite("ShadowGuard", "evidence", e) for e in state["evidence"]]
        if len(guard._evidence) != len(_LOST) or min(guard._evidence) < 0.0:
            raise ValueError(f"state.evidence must be {len(_LOST)} numbers of at least 0, not {guard._evidence}")
        if "learned" in state:
            guard._belief = guard._grid.checked(state["learned"])
        warning = state["warning"]
        if warning is not None:
            declared, suggested, odds = (finite("ShadowGuard", "warning", warning[i]) for i in (0, 1, 3))
            guard.warning = ShadowWarning(declared, suggested, int(warning[2]), odds)
        return guard


def guards_of(
    shadow: int | Mapping[str, ShadowGuard] | None, model: Model, fidelities: Sequence[Fidelity], learn: bool = False
) -> dict[str, ShadowGuard]:
    """Return the guards by fidelity name; an int stands for one guard of each fidelity below the best."""
    guards = _guards_of(shadow, model, fidelities)
    if guards and learn and not model.ordered:
        raise ValueError(f"learn=True cannot learn the zeta of {model!r}, which is only a key of its likelihoods")
    for guard in guards.values():
        if learn:
            guard.start_learning()
    return guards


def guards_for(
    guards: Mapping[str, ShadowGuard], before: Mapping[str, Fidelity], fidelities: Sequence[Fidelity]
) -> dict[str, ShadowGuard]:
    """Return the guards of other fidelities: with their pairs where zeta is the same, else new ones of the new zeta.

    A fidelity that is gone, or that is the best one now, has none.
    """
    best = max(f.zeta for f in fidelities)
    found = {}
    for f in fidelities:
        guard = guards.get(f.name)
        if guard is None or not 0.0 < f.zeta < best:
            continue
        if f.zeta in (before[f.name].zeta, guard.declared):
            found[f.name] = copy.copy(guard)
        else:
            found[f.name] = ShadowGuard(
                f.zeta, guard.every, guard.method, level=guard.level, noise_var=guard.noise_var, learn=guard.learn
            )
    return found


def _guards_of(
    shadow: int | Mapping[str, ShadowGuard] | None, model: Model, fidelities: Sequence[Fidelity]
) -> dict[str, ShadowGuard]:
    if shadow is None:
        return {}
    best = max(fidelities, key=lambda f: f.zeta)
    lower = {f.name: f for f in fidelities if 0.0 < f.zeta < best.zeta}
    if isinstance(shadow, Mapping):
        for name, guard in shadow.items():
            if name not in lower:
                raise ValueError(f"shadow names {name!r}; below {best.name!r} there is {', '.join(lower) or 'none'}")
            if not isinstance(guard, ShadowGuard):
                raise TypeError(f"shadow must contain ShadowGuard objects, not {guard!r}")
        return {name: copy.copy(guard) for name, guard in shadow.items()}  # each detector has its own pairs
    if not lower:
        raise ValueError(f"shadow={shadow!r}: there is no fidelity below {best.name!r} to watch")
    if isinstance(model, Gaussian):
        return {n: ShadowGuard(f.zeta, shadow, "gaussian", noise_var=model.noise_var) for n, f in lower.items()}
    if isinstance(model, Bernoulli):
        return {n: ShadowGuard(f.zeta, shadow, "information") for n, f in lower.items()}
    raise ValueError(f"shadow={shadow!r}: give ShadowGuard objects by name for {model!r}")
