"""Streams over HTTP: creation, choices, observations, refusals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import mfbocd as mf
from mfbocd.calibrate.auto import Season, Structure
from mfbocd.io.config import Config
from mfbocd.io.config.kinds import plain
from mfbocd.models.nested import named_spec
from mfbocd.service.store.sqlite import SqliteStore

from .service import CONFIG, reading, replayed, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(tmp_path_factory.mktemp("service") / "mfbocd.db") as client:
        yield client


def make(client: httpx.Client, stream: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/streams", json={"id": stream, "config": CONFIG} | more)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def tick(client: httpx.Client, stream: str, number: int = 0) -> dict[str, Any]:
    choice = client.post(f"/streams/{stream}/choose").json()
    x = reading(number, choice["tick"], choice["fidelity"])
    answer = client.post(
        f"/streams/{stream}/observe", json={"tick": choice["tick"], "fidelity": choice["fidelity"], "x": x}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_stream_is_made_shown_listed_and_deleted(shared: httpx.Client) -> None:
    made = make(shared, "walk", name="A walk")
    assert (made["tick"], made["spent"], made["name"], made["last"]) == (0, 0.0, "A walk", None)
    assert made["budget"] == pytest.approx(1 + 0.35 * 39)
    assert Config.parse(made["config"]) == Config.parse(CONFIG)
    assert shared.get("/streams/walk").json() == made
    again = shared.post("/streams", json={"id": "walk", "config": CONFIG})
    assert again.status_code == 409
    assert "already" in again.json()["error"]
    found = shared.get("/streams", params={"search": "A WAL"}).json()
    assert [s["id"] for s in found["streams"]] == ["walk"]
    assert found["total"] == 1
    assert shared.get("/streams", params={"search": "%"}).json()["total"] == 0
    assert shared.delete("/streams/walk").status_code == 204
    assert shared.get("/streams/walk").status_code == 404
    assert shared.delete("/streams/walk").status_code == 404
    assert shared.post("/streams/walk/choose").status_code == 404


def test_steps_are_those_of_a_detector_in_process(shared: httpx.Client, tmp_path: Path) -> None:
    config = CONFIG | {"policy": {"kind": "budget", "per_tick": 1.5}}  # soon in debt
    make(shared, "same", config=config)
    detector = Config.parse(config).detector(missing="skip")
    limits: Counter[str | None] = Counter()
    for t in range(90):
        choice = shared.post("/streams/same/choose").json()
        assert (choice["tick"], choice["fidelity"]) == (t, detector.choose().name)
        gains = {g.name: g.joint for g in detector.gains()}
        assert choice["gains"] == gains
        assert choice["price"] == detector.policy.price  # type: ignore[attr-defined]
        assert choice["limit"] == (detector.policy.limit or None)  # type: ignore[attr-defined]
        limits[choice["limit"]] += 1
        step = tick(shared, "same")
        assert [step[name] for name in ("gains", "price", "limit")] == [
            choice[name] for name in ("gains", "price", "limit")
        ]
        twin = detector.update(reading(0, t, choice["fidelity"]), choice["fidelity"])
        assert {k: step[k] for k in ("tick", "fidelity", "x", "cost", "mean", "run_length")} == {
            k: getattr(twin, k) for k in ("tick", "fidelity", "x", "cost", "mean", "run_length")
        }
        assert (step["alarm"], step["changed_at"], step["p_change"]) == (twin.alarm, twin.changed_at, twin.p_change)
        assert step["spent"] == detector.spent
        likely = dict(zip(detector.run_length.length.tolist(), detector.run_length.weight.tolist(), strict=True))
        assert all(w == round(likely[length], 4) for length, w in step["posterior"])
        assert sum(w for _, w in step["posterior"]) > 0.7
    assert limits["forbidden"] > 10
    shown = shared.get("/streams/same").json()
    assert shown["alarms"] >= 2  # it jumps at 40 and 80
    assert shown["last_alarm"]["alarm"] is True
    assert shown["last"]["tick"] == 89


def test_a_structure_of_the_automatic_detector_is_served(shared: httpx.Client) -> None:
    """Two streams of one configuration, of which one skips ticks, follow their own clocks."""
    structure = Structure(
        transform="sqrt",
        center=5.0,
        noise=1.0,
        spread=2.0,
        seasons=(Season(6.0, (0.5,), (0.2,)),),
        ar=(0.3,),
        step=1.0,
    )
    config = {"model": plain(named_spec(structure.model())), "hazard": 0.02}
    for stream in ("counts", "fewer"):
        assert shared.post("/streams", json={"id": stream, "config": config}).status_code == 201
    twins = {stream: Config.parse(config).detector(missing="skip") for stream in ("counts", "fewer")}
    for t in range(24):
        for stream, twin in twins.items():
            x = None if stream == "fewer" and t % 3 == 1 else float((7 * t) % 5 + 4 + 30 * (t > 15))
            body = {"tick": t, "fidelity": twin.fidelities[0].name, "x": x}
            step = shared.post(f"/streams/{stream}/observe", json=body).json()
            wanted = twin.update(x, twin.fidelities[0].name)
            assert (step["mean"], step["alarm"]) == (wanted.mean, wanted.alarm)
            assert step["p_change"] == pytest.approx(wanted.p_change, abs=1e-12)
    body = {"tick": 24, "fidelity": twin.fidelities[0].name, "x": -3.0}
    refused = shared.post("/streams/counts/observe", json=body)
    assert refused.status_code == 422
    assert "x = -3.0 is outside the support of Rounded" in refused.json()["error"]


def test_repeating_an_observation_is_harmless(shared: httpx.Client) -> None:
    make(shared, "again")
    steps = [tick(shared, "again") for _ in range(5)]
    for step in steps:
        observation = {"tick": step["tick"], "fidelity": step["fidelity"], "x": step["x"]}
        answer = shared.post("/streams/again/observe", json=observation)
        assert (answer.status_code, answer.json()) == (200, step)
    assert shared.get("/streams/again").json()["tick"] == 5


def test_what_does_not_fit_is_refused_and_changes_nothing(shared: httpx.Client) -> None:
    make(shared, "strict")
    first = tick(shared, "strict")
    before = shared.get("/streams/strict").json()
    chosen = before["next"]["fidelity"]
    other = "imu" if chosen == "gps" else "gps"

    def refused(status: int, **observation: Any) -> dict[str, Any]:
        answer = shared.post("/streams/strict/observe", json=observation)
        assert answer.status_code == status, answer.text
        return dict(answer.json())

    expected = {"tick": 1, "fidelity": chosen}
    assert refused(409, tick=2, fidelity=chosen, x=0.1)["expected"] == expected
    assert refused(409, tick=1, fidelity=other, x=0.1)["expected"] == expected
    assert refused(409, tick=1, fidelity="sonar", x=0.1)["expected"] == expected
    over = refused(409, tick=0, fidelity=first["fidelity"], x=first["x"] + 1)
    assert over["expected"] == expected | {"observed": {"fidelity": first["fidelity"], "x": first["x"]}}
    assert refused(422, tick=1, fidelity=chosen, x=[0.1, 0.2])["expected"]["x"].endswith("a number")
    assert "x" in refused(422, tick=1, fidelity=chosen, x="high")["error"]
    assert "x" in refused(422, tick=1, fidelity=chosen)["error"]
    refused(422, tick=1, fidelity=chosen, x=10**400)
    refused(422, tick=-1, fidelity=chosen, x=0.1)
    refused(422, tick=1.5, fidelity=chosen, x=0.1)
    refused(422, tick=1, fidelity=chosen, x=0.1, extra=1)
    raw = shared.post(
        "/streams/strict/observe",
        content=f'{{"tick": 1, "fidelity": "{chosen}", "x": NaN}}',
        headers={"content-type": "application/json"},
    )
    assert raw.status_code == 422
    assert shared.get("/streams/strict").json() == before
    assert tick(shared, "strict")["tick"] == 1


def test_a_huge_reading_leaves_a_stream_that_goes_on(shared: httpx.Client) -> None:
    make(shared, "huge")
    choice = shared.post("/streams/huge/choose").json()
    observation = {"tick": 0, "fidelity": choice["fidelity"], "x": 1.7e308}
    first = shared.post("/streams/huge/observe", json=observation)
    assert first.status_code in (200, 422)
    coming = shared.post("/streams/huge/choose").json()
    assert coming["tick"] == (1 if first.status_code == 200 else 0)
    assert tick(shared, "huge")["tick"] == coming["tick"]


def test_a_missing_reading_is_null(shared: httpx.Client) -> None:
    make(shared, "gap")
    make(shared, "nogap", config=CONFIG | {"missing": "raise"})
    for stream, status in (("gap", 200), ("nogap", 422)):
        choice = shared.post(f"/streams/{stream}/choose").json()
        answer = shared.post(
            f"/streams/{stream}/observe", json={"tick": 0, "fidelity": choice["fidelity"], "x": None}
        )
        assert answer.status_code == status, answer.text
    assert shared.get("/streams/gap").json()["last"]["x"] is None


def test_changes_have_levels(shared: httpx.Client) -> None:
    make(shared, "levels", config=CONFIG | {"data": {"unit": "V"}})
    steps = [tick(shared, "levels") for _ in range(60)]
    (alarm,) = [step for step in steps if step["alarm"]]
    (change,) = shared.get("/streams/levels/changes").json()["changes"]
    assert {name: change[name] for name in ("tick", "changed_at", "confidence", "at")} == {
        name: alarm[name] for name in ("tick", "changed_at", "confidence", "at")
    }
    assert change["delay"] == alarm["tick"] - alarm["changed_at"]
    zeta = {"imu": 0.1, "gps": 1.0}
    for which, part in (("before", steps[: alarm["changed_at"]]), ("after", steps[alarm["changed_at"] :])):
        weights = [zeta[step["fidelity"]] for step in part]
        mean = sum(w * step["x"] for w, step in zip(weights, part, strict=True)) / sum(weights)
        assert change[which]["mean"] == pytest.approx(mean)
        assert change[which]["low"] < mean < change[which]["high"]
    assert f" V at tick {alarm['changed_at']}, " in change["text"]
    assert shared.get("/streams/levels/changes", params={"limit": 5}).json() == {"changes": []}
    assert shared.get("/streams/nobody/changes").status_code == 404


def test_readings_of_several_numbers(shared: httpx.Client) -> None:
    config = {"model": {"kind": "multivariate_gaussian", "mean": [0, 0], "var": 9, "noise_var": 1}}
    make(shared, "pair", config=config)
    for t, x in enumerate(([0.1, 0.2], [0.3, None], None)):
        answer = shared.post("/streams/pair/observe", json={"tick": t, "fidelity": "full", "x": x})
        if t == 1 and answer.status_code == 422:
            assert "takes all of its 2 numbers or none" in answer.json()["error"]
            answer = shared.post("/streams/pair/observe", json={"tick": t, "fidelity": "full", "x": [0.3, 0.1]})
        assert answer.status_code == 200, answer.text
    for x in (1, 1.5):
        answer = shared.post("/streams/pair/observe", json={"tick": 3, "fidelity": "full", "x": x})
        assert (answer.status_code, answer.json()["error"]) == (422, f"x must be a list of numbers, not {x!r}")
    assert shared.get("/streams/pair/changes").json() == {"changes": []}
    table = shared.get("/streams/pair/trace", params={"format": "csv"}).text.splitlines()
    assert table[0].startswith("tick,fidelity,x_0,x_1,cost,mean_0,mean_1,")
    assert table[1].startswith("0,full,0.1,0.2,1.0,")
    assert table[3].startswith("2,full,,,1.0,")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"model": {"kind": "gaussian", "nois": 1}}, "did you mean 'noise_var'"),
        ({"model": {"kind": "os.system"}}, "model.kind must be one of"),
        ({}, "model.kind is missing"),
        (CONFIG | {"hazard": -1}, "hazard"),
        (CONFIG | {"\ud800": 1}, "unknown"),
        (
            {"model": {"kind": "poisson", "shape": 1e-320}, "fidelity": CONFIG["fidelity"]},
            "model.shape must be 0 or at least 1e-100 in size",
        ),
    ],
)
def test_a_bad_config_is_refused_with_its_key(shared: httpx.Client, config: dict[str, Any], error: str) -> None:
    answer = shared.post(
        "/streams", content=json.dumps({"config": config}), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert error in answer.json()["error"]


def test_a_batch_answers_each_for_itself(shared: httpx.Client) -> None:
    names = [f"batch{i}" for i in range(4)]
    for name in names:
        make(shared, name)
    asked = shared.post("/choose", json={"streams": [*names, "nobody"]}).json()["results"]
    assert [a["status"] for a in asked] == [200, 200, 200, 200, 404]
    observations = [{"stream": a["stream"], "tick": 0, "fidelity": a["fidelity"], "x": 0.5} for a in asked[:4]]
    observations[1]["tick"] = 7
    observations.append(observations[0])  # the same again, in the same transaction
    observations.append(observations[0] | {"x": 0.25})
    found = shared.post("/observe", json={"observations": observations}).json()["results"]
    assert [f["status"] for f in found] == [200, 409, 200, 200, 200, 409]
    assert found[4] == found[0]
    assert [shared.get(f"/streams/{name}").json()["tick"] for name in names] == [1, 0, 1, 1]
    assert shared.post("/observe", json={"observations": []}).status_code == 422
    many = shared.post("/choose", json={"streams": ["batch0"] * 1001})
    assert (many.status_code, many.json()["expected"]) == (413, {"batch": 1000})


def test_a_restart_goes_on_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    with serving(path) as client:
        make(client, "on", name="on and on")
        for _ in range(30):
            tick(client, "on")
        choice = client.post("/streams/on/choose").json()
    with serving(path) as client:
        assert client.post("/streams/on/choose").json() == choice
        for _ in range(30):
            tick(client, "on")
        steps = [json.loads(line) for line in client.get("/streams/on/trace").text.splitlines()]
    assert [s["tick"] for s in steps] == list(range(60))
    store = SqliteStore(path)
    row = store.stream("on")
    store.close()
    assert row is not None
    assert row.state == replayed(CONFIG, steps)
    assert mf.Detector.from_bytes(row.state).ticks == 60


def test_one_process_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mfbocd.db"
    first = SqliteStore(path, exclusive=True)
    with pytest.raises(ValueError, match="served by another process already"):
        SqliteStore(path, exclusive=True)
    first.close()
    SqliteStore(path, exclusive=True).close()
