"""A batch gives the same results as its observations one at a time, for streams of any configuration."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from mfbocd.belief.gains import expected_gains
from mfbocd.detector.detector import Detector
from mfbocd.detector.step import reading as checked
from mfbocd.fleet import Fleet
from mfbocd.io.config import Config
from mfbocd.service import manage
from mfbocd.service.engine import ChooseCommand, Engine, ObserveCommand
from mfbocd.service.errors import DamagedError, RequestError
from mfbocd.service.fleets import FleetPool, Price
from mfbocd.service.records import StreamRow, json_text
from mfbocd.service.store.sqlite import SqliteStore

from .service import serving

pytestmark = pytest.mark.slow

Settings = dict[str, Any]
Random = np.random.Generator

WAVES, SIZE = 150, 5  # 1500 pairs
TICKS = 4
NAMES = ("imu", "gps", "low", "high", "a", "b", "c")
MODELS: tuple[Settings, ...] = (
    {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    {"kind": "gaussian_unknown"},
    {"kind": "bernoulli"},
    {"kind": "bernoulli", "alpha": 2.0},
    {"kind": "bernoulli", "predictive": "paper"},
    {"kind": "poisson", "shape": 2.0},
    {"kind": "trend"},
)
PRUNE: tuple[Any, ...] = (False, {"resample": 8}, {"top_k": 8}, {"top_k": 8, "slack": 1}, {"threshold": 1e-6}, None)
ALARM: tuple[Any, ...] = (None, False, {"within": 2, "threshold": 0.3}, {"within": 2, "threshold": 0.9})
HAZARD: tuple[Any, ...] = (0.02, 0.1, {"kind": "weibull", "shape": 2.0, "scale": 9.0, "horizon": 20})


def one_of(rng: Random, of: Sequence[Any]) -> Any:
    return of[int(rng.integers(len(of)))]


def random_policy(rng: Random, names: Sequence[str]) -> Settings:
    """Of any kind, with arguments by name where it takes them."""
    first = names[0]
    return copy.deepcopy(
        one_of(
            rng,
            (
                {"kind": "always"},
                {"kind": "always", "name": one_of(rng, names)},
                {"kind": "random"},
                {"kind": "random", "probabilities": [1.0 / len(names)] * len(names)},
                {"kind": "information_rate", "weights": {first: 3.0}},
                {"kind": "margin", "delta": one_of(rng, (0.01, 0.3))},
                {"kind": "net", "price": one_of(rng, (0.001, 0.02, 0.1))},
                {"kind": "soft", "temperature": 0.05, "price": 0.01},
                {"kind": "soft", "temperature": 0.05, "weights": {first: 2.0}},
                {"kind": "budget", "share": one_of(rng, (0.2, 0.5))},
                {"kind": "budget", "share": 0.4, "gain": "variance"},
                {"kind": "budget", "share": 0.5, "cap": [120.0, 4]},
            ),
        )
    )


def random_config(rng: Random) -> Settings:
    count = int(rng.integers(1, 4))
    names = [str(name) for name in rng.permutation(NAMES)[:count]]
    values = [(0.1, 1.0), (1.0, 20.0), (0.4, 5.0)]
    config: Settings = {
        "model": dict(one_of(rng, MODELS)),
        "fidelity": [{"name": n, "zeta": z, "cost": c} for n, (z, c) in zip(names, values, strict=False)],
        "policy": random_policy(rng, names),
        "hazard": one_of(rng, HAZARD),
        "seed": int(rng.integers(3)),
        "missing": one_of(rng, ("skip", "raise")),
    }
    for key, pool in (("prune", PRUNE), ("alarm", ALARM)):
        if (value := one_of(rng, pool)) is not None:
            config[key] = value
    return config


def variation(rng: Random, config: Settings) -> Settings:
    """The same but for one part, so that much of it is shared; at times another altogether."""
    other = random_config(rng)
    part = one_of(rng, ("names", "names", "policy", "seed", "missing", "alarm", "prune", "hazard", "model", "all"))
    if part == "all":
        return other
    made = copy.deepcopy(config)
    old = [row["name"] for row in config["fidelity"]]
    if part == "names":
        new = old[::-1] if rng.random() < 0.3 else [str(name) for name in rng.permutation(NAMES)[: len(old)]]
        for row, name in zip(made["fidelity"], new, strict=True):
            row["name"] = name
        renamed = dict(zip(old, new, strict=True))
        policy = made["policy"]
        if "name" in policy:
            policy["name"] = renamed[policy["name"]]
        if "weights" in policy:
            policy["weights"] = {renamed[name]: value for name, value in policy["weights"].items()}
    elif part == "policy":
        made["policy"] = random_policy(rng, old)
    elif part in other:
        made[part] = other[part]
    else:
        made.pop(part, None)
    return made


def reading(rng: Random, config: Settings, tick: int) -> float | None:
    if rng.random() < 0.1 and config.get("missing") != "raise":
        return None
    kind = config["model"]["kind"]
    level = 6.0 if tick >= 3 else 0.0
    if kind == "bernoulli":
        return float(rng.random() < 0.5)
    if kind == "poisson":
        return float(rng.poisson(1.0 + level))
    return float(rng.normal(level))


def expected_choice(detector: Detector, price: float | None) -> dict[str, Any]:
    """The choice for the next tick, from the detector alone; at the price of a group if there is one."""
    policy = detector.policy
    gain = policy.gain if len(detector.fidelities) > 1 else None
    gains = [] if gain is None else expected_gains(detector._filter, policy.zeta, gain).tolist()
    chosen = detector.choose()
    if price is not None and gains:
        chosen = detector.fidelities[int(np.argmax(np.array(gains) - price * policy.cost))]
    names = [f.name for f in detector.fidelities]
    own = getattr(policy, "price", None)
    return {
        "fidelity": chosen.name,
        "gains": dict(zip(names, gains, strict=False)),
        "price": own if price is None else price,
        "limit": (getattr(policy, "limit", "") or None) if price is None else None,
    }


def stored(stream: str, config: Settings, group: str | None, state: bytes) -> StreamRow:
    text = json_text(Config.parse(config).to_dict())
    return StreamRow(stream, stream, text, "{}", None, 0.0, group, 0, 0.0, 0, None, None, None, "", 0.0, state)


def test_streams_of_random_configs_are_what_a_detector_of_each_is() -> None:
    rng = np.random.default_rng(16)
    shared = 0
    for wave in range(WAVES):
        config = random_config(rng)
        configs = [config, *[variation(rng, config) for _ in range(SIZE - 1)]]
        prices = [one_of(rng, (None, None, 0.01)) for _ in configs]
        pairs = list(zip(configs, prices, strict=True))
        alone = [Config.parse(c).detector(missing="skip", shared=price is not None) for c, price in pairs]
        pool = FleetPool()
        fleets = [
            pool.insert(stored(f"s{i}", c, None if price is None else "g", alone[i].to_bytes()))
            for i, (c, price) in enumerate(pairs)
        ]
        shared += SIZE - len(pool)
        chosen = [expected_choice(d, price)["fidelity"] for d, price in zip(alone, prices, strict=True)]
        for tick in range(TICKS):
            xs = [checked(d.model, reading(rng, c, tick), "skip") for d, c in zip(alone, configs, strict=True)]
            for fleet in set(fleets):
                some = [i for i in range(SIZE) if fleets[i] is fleet]
                learned = [None if price is None else Price(price, price, "") for price in prices]
                columns = ([of[i] for i in some] for of in (xs, chosen, learned))
                for i, found in zip(some, fleet.advance([f"s{i}" for i in some], *columns), strict=True):
                    step = alone[i].update(xs[i], chosen[i])
                    choice = expected_choice(alone[i], prices[i])
                    found_all = (found.step, found.spent, found.choice, found.state)
                    assert found_all == (step, alone[i].spent, choice, alone[i].to_bytes()), (wave, tick, i, configs)
                    chosen[i] = choice["fidelity"]
        for i in range(SIZE):
            pool.remove(f"s{i}")
        assert len(pool) == 0
    assert shared > 60  # if few streams shared a fleet, it would test little


class Bench:
    """Streams in a store of their own, observed through the engine."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.engine = Engine(self.store)

    def add(self, stream: str, config: Settings | None, group: str | None = None) -> None:
        facts: Settings = {"observers": {}, "available": {}, "max_streams": 10_000}
        manage.add_stream(self.engine, stream=stream, name=stream, config=config, group=group, **facts)

    def run(self, jobs: Sequence[Sequence[ChooseCommand | ObserveCommand]]) -> list[Any]:
        return [one for job in self.engine.run(jobs) for one in job]


