"""A guard at run time: do paired readings contradict the zeta that was declared?"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..inputs.readings import number
from ..models import Bernoulli, Gaussian, Model
from ..models.base import finite, positive
from ..policy.fidelity import Fidelity

GuardMethod = Literal["gaussian", "accuracy", "tpr", "information"]
# How much worse than declared an alternative is: the variance of a difference grows by a factor, or a share of the
# agreement is lost. Coarse on purpose: evidence between two of them grows nearly as fast as at the nearer.
_INFLATED = (1.1, 1.25, 1.5, 2.0, 4.0, 16.0)
_LOST = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
_FULL = 1e300  # evidence is held here: a saved state must be plain finite numbers


class ShadowWarning(UserWarning):
    """Paired readings contradict a declared zeta.

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


class ShadowGuard:
    """Says when paired readings show that the low fidelity is worse than declared.

    At every `every`-th tick both fidelities are read (a shadow reading). What a pair shows depends on `method`:

    - ``"gaussian"``: high - low ~ N(0, noise (1 + 1 / zeta)), where `noise` is the model's and the two err
      independently. A bias of either, a high fidelity worse than `noise` and a wild outlier (which a normal error
      cannot be) contradict that too;
    - ``"accuracy"``, ``"information"``: low = high with probability q, where zeta = q or (2 q - 1)^2;
    - ``"tpr"``: the same of the pairs with high = 1, zeta = q; the others show nothing.

    The guard looks after every pair, so it cannot use a test made for one look. It holds the evidence

        E_n = sum_k w_k mean_a prod_{i = k .. n} p_a(pair_i) / p_declared(pair_i) + sum_{k > n} w_k,

    over alternatives a worse than declared and the pair k from which the low fidelity got worse,
    w_k = 1 / (k (k + 1)). If zeta is as declared or better, E is a non-negative supermartingale that starts at 1, so
    by Ville's inequality P(it ever reaches 1 / (1 - level)) <= 1 - level: that bounds false warnings over the whole
    stream, however long and whenever one looks. The sum over k is what finds a sensor that ages: without it,
    a thousand good pairs would have to be outweighed first. It costs one number an alternative.

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
    ) -> None:
        if not 0.0 < finite("ShadowGuard", "declared", declared) <= 1.0:
            raise ValueError(f"ShadowGuard.declared must lie in (0, 1], not {declared!r}: nothing is worse than 0")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"ShadowGuard.every must be a whole number of at least 1, not {every!r}")
        if method not in ("gaussian", "accuracy", "tpr", "information"):
            raise ValueError(
                f"ShadowGuard.method must be 'gaussian', 'accuracy', 'tpr' or 'information', not {method!r}"
            )
        if not 0.0 < finite("ShadowGuard", "level", level) < 1.0:
            raise ValueError(f"ShadowGuard.level must lie in (0, 1), not {level!r}")
        if (noise_var is None) == (method == "gaussian"):
            raise ValueError(
                f"ShadowGuard.noise_var is needed for 'gaussian' and for nothing else, not {noise_var!r}"
            )
        self.declared = float(declared)
        self.every = every
        self.method: GuardMethod = method
        self.level = float(level)
        self.noise_var = None if noise_var is None else positive("ShadowGuard", "noise_var", noise_var)
        self.pairs = 0
        """Pairs that could have shown something."""
        self.warning: ShadowWarning | None = None
        """The warning, from the pair that gave it on."""
        self._evidence = [0.0] * len(_LOST)

    def __repr__(self) -> str:
        return (
            f"<ShadowGuard of zeta = {self.declared:g} by {self.method}, every {self.every} ticks: "
            f"{self.pairs} pairs, evidence {self.evidence:.3g}>"
        )

    def due(self, tick: int) -> bool:
        """Whether both are to be read at this tick (0 is the first): a schedule the data have no say in."""
        return (tick + 1) % self.every == 0

    def observe(self, high: float | None, low: float | None) -> ShadowWarning | None:
        """Tell a pair; the warning, once, at the pair that makes the evidence enough. A missing reading is none."""
        if high is None or low is None:
            return None
        x, y = number(high, "high"), number(low, "low")
        if math.isnan(x) or math.isnan(y):
            return None
        ratios = self._spread(x, y) if self.method == "gaussian" else self._agreement(x, y)
        if ratios is None:
            return None
        self.pairs += 1
        share = 1.0 / (self.pairs * (self.pairs + 1.0) * len(ratios))
        self._evidence = [min((e + share) * r, _FULL) for e, r in zip(self._evidence, ratios, strict=True)]
        if self.warning is not None or self.evidence < 1.0 / (1.0 - self.level):
            return None
        self.warning = ShadowWarning(self.declared, self._suggested(), self.pairs, self.evidence)
        return self.warning

    @property
    def evidence(self) -> float:
        """E_n: how many times better worse-than-declared explains the pairs; 1 at the start."""
        return min(sum(self._evidence) + 1.0 / (self.pairs + 1.0), _FULL)

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
        # A declared zeta of 1 says that the two never differ: one difference settles it.
        return [(1.0 - q * (1.0 - lost)) / (1.0 - q) if q < 1.0 else _FULL for lost in _LOST]

    def _agreeing(self) -> float:
        """P(low = high) as declared."""
        return 0.5 * (1.0 + math.sqrt(self.declared)) if self.method == "information" else self.declared

    def _suggested(self) -> float:
        """zeta of the alternative with most evidence: unlike a mean over all pairs, it forgets the good old days."""
        best = max(range(len(self._evidence)), key=self._evidence.__getitem__)
        if self.method == "gaussian":
            # noise (1 + 1 / zeta) is inflated
            return 1.0 / (_INFLATED[best] * (1.0 + 1.0 / self.declared) - 1.0)
        q = self._agreeing() * (1.0 - _LOST[best])
        return max(2.0 * q - 1.0, 0.0) ** 2 if self.method == "information" else q

    def spec(self) -> dict[str, Any]:
        """Arguments and state as plain values, for saving.

        >>> ShadowGuard(0.9, every=20, method="tpr").spec()["state"]["pairs"]
        0
        """
        said = self.warning
        warning = None if said is None else [said.declared, said.suggested, said.pairs, said.odds]
        return {
            "declared": self.declared,
            "every": self.every,
            "method": self.method,
            "level": self.level,
            "noise_var": self.noise_var,
            "state": {"pairs": self.pairs, "evidence": list(self._evidence), "warning": warning},
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> ShadowGuard:
        """The guard `spec` came from, which goes on as if nothing had happened.

        >>> guard = ShadowGuard(0.5, every=10, method="gaussian", noise_var=1.0)
        >>> guard.observe(0.3, 1.9)
        >>> ShadowGuard.from_spec(guard.spec()).evidence == guard.evidence
        True
        """
        given = dict(spec)
        state = given.pop("state")
        guard = cls(**given)
        guard.pairs = state["pairs"]
        if type(guard.pairs) is not int or not 0 <= guard.pairs < 2**53:
            raise ValueError(f"state.pairs must be a whole number of at least 0, not {guard.pairs!r}")
        guard._evidence = [finite("ShadowGuard", "evidence", e) for e in state["evidence"]]
        if len(guard._evidence) != len(_LOST) or min(guard._evidence) < 0.0:
            raise ValueError(f"state.evidence must hold {len(_LOST)} numbers, none negative, not {guard._evidence}")
        said = state["warning"]
        if said is not None:
            declared, suggested, odds = (finite("ShadowGuard", "warning", said[i]) for i in (0, 1, 3))
            guard.warning = ShadowWarning(declared, suggested, int(said[2]), odds)
        return guard


def guards_of(
    shadow: int | Mapping[str, ShadowGuard] | None, model: Model, fidelities: Sequence[Fidelity]
) -> dict[str, ShadowGuard]:
    """Guards by fidelity name; a whole number stands for one guard of each fidelity below the best."""
    if shadow is None:
        return {}
    best = max(fidelities, key=lambda f: f.zeta)
    lower = {f.name: f for f in fidelities if 0.0 < f.zeta < best.zeta}
    if isinstance(shadow, Mapping):
        for name, guard in shadow.items():
            if name not in lower:
                raise ValueError(f"shadow names {name!r}; below {best.name!r} there is {', '.join(lower) or 'none'}")
            if not isinstance(guard, ShadowGuard):
                raise TypeError(f"shadow must hold ShadowGuard objects, not {guard!r}")
        return {name: copy.copy(guard) for name, guard in shadow.items()}  # each detector judges its own pairs
    if not lower:
        raise ValueError(f"shadow={shadow!r}: there is no fidelity below {best.name!r} to watch")
    if isinstance(model, Gaussian):
        return {n: ShadowGuard(f.zeta, shadow, "gaussian", noise_var=model.noise_var) for n, f in lower.items()}
    if isinstance(model, Bernoulli):
        return {n: ShadowGuard(f.zeta, shadow, "information") for n, f in lower.items()}
    raise ValueError(f"shadow={shadow!r}: give ShadowGuard objects by name for {model!r}")
