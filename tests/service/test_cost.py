"""The cost of a configuration is estimated, and limited, before anything is allocated."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfbocd import Autoregressive, Confusion, Detector, Hazard, LinearRegression, Model, TopK
from mfbocd.io.config import Config, ConfigError, model_kinds
from mfbocd.io.config.kinds import build
from mfbocd.io.config.size import DEPTH, cost
from mfbocd.service.errors import RequestError
from mfbocd.service.limits import Limits
from mfbocd.service.manage import check_cost, parse_config

from .service import CONFIG, serving

pytestmark = pytest.mark.slow

Table = dict[str, Any]
LIMITS = Limits()
WAYS = [{"name": "a", "zeta": 0.3, "cost": 1.0}, {"name": "b", "zeta": 1.0, "cost": 5.0}]

EXAMPLES: dict[str, list[Table]] = {
    "autoregressive": [{}, {"order": 0}, {"order": 7}],
    "bernoulli": [{}],
    "binomial": [{"trials": 1000}],
    "categorical": [{"alpha": [1.0] * 2}, {"alpha": [1.0] * 9}],
    "confusion": [
        {"matrices": [[0.3, [[1.0, 0.0], [0.6, 0.4]]]]},
        {"matrices": [[0.3, [[1.0, 0.0], [0.6, 0.4]]]], "points": 33},
    ],
    "exponential": [{}],
    "fixed_season": [
        {"model": {"kind": "gaussian"}, "period": 7.0, "cosine": [1.0], "sine": [0.0]},
        {
            "model": {"kind": "scaled", "scale": 2.0, "model": {"kind": "trend"}},
            "period": 7.0,
            "pieces": [[0.0, 1.0, 0.0]],
        },
    ],
    "gamma": [{"known": 2.0}],
    "gaussian": [{}],
    "gaussian_process": [{}, {"reach": 20.0}, {"length": 2.0, "reach": 11.0}, {"order": 2}],
    "gaussian_unknown": [{}],
    "linear_regression": [{"covariates": 1}, {"covariates": 6}, {"covariates": 6, "intercept": False}],
    "mixture": [
        {"parts": [{"kind": "gaussian"}, {"kind": "trend"}]},
        {"parts": [{"kind": "poisson"}, {"kind": "Binomial", "trials": 9}], "weights": [1.0, 3.0]},
    ],
    "multivariate_gaussian": [{"mean": [0.0] * 2}, {"mean": [0.0] * 7}],
    "multivariate_gaussian_unknown": [{"mean": [0.0] * 2}, {"mean": [0.0] * 7}],
    "outliers": [
        {"model": {"kind": "gaussian"}},
        {"model": {"kind": "Poisson"}, "rate": 0.1},
        {"model": {"kind": "student_t"}},
    ],
    "poisson": [{}],
    "product": [
        {"parts": [{"kind": "gaussian"}, {"kind": "Categorical", "alpha": [1.0] * 5}]},
        {"parts": [{"kind": "student_t"}, {"kind": "MultivariateGaussian", "mean": [0.0, 0.0]}]},
    ],
    "robust_trend": [{}, {"ar": [0.5, 0.1], "outliers": 0.01}],
    "rounded": [
        {"model": {"kind": "gaussian_unknown"}, "step": 0.5},
        {"model": {"kind": "Rounded", "model": {"kind": "trend"}, "step": 1.0}, "step": 0.5},
    ],
    "scaled": [{"model": {"kind": "student_t"}, "scale": 3.0}],
    "seasonal": [{"period": 7.0}, {"period": 24.0, "harmonics": 5, "slope": 0.0}, {"period": 6, "harmonics": 3}],
    "student_t": [{}, {"var": 9.0}, {"var": 0.01}, {"points": 3, "noise_var": 0.2}],
    "student_t_unknown": [{}, {"degrees": 1.5}],
    "transformed": [{"model": {"kind": "robust_trend", "ar": [0.5]}, "function": "sqrt", "offset": 0.6}],
    "trend": [{}],
    "vector_autoregressive": [{"order": 0, "mean": [0.0] * 2}, {"order": 3, "mean": [0.0] * 4}],
}

SIZES = {
    "autoregressive": ["order"],
    "categorical": ["alpha"],
    "confusion": ["points"],
    "gaussian_process": ["order", "reach"],
    "linear_regression": ["covariates"],
    "mixture": ["parts"],
    "multivariate_gaussian": ["mean"],
    "multivariate_gaussian_unknown": ["mean"],
    "product": ["parts"],
    "seasonal": ["harmonics"],
    "student_t": ["points", "var"],
    "vector_autoregressive": ["order", "mean"],
}
"""Arguments by which a model grows; those of the others do not change what a tick takes."""


def test_every_kind_is_measured_and_has_an_example() -> None:
    assert set(EXAMPLES) == set(model_kinds())
    for kind in model_kinds().values():
        own = kind.cost_bound.__func__ is not Model.cost_bound.__func__  # type: ignore[attr-defined]
        assert own or kind.operations is not Model.operations, kind


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_statistics_are_counted_as_the_model_has_them(kind: str) -> None:
    for arguments in EXAMPLES[kind]:
        given = {"kind": kind, **arguments}
        model = build("model", model_kinds(), given)
        assert model_kinds()[kind].cost_bound(given).columns == model.columns, given


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("prune", [None, {"top_k": 40}, False], ids=["default", "top_k", "exact"])
def test_the_estimate_is_no_less_than_the_state(kind: str, prune: Any) -> None:
    for hazard in (0.01, {"kind": "learned", "points": 5}, {"kind": "weibull", "shape": 2.0, "scale": 9.0}):
        config: Table = {"model": {"kind": kind, **EXAMPLES[kind][-1]}, "fidelity": WAYS, "hazard": hazard}
        if prune is not None:
            config["prune"] = prune
        detector = Config.parse(config).detector()
        state = cost(config, LIMITS.state).state
        needed = detector._filter.state.nbytes + detector.hazard.table.nbytes
        assert needed <= state <= 1.2 * needed + 1000


@pytest.mark.parametrize("kind", EXAMPLES)
def test_usual_models_are_served(kind: str) -> None:
    small = {"top_k": 24} if EXAMPLES[kind][-1].get("order") == 2 else {"top_k": 256}
    checked({"model": {"kind": kind, **EXAMPLES[kind][-1]}, "fidelity": WAYS, "prune": small})


def checked(config: Mapping[str, Any], limits: Limits = LIMITS) -> None:
    """As the service looks at a config."""
    check_cost(config, limits)
    parse_config(config)


def refusal(config: Mapping[str, Any]) -> RequestError | None:
    """Why a config is refused, if it is, found without much memory."""
    tracemalloc.start()
    try:
        with np.errstate(all="ignore"):  # what else is wrong with numbers such as 1e300
            checked(config)
    except RequestError as refused:
        return refused
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 64e6, config
    return None


HUGE = (10**3, 10**5, 10**9, 10**400)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_no_number_of_a_model_makes_it_large(kind: str) -> None:
    """Whatever is written in whatever field: a refusal, or something of a bounded size."""
    base = EXAMPLES[kind][0]
    for name in {**base, **dict.fromkeys(SIZES.get(kind, []))} | numbers_of(kind):
        for value in (10**3, 10**9, 10**400, 1e300, -1, [1.0] * 400, "x" * 5000, None):
            prune = {"top_k": 1} if isinstance(value, int) else False  # the least, and the most there can be
            refusal({"model": {"kind": kind, **base, name: value}, "fidelity": WAYS, "prune": prune})


def numbers_of(kind: str) -> dict[str, Any]:
    """Arguments a kind has, that have a default."""
    made = build("model", model_kinds(), {"kind": kind, **EXAMPLES[kind][0]})
    return {name: None for name, value in made.spec().items() if isinstance(value, (int, float))}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in SIZES.items() for field in fields])
def test_a_model_that_is_too_large_is_refused_by_name(kind: str, field: str) -> None:
    for value in HUGE:
        given: Any = value
        if field in ("alpha", "mean", "parts"):
            each: Any = {"kind": "gaussian"} if field == "parts" else 1.0
            given = [each] * min(value, 1000)
        elif field == "var":
            given = float(min(value, 10**300))
        found = refusal({"model": {"kind": kind, **EXAMPLES[kind][0], field: given}, "fidelity": WAYS})
        assert found is not None, value
        assert field in found.error or "model holds more than" in found.error, found.error


@pytest.mark.parametrize("value", HUGE, ids=lambda n: f"{len(str(n))} digits")
@pytest.mark.parametrize(
    ("part", "named"),
    [
        (lambda n: {"prune": {"top_k": 5 * n}}, "top_k"),
        (lambda n: {"prune": {"resample": 5 * n, "slack": 1}}, "resample"),
        (lambda n: {"hazard": {"kind": "weibull", "shape": 2.0, "scale": 9.0, "horizon": 1000 * n}}, "horizon"),
        (lambda n: {"hazard": {"kind": "learned", "points": n}}, "points"),
        (lambda n: {"hazard": [0.01, 0.02] * min(20 * n, 10_001)}, "hazard"),
        (lambda n: {"hazard": {"kind": "lengths", "probabilities": [0.5, 0.5] * min(20 * n, 10_001)}}, "hazard"),
        (lambda n: {"fidelity": [WAYS[0] | {"name": f"f{i}"} for i in range(min(n, 2000))]}, "fidelity"),
        (lambda n: {"fidelity": [WAYS[0] | {"name": "f" * min(n, 10**5)}]}, "name"),
        (lambda n: {"fidelity": [WAYS[0] | {"column": "f" * min(n, 10**5)}]}, "column"),
        (lambda n: {"data": {"unit": "f" * min(n, 10**5)}}, "unit"),
        (lambda n: {"fidelity": WAYS, "policy": {"kind": "budget", "share": 0.5, "cap": [1e9, 100 * n]}}, "cap"),
        (
            lambda n: {"fidelity": WAYS, "policy": {"kind": "random", "probabilities": [0.5] * min(n, 10**5)}},
            "policy",
        ),
    ],
)
def test_the_other_parts_are_bounded_by_name(part: Any, named: str, value: int) -> None:
    found = refusal(CONFIG | {"model": {"kind": "gaussian"}, "policy": {"kind": "always"}} | part(value))
    assert found is not None
    assert named in found.error, found.error


@pytest.mark.parametrize("within", HUGE, ids=lambda n: f"{len(str(n))} digits")
def test_the_window_of_an_alarm_takes_no_room(within: int) -> None:
    config = CONFIG | {"alarm": {"within": within, "threshold": 0.9}}
    assert cost(config, LIMITS.state) == cost(CONFIG, LIMITS.state)
    refusal(config)


def nested(levels: int) -> Any:
    found: Any = 1.0
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("levels", [DEPTH, 900, 20_000])
def test_what_is_nested_too_deep_is_refused(levels: int) -> None:
    for config in ({"model": nested(levels)}, {"model": {"kind": "product", "parts": nested(levels)}}):
        with pytest.raises(RequestError, match="nested tables or lists"):
            parse_config(config)
        with pytest.raises(ConfigError, match="nested tables or lists"):
            Config.parse(config)


def test_a_file_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(f"model = {'[' * 50_000}{']' * 50_000}")
    with pytest.raises(ConfigError, match=r"deep\.toml: a config must have at most"):
        Config.load(path)


def test_the_service_refuses_what_would_cost_too_much(tmp_path: Path) -> None:
    deep = "[" * 900 + "]" * 900
    with serving(tmp_path / "mfbocd.db") as client:
        for path in ("/streams", "/groups"):
            for model in (
                {"kind": "autoregressive", "order": 1000},
                {"kind": "linear_regression", "covariates": 20000},
            ):
                answer = client.post(path, json={"config": CONFIG | {"model": model}})
                assert answer.status_code == 422, answer.text
                assert f"model.{[*model][1]}" in answer.json()["error"]
            for config in (f'{{"model": {deep}}}', f'{{"model": {{"kind": "product", "parts": {deep}}}}}', deep):
                content = f'{{"config": {config}}}'
                answer = client.post(path, content=content, headers={"content-type": "application/json"})
                assert 400 <= answer.status_code < 500, answer.text
        assert client.get("/streams").json()["total"] == 0


def test_the_operator_sets_the_bounds() -> None:
    config = {"model": {"kind": "autoregressive", "order": 40}, "fidelity": WAYS}
    with pytest.raises(
        RequestError,
        match=r"model.order and prune can require 2.27e\+06 bytes of state; the limit of this service is 1.05e\+06",
    ):
        checked(config)
    checked(config, Limits(state=4_000_000))
    with pytest.raises(RequestError, match=r"operations per tick; the limit of this service is 1e\+06"):
        checked(config, Limits(state=4_000_000, work=1e6))


def test_the_library_refuses_absurd_sizes_before_it_allocates() -> None:
    for make in (
        lambda: Autoregressive(10**9),
        lambda: LinearRegression(10**12),
        lambda: Confusion({}, points=10**12),
        lambda: Detector(Autoregressive(20_000)),
        lambda: Detector(Autoregressive(1), prune=TopK(10**12)),
        lambda: Hazard(lambda length: 0.1 + 0.0 * length, horizon=10**12),
        lambda: Hazard.weibull(2.0, 9.0, horizon=10**12),
    ):
        tracemalloc.start()
        with pytest.raises(ValueError, match=r"must be at most|needs [\d.e+]+ GB of memory"):
            make()
        assert tracemalloc.get_traced_memory()[1] < 64e6
        tracemalloc.stop()