def plain(answer: Any) -> Any:
    """A result without its time."""
    assert not isinstance(answer, RequestError), answer.body()
    return {name: value for name, value in answer.items() if name != "at"}


GROUPED: Settings = {
    "model": {"kind": "gaussian", "mean": 0, "var": 9, "noise_var": 1},
    "fidelity": [{"name": "x", "zeta": 0.1, "cost": 1.0}, {"name": "y", "zeta": 1.0, "cost": 20.0}],
    "policy": {"kind": "budget", "share": 0.3},
    "prune": {"resample": 8},
}


def paired(rng: Random, pairs: int) -> list[tuple[Settings, str | None]]:
    """Configs of streams, of which some are of a group; those of two groups differ in names alone."""
    made: list[tuple[Settings, str | None]] = []
    for _ in range(pairs):
        config = random_config(rng)
        made += [(config, None), (variation(rng, config), None)]
    made += [(GROUPED, "one"), (renamed(GROUPED), "two")] * 3
    made += [(GROUPED, None), (renamed(GROUPED), None)]
    return made


def renamed(config: Settings) -> Settings:
    made = copy.deepcopy(config)
    for row in made["fidelity"]:
        row["name"] = row["name"].upper()
    return made


def test_random_streams_observed_in_a_batch_are_what_they_are_one_at_a_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    streams = paired(rng, 60)
    batched, single = Bench(tmp_path / "batched.db"), Bench(tmp_path / "single.db")
    for bench in (batched, single):
        for group, config in (("one", GROUPED), ("two", renamed(GROUPED))):
            manage.add_group(bench.engine, group=group, name=group, config=config)
        for i, (config, group) in enumerate(streams):
            bench.add(f"s{i}", None if group else config, group)
    asked = [f"s{i}" for i in range(len(streams))]
    for tick in range(TICKS):
        choices = batched.run([[ChooseCommand(s)] for s in asked])
        assert choices == single.run([[ChooseCommand(s)] for s in asked])
        observations = []
        for s, choice, (config, _) in zip(asked, choices, streams, strict=True):
            fidelity = choice["fidelity"]
            observations.append(ObserveCommand(s, tick, fidelity, reading(rng, config, tick)))
        together = [plain(one) for one in batched.run([observations])]
        for one, observed in zip(together, observations, strict=True):
            (alone,) = single.run([[observed]])
            assert one == plain(alone)
    for i in range(len(streams)):
        one, other = batched.store.stream(f"s{i}"), single.store.stream(f"s{i}")
        assert one is not None
        assert other is not None
        assert (one.next, one.state, one.spent, one.alarms) == (other.next, other.state, other.spent, other.alarms)
    batched.store.close()
    single.store.close()


