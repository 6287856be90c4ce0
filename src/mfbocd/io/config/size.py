"""What a config costs at most, from its plain values: found before anything of that size is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..._kernels import layout
from ...belief.pruning import DEFAULT, Pruning
from ...belief.state import START
from ...models import gaussian_process, student
from ...models.sampling import POINTS

DEPTH = 16
"""How deep the tables and lists of a config may be nested."""
NUMBER = 8
"""Bytes of a number,"""
TEXT = 25
"""and of one that is stored as a text."""
HUGE = 10**12
"""Stands for all numbers beyond: sums and products of it are still numbers."""


class Size(NamedTuple):
    """Of a model: what one hypothesis needs."""

    columns: float
    """Statistics."""
    tick: float
    """Operations to move it by a tick,"""
    gain: float
    """and to weigh one fidelity. Both are about what was measured in nanoseconds."""
    field: str = "kind"
    """The argument that decides."""


class Cost(NamedTuple):
    """Of a stream."""

    state: float
    """Bytes of its state, at the largest."""
    state_by: str
    """What that is due to, as dotted keys of the config."""
    work: float
    """Operations a tick, at the most."""
    work_by: str


def depth(given: Any) -> int:
    """How deep tables and lists are nested, without recursion; no further than just beyond `DEPTH`.

    >>> depth({"model": {"alpha": [1, 2]}}), depth(3)
    (3, 0)
    """
    level, deep = [given], 0
    while deep <= DEPTH:
        level = [
            inner
            for one in level
            if isinstance(one, (Mapping, list, tuple))
            for inner in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not level:
            break
        deep += 1
    return deep


def cost(config: Mapping[str, Any], largest: float) -> Cost:
    """The most a stream of this config can need, if its state may have `largest` bytes where no pruning bounds it.

    What is wrong in the config counts as little: `Config.parse` says what it is.

    >>> found = cost({"model": {"kind": "autoregressive", "order": 1000}}, largest=2**20)
    >>> f"{found.state:.1e} bytes by {found.state_by}"
    '1.2e+09 bytes by model.order and prune'
    """
    size = _guarded(_model, config.get("model"))
    fidelities = config.get("fidelity")
    ways = len(fidelities) if isinstance(fidelities, (list, tuple)) and fidelities else 1
    hazard = config.get("hazard")
    table, learned = _hazard(hazard)
    columns = layout.STATS + size.columns + learned
    most = _hypotheses(config.get("prune"))
    rows: float
    if most is None:  # as many as there is room for
        rows = max(largest / (NUMBER * columns), START)
        own = NUMBER * columns * START
    else:
        rows = -(-(most + 2) // layout.LANES) * layout.LANES
        own = NUMBER * columns * rows
    window = TEXT * _window(config.get("policy"))
    parts = {
        f"model.{size.field} and prune": own,
        "hazard": NUMBER * table,
        "policy.cap": window,
    }
    keys = {
        f"model.{size.field} and prune": rows * (size.tick + 20.0 * learned),
        f"model.{size.field}, prune and fidelity": rows * ways * size.gain,
    }
    state = NUMBER * layout.HEAD + sum(parts.values())
    return Cost(state, max(parts, key=parts.__getitem__), sum(keys.values()), max(keys, key=keys.__getitem__))


def _model(given: Any) -> Size:
    """Of a model's table."""
    kind = str(given["kind"]).replace("_", "").lower()
    return MODELS[kind](given)


SMALL = Size(4, 500, 20_000)


def _guarded(of: Callable[[Any], Size], given: Any) -> Size:
    """`of`, or something small where the values are not what they must be: making the model says why."""
    try:
        return of(given)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return SMALL


def _fixed(columns: int, tick: float, gain: float) -> Callable[[Any], Size]:
    return lambda _: Size(columns, tick, gain)


def _whole(given: Mapping[str, Any], field: str, default: int | None = None) -> int:
    value = given[field] if default is None else given.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{field} = {value!r} is no whole number")
    return min(max(value, 0), HUGE)


def _length(given: Mapping[str, Any], field: str) -> int:
    return len(given[field])


def _regression(regressors: int, beside: int, field: str) -> Size:
    """The Cholesky factor of the regressors' products with one another and the reading."""
    columns = (regressors + 1) * (regressors + 2) // 2 + 1 + beside
    return Size(columns, 60 * regressors**2 + 5000, 10 * regressors**2 + 5000, field)


def _autoregressive(given: Mapping[str, Any]) -> Size:
    order = _whole(given, "order", 1)
    return _regression(1 + order, 2 * order, "order")


def _linear(given: Mapping[str, Any]) -> Size:
    covariates = _whole(given, "covariates")
    return _regression(covariates + bool(given.get("intercept", True)), covariates, "covariates")


def _process(given: Mapping[str, Any]) -> Size:
    order, length = _whole(given, "order", 1), float(given.get("length", 1.0))
    lengths = gaussian_process._REACH[order] if given.get("reach") is None else float(given["reach"]) / length
    waves, _ = gaussian_process._spectrum(order, lengths)  # of no more than two orders, and a bounded grid
    return _regression(1 + 2 * len(waves), 4 * order, "reach")


