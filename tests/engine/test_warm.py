"""Kernels are compiled before they are needed, and a thread that must not compile raises."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from click.testing import CliRunner
from numba import njit
from numba.core.registry import CPUDispatcher

from mfbocd.cli import main
from mfbocd.io.config import Config, model_kinds
from mfbocd.io.warm import FIDELITIES, NEEDED, Uncompiled, example, rehearse, structure, watched
from mfbocd.service import manage
from mfbocd.service.engine import ChooseCommand, Engine, ObserveCommand
from mfbocd.service.store.sqlite import SqliteStore

pytestmark = pytest.mark.slow


def kernels() -> dict[str, int]:
    """How many signatures of each kernel this process has loaded."""
    # An instance refers to its class: this search runs in C, unlike a test of every object of the process.
    found = [one for one in gc.get_referrers(CPUDispatcher) if isinstance(one, CPUDispatcher)]
    assert found
    return {f"{one.py_func.__module__}.{one.__name__}": len(one.signatures) for one in found}


VARIANTS: dict[str, list[dict[str, Any]]] = {"autoregressive": [{"noise_var": 1.0}], "trend": [{"noise_var": 1.0}]}


@pytest.mark.parametrize("kind", sorted(model_kinds()))
def test_after_a_rehearsal_a_stream_compiles_nothing(kind: str, tmp_path: Any) -> None:
    """Through the engine, as the service runs it: alone and with another, with gaps, until it is pruned."""
    for i, arguments in enumerate((NEEDED.get(kind, {}), *VARIANTS.get(kind, []))):
        for gain in ("joint", "run_length", "variance") if kind == "trend" else ("joint",):
            policy = {"kind": "budget", "share": 0.4, "gain": gain}
            given = {
                "model": {"kind": kind, **arguments},
                "fidelity": FIDELITIES,
                "policy": policy,
                "prune": {"resample": 4},
            }
            config = Config.parse(given)
            rehearse(config)
            before = kernels()
            store = SqliteStore(tmp_path / f"{gain}-{i}.db")
            engine = Engine(store)
            for stream in "ab":
                facts: dict[str, Any] = {"group": None, "observers": {}, "available": {}, "max_streams": 9}
                manage.add_stream(engine, stream=stream, name=stream, config=given, **facts)
            detector = config.detector()
            for tick in range(7):
                for some in ("a", "b") if tick % 3 == 0 else ("ab",):
                    choices = engine.run([[ChooseCommand(stream) for stream in some]])[0]
                    x = _reading(detector, tick)
                    events = [
                        ObserveCommand(s, tick, c["fidelity"], x)  # type: ignore[index]
                        for s, c in zip(some, choices, strict=True)
                    ]
                    assert all(isinstance(step, dict) for step in engine.run([events])[0])
            store.close()
            assert {name: n for name, n in kernels().items() if n != before.get(name)} == {}


def _reading(detector: Any, tick: int) -> Any:
    """A possible reading of the family, or None."""
    if tick % 5 == 4:
        return None
    mean = detector.model.nearest(detector.mean)
    return float(mean) if detector.model.dimension == 1 else [float(v) for v in mean]


def test_a_thread_can_refuse_to_compile() -> None:
    @njit
    def once(x: float) -> float:
        return x + 1.0

    with watched(refuse=True), pytest.raises(Uncompiled, match="once"):
        once(1.0)
    with watched() as watch:
        assert once(1.0) == once(2.0) - 1.0 == 2.0
    assert watch.compiled == 1
    with watched(refuse=True):
        assert once(3.0) == 4.0


def test_the_structure_determines_the_kernels() -> None:
    config = example("gaussian").to_dict()
    config["model"]["mean"] = 3.0
    other = json.loads(json.dumps(config))
    other["model"]["mean"] = 7.5
    other["seed"] = 4
    other["fidelity"][0]["name"] = "another"
    assert structure(other) == structure(config)
    for change in (
        {"model": config["model"] | {"kind": "poisson"}},
        {"policy": {"kind": "net", "price": 0.1}},
        {"policy": {"kind": "budget", "share": 0.5, "gain": "variance"}},
        {"prune": False},
        {"hazard": {"kind": "learned"}},
        {"fidelity": config["fidelity"][:1]},
    ):
        assert structure(config | change) != structure(config)


def test_the_command_compiles_the_given_models(tmp_path: Any) -> None:
    result = CliRunner().invoke(main, ["warm", "gaussian"])
    assert result.exit_code == 0, result.output
    assert "gaussian: " in result.stderr
    assert "kernels compiled in" in result.stderr.splitlines()[-1]
    assert "cached in" in result.stderr.splitlines()[-1]
    assert result.stdout == ""

    path = tmp_path / "mf.toml"
    path.write_text(example("gaussian").to_toml())
    store = SqliteStore(tmp_path / "mfbocd.db")
    for i in range(3):  # of one structure
        config = example("gaussian").to_dict() | {"seed": i}
        facts: dict[str, Any] = {"group": None, "observers": {}, "available": {}, "max_streams": 9}
        manage.add_stream(Engine(store), stream=f"s{i}", name="s", config=config, **facts)
    store.close()
    given = ["warm", "-c", str(path), "--db", str(tmp_path / "mfbocd.db")]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0] for line in result.stderr.splitlines()[:-1]] == [str(path), "gaussian"]
    assert CliRunner().invoke(main, [*given, "-q"]).output == ""

    result = CliRunner().invoke(main, ["warm", "gausian"])
    assert result.exit_code == 1
    assert "none of" in result.output


def test_a_message_before_the_first_compilation() -> None:
    calls: list[str] = []
    with watched(before=lambda: calls.append("compiling")) as watch:
        assert calls == []
        for _ in range(2):
            assert njit(lambda x: x + 1)(1) == 2
    assert (calls, watch.compiled) == (["compiling"], 2)
    with watched(before=lambda: calls.append("again")):
        pass
    assert calls == ["compiling"]