def test_the_batch_route_is_the_single_route(tmp_path: Path) -> None:
    rng = np.random.default_rng(18)
    streams = paired(rng, 5)
    with serving(tmp_path / "mfbocd.db") as client:
        for group, config in (("one", GROUPED), ("two", renamed(GROUPED))):
            for prefix in "bs":
                assert client.post("/groups", json={"id": f"{prefix}-{group}", "config": config}).status_code == 201
        for i, (config, group) in enumerate(streams):
            for prefix in "bs":
                body = {"group": f"{prefix}-{group}"} if group else {"config": config}
                assert client.post("/streams", json={"id": f"{prefix}{i}", **body}).status_code == 201
        for tick in range(3):
            body = {"streams": [f"b{i}" for i in range(len(streams))]}
            choices = client.post("/choose", json=body).json()["results"]
            observations = [
                {"tick": tick, "fidelity": c["fidelity"], "x": reading(rng, config, tick)}
                for c, (config, _) in zip(choices, streams, strict=True)
            ]
            batch = [{"stream": f"b{i}", **o} for i, o in enumerate(observations)]
            results = client.post("/observe", json={"observations": batch}).json()["results"]
            for i, (one, observation) in enumerate(zip(results, observations, strict=True)):
                alone = client.post(f"/streams/s{i}/observe", json=observation)
                assert alone.status_code == one.pop("status") == 200, (alone.text, one)
                del one["stream"]
                assert plain(one) == plain(alone.json())
        for i in range(len(streams)):
            assert following(client, f"b{i}") == following(client, f"s{i}")