def _categorical(given: Mapping[str, Any]) -> Size:
    many = _length(given, "alpha")
    return Size(many, 200 * many, 250 * many, "alpha")


def _confusion(given: Mapping[str, Any]) -> Size:
    points = _whole(given, "points", 200)
    return Size(points, 60 * points, 40 * points, "points")


def _student(given: Mapping[str, Any]) -> Size:
    var, noise_var, degrees = (
        float(given.get(name, value)) for name, value in (("var", 1), ("noise_var", 1), ("degrees", 4))
    )
    reach = student._REACH * math.sqrt(var / noise_var)
    columns = 2 * math.ceil(max(reach * _whole(given, "points", 8), 2.0 * student._REACH)) + 1
    panels = 2 * (math.ceil(0.5 * reach) + 2) + 2 * (math.ceil(40.0 / degrees) + 1)  # at zeta = 1, the most
    return Size(columns, 30 * columns, 5 * columns * 8 * panels, "points, model.var and model.noise_var")


def _elliptical(d: int, columns: int, tick: float, field: str) -> Size:
    """Gains are sums over fixed points, in as many coordinates as a reading has."""
    return Size(columns, tick, 2 * POINTS * d**2 + 100 * POINTS, field)


def _multivariate(given: Mapping[str, Any]) -> Size:
    d = _length(given, "mean")
    return _elliptical(d, d + 1, 20 * d**2 + 3000, "mean")


def _multivariate_unknown(given: Mapping[str, Any]) -> Size:
    d = _length(given, "mean")
    return _elliptical(d, 1 + 2 * d + d * (d + 1) // 2, 60 * d**2 + 5000, "mean")


def _vector_autoregressive(given: Mapping[str, Any]) -> Size:
    d, lags = _length(given, "mean"), _whole(given, "order") * _length(given, "mean")
    both = 1 + lags + d
    return _elliptical(d, both * (both + 1) // 2 + 1 + 2 * lags, 60 * both**2 + 10_000, "order and model.mean")


def _product(given: Mapping[str, Any]) -> Size:
    """The parts one after another; gains beside are sums over combinations of their values."""
    parts = [_guarded(_model, part) for part in given["parts"]]
    gain = sum(part.gain for part in parts) + 150_000 + 50 * POINTS * len(parts)
    return Size(sum(part.columns for part in parts), sum(part.tick for part in parts) + 5000, gain, "parts")


MODELS: dict[str, Callable[[Any], Size]] = {
    "autoregressive": _autoregressive,
    "bernoulli": _fixed(3, 200, 1000),
    "binomial": _fixed(2, 1000, 20_000),
    "categorical": _categorical,
    "confusion": _confusion,
    "exponential": _fixed(2, 500, 5000),
    "gamma": _fixed(2, 500, 5000),
    "gaussian": _fixed(2, 200, 500),
    "gaussianprocess": _process,
    "gaussianunknown": _fixed(4, 500, 5000),
    "linearregression": _linear,
    "multivariategaussian": _multivariate,
    "multivariategaussianunknown": _multivariate_unknown,
    "poisson": _fixed(2, 500, 20_000),
    "product": _product,
    "studentt": _student,
    "trend": lambda _: _regression(2, 1, "kind"),
    "vectorautoregressive": _vector_autoregressive,
}
"""By the kind in small letters: every one a config can name (`mfbocd.io.config.model_kinds`)."""


def _hypotheses(prune: Any) -> int | None:
    """How many there are at most; None is no bound."""
    if prune is None:
        return Pruning.of(DEFAULT).most or None
    if not isinstance(prune, Mapping):
        return None
    found = [prune[name] for name in ("resample", "top_k") if isinstance(prune.get(name), int)]
    return min(max(*found, 0), HUGE) if found else None


def _hazard(hazard: Any) -> tuple[int, int]:
    """Numbers of its table, and candidates of one that is learnt."""
    if isinstance(hazard, (list, tuple)):
        return len(hazard), 0
    if not isinstance(hazard, Mapping):
        return 1, 0
    points = hazard.get("points", 12)
    if hazard.get("kind") == "learned" and isinstance(points, int):
        points = min(points, 64)  # more are refused by name
        return 2 * points, points
    horizon, lengths = hazard.get("horizon", 10_000), hazard.get("probabilities", ())
    table = min(horizon, HUGE) if hazard.get("kind") == "weibull" and isinstance(horizon, int) else 0
    return max(table, len(lengths) if isinstance(lengths, (list, tuple)) else 0), 0


def _window(policy: Any) -> int:
    """Ticks whose spend a policy remembers."""
    cap = policy.get("cap") if isinstance(policy, Mapping) else None
    if not isinstance(cap, (list, tuple)) or len(cap) != 2 or not isinstance(cap[1], int):
        return 0
    return min(cap[1], HUGE)
