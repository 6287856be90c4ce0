"""A config is validated strictly, and survives a round trip through TOML or JSON."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mfbocd as mf
from mfbocd.io.config import Config, ConfigError, model_kinds, policy_kinds
from mfbocd.io.config.kinds import plain, snake

from ..registry import CASES, VECTORS, Case

WALK: dict[str, Any] = {
    "hazard": 0.004,
    "missing": "skip",
    "seed": 3,
    "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    "fidelity": [
        {"name": "imu", "zeta": 0.1, "cost": 1, "column": "imu m/s"},
        {"name": "gps", "zeta": 1, "cost": 40},
    ],
    "policy": {"kind": "budget", "share": 0.35, "cap": [400, 20]},
    "alarm": {"threshold": 0.8, "within": 30},
    "prune": {"threshold": 1e-6, "top_k": 100, "slack": 10},
    "data": {"time": "at", "unit": "m/s", "cost_unit": "mJ"},
}

READY: list[dict[str, Any]] = [
    WALK,
    {"model": {"kind": "bernoulli"}},
    {"model": {"kind": "gaussian"}, "hazard": [0.1, 0.2, 0.01], "prune": False, "alarm": False},
    {"model": {"kind": "gaussian"}, "hazard": {"kind": "weibull", "shape": 2.0, "scale": 50}},
    {"model": {"kind": "gaussian"}, "hazard": {"kind": "learned", "points": 5}},
    {"model": {"kind": "gaussian"}, "hazard": {"kind": "lengths", "probabilities": [0, 0.5, 0.5]}},
    WALK | {"policy": {"kind": "information_rate", "weights": {"gps": 2.5}}},
    WALK | {"policy": {"kind": "random", "probabilities": [0.5, 0.5]}},
    WALK | {"policy": {"kind": "soft", "temperature": 0.1, "price": 0.01}},
    WALK | {"fidelity": [{"name": 'a "b"\\é', "zeta": 0, "cost": 0}, {"name": "full", "zeta": 1, "cost": 2}]},
]


@pytest.mark.parametrize("given", READY)
def test_round_trips(given: dict[str, Any]) -> None:
    config = Config.parse(given)
    assert Config.parse(tomllib.loads(config.to_toml())) == config
    assert Config.parse(json.loads(json.dumps(config.to_dict(), allow_nan=False))) == config
    noted = config.to_toml({"": "about\nit", "model.kind": "why " * 60, "hazard": "h", "alarm": "a", "prune": "p"})
    assert Config.parse(tomllib.loads(noted)) == config
    assert "# about\n# it\n" in noted
    assert max(map(len, noted.splitlines())) < 130


def test_a_config_and_its_parts_make_the_same_detector() -> None:
    config = Config.parse(WALK)
    detector = config.detector(observers={"gps": lambda raw: raw[1], "imu": lambda raw: raw[0]})
    twin = mf.Detector(
        mf.Gaussian(0, 9, 1),
        [mf.Fidelity("imu", 0.1, 1), mf.Fidelity("gps", 1, 40)],
        0.004,
        policy=mf.Budget(share=0.35, cap=(400, 20)),
        prune=[mf.Threshold(1e-6), mf.TopK(100, slack=10)],
        alarm=mf.Alarm(30, 0.8),
        seed=3,
        missing="skip",
    )
    assert detector.to_bytes() == twin.to_bytes()
    stream = mf.simulate.gaussian(twin.model, twin.fidelities, 0.02, ticks=60, seed=1)
    assert [detector.step(raw) for raw in stream.table] == [
        twin.update(raw[[f.name for f in twin.fidelities].index(twin.choose().name)], twin.choose())
        for raw in stream.table
    ]
    assert config.detector(seed=8).seed == 8
    plain = Config.parse({"model": {"kind": "bernoulli"}, "seed": 5})
    fleet = plain.fleet(3, threads=1)
    assert fleet.threads == 1
    assert fleet.extract(2).to_bytes() == plain.detector(seed=7).to_bytes()
    exact = Config.parse({"model": {"kind": "bernoulli"}, "prune": False, "alarm": False}).detector()
    assert exact.pruning == mf.Detector(mf.Bernoulli(1, 1), prune=None).pruning
    assert exact.alarm is None
    with pytest.raises(ConfigError, match=r"observers must name fidelities \(imu, gps\), not 'lidar'"):
        config.detector(observers={"lidar": lambda raw: raw})


def test_every_model_and_policy_has_a_kind() -> None:
    """Every exported model that can be saved can be configured; functions cannot."""
    words = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): name for name in mf.models.__all__ if name != "Model"}
    for functions in ("exponential_family", "grid"):
        del words[functions]
    assert {name: model.__name__ for name, model in model_kinds().items()} == words
    assert set(policy_kinds()) == {
        *("information_rate", "margin", "soft", "net", "budget", "random", "always"),
    }


@pytest.mark.parametrize("case", [*CASES, *VECTORS], ids=lambda case: case.name)
def test_every_tested_model_can_be_written_to_a_config(case: Case) -> None:
    model = case.model()
    if type(model).spec is mf.Model.spec:
        assert snake(type(model).__name__) not in model_kinds()
        return
    config = Config.parse({"model": {"kind": snake(type(model).__name__), **plain(model.spec())}})
    twin = Config.parse(tomllib.loads(config.to_toml()))
    assert twin == config
    assert twin.detector().model.spec() == model.spec()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"modle": {}}, r"^modle is unknown \(did you mean 'model'\?\); expected hazard, missing"),
    ({"model": None}, r"^model must be a table of keys and values, not None"),
    (
        {"model": {"kind": "gausian"}},
        r"^model\.kind must be one of .*gaussian.*, not 'gausian' \(did you mean 'gauss",
    ),
    ({"model": {"kind": ["gaussian"]}}, r"^model\.kind must be one of .*, not \['gaussian'\]"),
    ({"model": {"mean": 0}}, r"^model\.kind is missing"),
    (
        {"model": {"kind": "gaussian", "nois": 1}},
        r"^model\.nois is unknown \(did you mean 'noise_var'\?\); expected mean",
    ),
    ({"model": {"kind": "gaussian", "noise_var": -1}}, r"^model\.noise_var must be positive, not -1$"),
    ({"model": {"kind": "gaussian", "mean": "0"}}, r"^model\.mean must be a number, not '0'$"),
    ({"model": {"kind": "gaussian", "mean": 10**400}}, r"^model\.mean must be at most 1e\+100 in size$"),
    ({"hazard": 2}, r"^hazard must lie in \(0, 1\), not 2$"),
    ({"hazard": True}, r"^hazard must be P\(change\) per tick.*, not True$"),
    ({"hazard": [0.1, "x"]}, r"^hazard must be .*, not 'x'$"),
    (
        {"hazard": {"kind": "weibul"}},
        r"^hazard\.kind must be one of learned, lengths, weibull, not 'weibul' \(did you mean",
    ),
    ({"hazard": {"kind": "weibull", "shape": 2}}, r"^hazard\.scale is missing: weibull requires it$"),
    ({"hazard": {"kind": "weibull", "shape": -2, "scale": 1}}, r"^hazard\.shape must be positive, not -2$"),
    ({"missing": "drop"}, r"^missing must be 'raise' or 'skip', not 'drop'$"),
    ({"seed": 1.5}, r"^seed must be a whole number of at least 0, not 1.5$"),
    ({"seed": -1}, r"^seed must be a whole number of at least 0, not -1$"),
    ({"fidelity": {"name": "imu"}}, r"^fidelity must be a list of tables"),
    ({"fidelity": [{"name": "imu", "zeta": 2, "cost": 1}]}, r"^fidelity\[0\]\.zeta must lie in \[0, 1\], not 2$"),
    ({"fidelity": [{"name": "imu", "zeta": 1, "cost": 0}]}, r"^fidelity\[0\]\.cost must be positive"),
    ({"fidelity": [{"name": "imu", "zeta": 1}]}, r"^fidelity\[0\]\.cost is missing"),
    ({"fidelity": [{"name": "", "zeta": 1, "cost": 1}]}, r"^fidelity\[0\]\.name must be a non-empty string, not ''"),
    ({"fidelity": [{"name": "a", "zeta": 1, "cost": 1, "colunm": "b"}]}, r"^fidelity\[0\]\.colunm is unknown \(did"),
    ({"fidelity": [{"name": "a", "zeta": 1, "cost": 1}] * 2}, r"^fidelity: .*'a' appears twice"),
    ({"policy": {"kind": "budget", "share": 2}}, r"^policy\.share must lie in \(0, 1\], not 2$"),
    ({"policy": {"kind": "budget"}}, r"^policy: Budget takes exactly one of per_tick, share and reads"),
    ({"policy": {"kind": "budget", "per_tick": 0.1}}, r"^policy\.per_tick must be at least 1, .* not 0.1"),
    ({"policy": {"kind": "always", "name": "gsp"}}, r"^policy\.name must be one of imu, gps, not 'gsp'$"),
    ({"policy": {"kind": "net"}}, r"^policy\.price is missing: net requires it$"),
    ({"policy": {"kind": "margin", "delta": -1}}, r"^policy\.delta must be at least 0, not -1$"),
    ({"alarm": {"within": 0}}, r"^alarm\.within must be a whole number of at least 1, not 0$"),
    ({"alarm": {"treshold": 0.9}}, r"^alarm\.treshold is unknown \(did you mean 'threshold'\?\)"),
    ({"alarm": 0.9}, r"^alarm must be a table"),
    ({"prune": {"threshold": 2}}, r"^prune\.threshold must lie in \(0, 1\), not 2$"),
    ({"prune": {"resample": 0}}, r"^prune\.resample must be a whole number of at least 1, not 0$"),
    ({"prune": {"resample": 5, "top_k": 5}}, r"^prune must have resample or top_k, not both$"),
    ({"prune": {"resample": 5, "slack": 9}}, r"^prune\.slack must be below k = 5, not 9$"),
    ({"prune": {"slack": 9}}, r"^prune\.slack = 9 needs resample or top_k"),
    ({"prune": {}}, r"^prune must have threshold"),
    ({"data": {"time": 3}}, r"^data\.time must be a non-empty string, not 3$"),
    ({"data": {"units": "m"}}, r"^data\.units is unknown \(did you mean 'unit'\?\)"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_a_bad_value_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.parse(WALK | change)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["gaussian", "net"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "mean", "zeta", "name", "cost", "share", "threshold"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(WALK)), JSON, st.sampled_from([None, *WALK["model"], *WALK["policy"], "within"]))
def test_any_input_is_a_config_or_a_config_error(key: str, value: Any, inner: str | None) -> None:
    changed: Any = value if inner is None or not isinstance(WALK[key], dict) else WALK[key] | {inner: value}
    try:
        config = Config.parse(WALK | {key: changed})
    except ConfigError:
        return
    assert Config.parse(tomllib.loads(config.to_toml())) == config
    config.detector()


def test_load_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mf.toml"
    path.write_bytes(b"\xef\xbb\xbf" + Config.parse(WALK).to_toml().replace("\n", "\r\n").encode())
    assert Config.load(path) == Config.parse(WALK)
    path.write_text("hazard = = 3")
    with pytest.raises(ConfigError, match=r"mf\.toml: not TOML: .*line 1"):
        Config.load(path)
    path.write_bytes(b"hazard = \xff")
    with pytest.raises(ConfigError, match=r"mf\.toml: not UTF-8 text"):
        Config.load(path)
    path.write_text("hazard = 0.1")
    with pytest.raises(ConfigError, match=r"mf\.toml: model\.kind is missing"):
        Config.load(path)


def test_the_digest_covers_what_affects_decisions() -> None:
    digest = Config.parse(WALK).digest()
    assert Config.parse(WALK | {"data": {}}).digest() == digest
    assert Config.parse(WALK | {"seed": 4}).digest() != digest
    assert Config.parse(WALK | {"hazard": 0.005}).digest() != digest
    imu, gps = WALK["fidelity"]
    for harmless in ({"cost": 1.5}, {"column": "x"}, {"observe": "./imu.sh"}):
        assert Config.parse(WALK | {"fidelity": [imu | harmless, gps]}).digest() == digest
    for key in ({"zeta": 0.11}, {"offset": 1.0}, {"scale": 2.0}, {"name": "lidar"}):
        assert Config.parse(WALK | {"fidelity": [imu | key, gps]}).digest() != digest