def following(client: httpx.Client, stream: str) -> Any:
    return client.get(f"/streams/{stream}").json()["next"]


TWO: Settings = GROUPED | {"policy": {"kind": "net", "price": 0.001}}


def test_a_stored_choice_that_is_none_of_its_fidelities_is_damage(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "mfbocd.db")
    for stream in ("a", "b"):
        bench.add(stream, TWO)
    row = bench.store.stream("a")
    assert row is not None
    with bench.store.transaction() as cursor:
        wrong = json.dumps(json.loads(row.next) | {"fidelity": "X"})
        cursor.execute("UPDATE streams SET next = ? WHERE id = 'a'", (wrong,))
    damaged, other = bench.run([[ChooseCommand("a"), ChooseCommand("b")]])
    assert isinstance(damaged, DamagedError)
    assert "the stored choice 'X' is none of its fidelities" in damaged.error
    assert other["tick"] == 0
    bench.store.close()


@pytest.mark.parametrize("error", [ValueError("bad input"), MemoryError("in a kernel")], ids=["input", "unexpected"])
def test_a_fleet_that_fails_is_restored_and_its_streams_go_on_one_by_one(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two streams are ahead of their rows when the update of three fails; a fourth is not part of it."""
    met, other = Bench(tmp_path / "met.db"), Bench(tmp_path / "other.db")
    for bench in (met, other):
        for stream in "abcd":
            bench.add(stream, TWO)
        bench.run([[ChooseCommand(stream) for stream in "abcd"]])
    update = Fleet.update

    def failing(fleet: Fleet, x: Any, fidelity: Any = None, *, streams: Any = None, **more: Any) -> Any:
        if len(streams) == 3:
            update(fleet, x[:2], fidelity[:2], streams=streams[:2])
            raise error
        return update(fleet, x, fidelity, streams=streams, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Fleet, "update", failing)
        for bench in (met, other):
            choices = bench.run([[ChooseCommand(stream) for stream in "abcd"]])
            wave = [ObserveCommand(s, 0, c["fidelity"], 0.5) for s, c in zip("abcd", choices, strict=True)]
            results = bench.run([wave[:3], wave[3:]] if bench is other else [wave[:3]])
            assert [plain(result)["tick"] for result in results] == [0] * len(results)
    (choice,) = met.run([[ChooseCommand("d")]])
    met.run([[ObserveCommand("d", 0, choice["fidelity"], 0.5)]])
    for stream in "abcd":
        one, two = met.store.stream(stream), other.store.stream(stream)
        assert one is not None
        assert two is not None
        assert (one.tick, one.state, one.next) == (1, two.state, two.next)
    for bench in (met, other):
        bench.store.close()


def raises_for(stream: str, error: Exception, function: Any, intact: int) -> Any:
    """A method of a fleet that raises an error whenever it is called for a stream, after some calls that succeed."""
    calls = 0

    def called(fleet: Fleet, *args: Any, streams: Any = None, **options: Any) -> Any:
        nonlocal calls
        if streams is None:
            return function(fleet, *args, **options)
        if stream in [row if isinstance(row, str) else fleet.names[row] for row in streams]:
            calls += 1
            if calls > intact:
                raise error
        return function(fleet, *args, streams=streams, **options)

    return called


@pytest.mark.parametrize("method", ["update", "decide", "to_bytes_each"])
@pytest.mark.parametrize("restored", [True, False])
@pytest.mark.parametrize("error", [ValueError("of one stream"), RuntimeError("of one stream")], ids=["input", "bug"])
@pytest.mark.parametrize("prune", [{"resample": 8}, False], ids=["one fleet", "fleet of its own"])
def test_what_one_stream_raises_is_its_own_error(
    tmp_path: Path, method: str, restored: bool, error: Exception, prune: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second tick of one stream of six fails; the others and their group store what they do without that tick."""
    config = GROUPED | {"prune": prune}
    groups = {"a": "g", "b": None, "bad": "g", "c": "g", "d": None, "e": None}
    alone, together = Bench(tmp_path / "alone.db"), Bench(tmp_path / "together.db")
    for bench in (alone, together):
        manage.add_group(bench.engine, group="g", name="g", config=config)
        for name, group in groups.items():
            bench.add(name, TWO if name == "e" else None if group else config, group)
        choices = bench.run([[ChooseCommand(name) for name in groups]])
    first = [ObserveCommand(n, 0, c["fidelity"], 0.5) for n, c in zip(groups, choices, strict=True)]
    expected = [alone.run([first])]
    choices = alone.run([[ChooseCommand(name) for name in groups]])
    second = [ObserveCommand(n, 1, c["fidelity"], 4.5) for n, c in zip(groups, choices, strict=True)]
    expected.append(alone.run([second[:2], second[3:]]))

    with monkeypatch.context() as patch:
        patch.setattr(Fleet, method, raises_for("bad", error, getattr(Fleet, method), intact=1))
        if not restored:
            insert = Fleet.insert

            def damaged(fleet: Fleet, state: Any, name: str, **options: Any) -> int:
                if name == "bad":
                    raise error
                return insert(fleet, state, name, **options)

            patch.setattr(Fleet, "insert", damaged)
        both = together.engine.run([first, second[:2], second[2:3], second[3:]])  # in one transaction
    assert [plain(step) for step in both[0]] == [plain(step) for step in expected[0]]
    assert [plain(step) for step in both[1] + both[3]] == [plain(step) for step in expected[1]]
    (refused,) = both[2]
    assert isinstance(refused, RequestError)
    assert (refused.status, "of one stream" in refused.error) == (422 if restored else 500, True)
    for name in groups:
        one, two = alone.store.stream(name), together.store.stream(name)
        assert one is not None
        assert two is not None
        assert (one.tick, one.state, one.next) == (two.tick, two.state, two.next)
    assert alone.store.group("g").state == together.store.group("g").state  # type: ignore[union-attr]
    for bench in (alone, together):  # it goes on when nothing fails any more
        assert plain(bench.run([second[2:3]])[0])["tick"] == 1
        bench.store.close()


def test_one_stream_that_grows_without_bound_does_not_enlarge_the_others() -> None:
    state = Config.parse(TWO | {"prune": False}).detector(missing="skip").to_bytes()
    pool = FleetPool()
    fleets = {pool.insert(stored(s, TWO | {"prune": False}, None, state)) for s in "ab"}
    bounded = Config.parse(TWO).detector(missing="skip").to_bytes()
    seeds = {pool.insert(stored(s, TWO | {"seed": i}, None, bounded)) for i, s in enumerate("cd")}
    assert (len(fleets), len(seeds), len(pool)) == (2, 1, 3)
