"""The benchmarks: simulated series have the changes they state, and scores match values computed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import speed
from benchmarks.accuracy import __main__ as command
from benchmarks.accuracy import peers, score_zoo, tcpd, tssb, zoo
from benchmarks.accuracy.common import Cache, MissingDataError, covering, data_folder, f1, markdown
from benchmarks.accuracy.methods import Alarm, Array, Method, Times, ours, select
from mfbocd.belief.gains import GAINS
from mfbocd.cli import main


def regimes(kind: str, seed: int, ticks: int = 6000) -> list[Array]:
    """The segments of a series, normal and changed in turn, without the first 30 ticks of each."""
    s = zoo.series(kind, seed, ticks)
    return [part[30:] for part in np.split(s.x, list(s.changes))]


# ---- the zoo


@pytest.mark.parametrize("kind", zoo.KINDS)
def test_a_kind_has_the_changes_it_states(kind: str) -> None:
    s = zoo.series(kind, 7)
    assert s.x.shape == (zoo.TICKS,)
    assert np.isfinite(s.x).all()
    zoo.series.cache_clear()
    assert np.array_equal(s.x, zoo.series(kind, 7).x)
    assert not np.array_equal(s.x, zoo.series(kind, 8).x)
    if "/" not in kind:
        assert s.changes == ()
    else:
        assert len(s.changes) in (2, 3)
        assert (np.diff([0, *s.changes, zoo.TICKS]) >= zoo.GAP).all()


def test_seeds_of_design_and_judging_differ() -> None:
    assert not set(zoo.DESIGN) & set(zoo.JUDGE)
    assert set(score_zoo.CALIBRATION) < set(zoo.DESIGN)


def test_an_unknown_kind_and_a_short_series_raise() -> None:
    with pytest.raises(ValueError, match="not 'poisson3/variance'"):
        zoo.series("poisson3/variance", 0)
    with pytest.raises(ValueError, match="too few"):
        zoo.series("white/level2", 0, ticks=500)


@pytest.mark.parametrize("background", ["white", "ar.5", "student-t3", "poisson30", "overdispersed"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_level_moves_by_its_size_in_standard_deviations(background: str, size: int) -> None:
    steps = []
    for seed in range(10):
        parts = regimes(f"{background}/level{size}", seed)
        steps.append(abs(parts[1].mean() - parts[0].mean()) / parts[0].std())
    assert np.mean(steps) == pytest.approx(size, rel=0.15)


@pytest.mark.parametrize("background", ["white", "ar.8", "drift", "repeating"])
def test_a_variance_changes_threefold(background: str) -> None:
    def spread(x: Array) -> float:
        return float(np.std(np.diff(x)))

    ratios = [spread(b) / spread(a) for a, b, *_ in (regimes(f"{background}/variance", seed) for seed in range(5))]
    assert np.mean(ratios) == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize(("background", "before", "after"), [("white", 0.0, 0.8), ("ar.8", 0.8, 0.0)])
def test_an_autocorrelation_changes_at_equal_variance(background: str, before: float, after: float) -> None:
    def lag1(x: Array) -> float:
        return float(np.corrcoef(x[1:], x[:-1])[0, 1])

    pairs = [regimes(f"{background}/autocorrelation", seed, 20_000)[:2] for seed in range(5)]
    assert np.mean([lag1(a) for a, _ in pairs]) == pytest.approx(before, abs=0.05)
    assert np.mean([lag1(b) for _, b in pairs]) == pytest.approx(after, abs=0.05)
    assert np.mean([np.log(b.std() / a.std()) for a, b in pairs]) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("background", ["sine", "sawtooth"])
def test_a_period_changes_by_half(background: str) -> None:
    def frequency(x: Array) -> float:
        x = x - x.mean()
        power = np.abs(np.fft.rfft(x, 1 << 16))
        return float(np.argmax(power)) / (1 << 16)

    for seed in range(3):
        a, b, *_ = regimes(f"{background}/period", seed)
        assert abs(math.log(frequency(b) / frequency(a))) == pytest.approx(math.log(1.5), abs=0.02)


def test_a_slope_begins_without_a_jump() -> None:
    s = zoo.series("white/slope", 3, 6000)
    a, b = s.changes[:2]
    t = np.arange(b - a)
    slope, start = np.polyfit(t, s.x[a:b], 1)
    unit = s.x[:a].std()
    assert abs(slope) / unit == pytest.approx(0.05, rel=0.1)
    assert abs(start - s.x[:a].mean()) < unit


# ---- scores of the zoo

SERIES = zoo.Series("by hand", np.zeros(1200), (300, 700), "white/level2", 0)


def test_alarms_match_changes_once() -> None:
    alarms = [Alarm(100, 90), Alarm(310, 301), Alarm(320, 315), Alarm(900, 700)]
    assert score_zoo.score(SERIES, alarms) == score_zoo.Score((10.0, 200.0), 1, 3)  # 900 is 200 ticks late


def test_a_method_that_looks_ahead_has_no_delay() -> None:
    found = score_zoo.score(SERIES, [Alarm(285, 285), Alarm(305, 305), Alarm(730, 730)], online=False)
    assert math.isnan(found.delays[0])
    assert (found.missed, found.false) == (1, 2)


def test_rates_and_delays() -> None:
    found = [score_zoo.Score((10.0, 200.0), 1, 3), score_zoo.Score((30.0,), 0, 0)]
    assert list(score_zoo.rate(found, 1200)) == pytest.approx([1.25, 1.25])
    assert list(score_zoo.delay(found)) == pytest.approx([80.0, 1 / 3])


def test_the_ratio_of_delays_is_of_readings() -> None:
    mine, theirs = [score_zoo.Score((9.0, 19.0), 0, 0)], [score_zoo.Score((4.0, 9.0), 0, 0)]
    assert score_zoo.ratio(mine, theirs) == (2.0, 0.0)  # 10 and 20 readings against 5 and 10
    other = [score_zoo.Score((9.0, 4.0), 0, 0)]
    # residuals 10 - 2 x 10 and 20 - 2 x 5: standard error 10 over the mean of 7.5
    assert list(score_zoo.ratio(mine, other)) == pytest.approx([2.0, 10.0 / 7.5])


def every(x: Array, times: Times, threshold: float) -> list[Alarm]:
    """An alarm every `threshold` ticks."""
    return [Alarm(int(t), int(t)) for t in np.arange(threshold, x.size, threshold)]


def test_a_threshold_is_set_to_a_rate(tmp_path: Path) -> None:
    method = Method("every", False, True, every, 10.0, (1.0, 1e6))
    level = score_zoo.calibrate(method, "white", 2.0, [50], Cache(tmp_path), zoo.TICKS)
    assert 400.0 <= level < 420.0  # two alarms in 1,200 ticks are 1.67 per 1,000, three are 2.5
    never = Method("often", False, True, every, 10.0, (1.0, 100.0))
    assert math.isnan(score_zoo.calibrate(never, "white", 2.0, [50], Cache(tmp_path), zoo.TICKS))


def test_short_delays_do_not_count_with_many_false_alarms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def moved(x: Array, times: Times, threshold: float) -> list[Alarm]:
        """Many alarms in a series whose level moves, otherwise none."""
        return every(x, times, 10.0) if x.std() > 0.85 * np.diff(x).std() else []

    monkeypatch.setattr(score_zoo, "QUIET", ("white",))
    monkeypatch.setattr(score_zoo, "CHANGED", ("white/level2",))
    peer = Method("peer", False, True, moved, 10.0, (1.0, 1e6))
    for run, rates, verdict in (
        (moved, "| 0.00 | 0.50 |", "1 of 1"),
        (lambda x, times, threshold: every(x, times, 10.0), "| 99.17 | 99.17 |", "0 of 1"),
        (lambda x, times, threshold: [], "| 0.00 | 0.50 |", "0 of 1"),
    ):
        first = Method("first", False, True, run)
        table = score_zoo.equal_rate_table(first, [peer], range(20), Cache(tmp_path), zoo.TICKS)
        assert rates in table
        assert f"within 1.2 of the best peer: {verdict}" in table
        assert ("too many alarms" in table) == rates.startswith("| 99")
    first = Method("first", False, True, moved)
    assert "| 0.00 | 5.00 |" in score_zoo.equal_rate_table(first, [peer], range(2), Cache(tmp_path), zoo.TICKS, 5.0)


def test_results_of_peers_are_cached_and_ours_are_not(tmp_path: Path) -> None:
    runs = []

    def run(x: Array, times: Times, threshold: float) -> list[Alarm]:
        runs.append(threshold)
        return [Alarm(3, 2)]

    x = np.arange(5.0)
    peer = Method("peer", False, True, run, 1.0, package="numpy")
    for _ in range(2):
        cache = Cache(tmp_path)
        assert cache.detect(peer, x) == [Alarm(3, 2)]
        cache.save()
    assert runs == [1.0]
    Cache(tmp_path).detect(peer, x, threshold=2.0)
    Cache(tmp_path).detect(peer, x + 1.0)
    assert runs == [1.0, 2.0, 1.0]
    own = Method("own", False, True, run, 5.0)
    for _ in range(2):
        Cache(tmp_path).detect(own, x)
    assert runs[3:] == [5.0, 5.0]


# ---- methods


def test_our_method_is_the_command_without_a_configuration(tmp_path: Path) -> None:
    x = zoo.series("white/level2", 0).x
    path = tmp_path / "x.csv"
    path.write_text("x\n" + "\n".join(map(repr, x.tolist())))
    result = CliRunner().invoke(main, ["detect", str(path), "--alarms", "--quiet"])
    assert result.exit_code == 0
    steps = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(steps) >= 2
    assert ours()[0].detect(x) == [Alarm(step["tick"], step["changed_at"]) for step in steps]


def test_no_alarm_comes_before_the_readings_it_is_computed_from() -> None:
    x = zoo.series("ar.8", 0).x.copy()
    x[40:] += 10.0 * x.std()  # found at once
    for name, wait in (("mfbocd", 20), ("ADWIN", 100), ("PageHinkley", 100)):
        (method,) = select(name)
        assert not method.looks_ahead
        alarms = method.detect(x)
        assert alarms
        first = min(a.at for a in alarms)
        assert first >= wait - 1 if name == "mfbocd" else first == wait - 1
        assert all(a.changed_at <= a.at for a in alarms)
        cut = [a for a in alarms if a.at < 700]
        assert method.detect(x[:700]) == cut  # later readings change nothing


def test_standardization_of_peers() -> None:
    x = np.concatenate([np.tile([1.0, 3.0], 50), [10.0]])
    z = peers.standardized(x)
    assert z[:2].tolist() == [-1.0, 1.0]
    assert z[-1] == 8.0
    assert peers.standardized(np.ones(5)).tolist() == [0.0] * 5
    noise = np.random.default_rng(0).normal(0.0, 4.0, 5000) + np.repeat([0.0, 100.0], 2500)
    assert float(np.std(peers.by_noise(noise)[:2500])) == pytest.approx(1.0, rel=0.05)
    assert np.isfinite(peers.by_noise(np.ones(5))).all()


def test_unknown_methods_raise() -> None:
    with pytest.raises(ValueError, match="not nonsense"):
        select("mfbocd,nonsense")


# ---- covering and F1


def test_covering_by_hand() -> None:
    assert covering([[50]], [50], 100) == 1.0
    assert covering([[50]], [], 100) == 0.5
    # segments [0, 50) and [50, 100) against [0, 40) and [40, 100): 40 / 50 and 50 / 60
    assert covering([[50]], [40], 100) == pytest.approx(0.5 * 0.8 + 0.5 * 50 / 60)
    assert covering([[50], []], [50], 100) == pytest.approx((1.0 + 0.5) / 2)
    assert covering([[50]], [0, 50, 100], 100) == 1.0  # the ends are no changes


def test_f1_by_hand() -> None:
    assert f1([{50}], [53]) == 1.0
    assert f1([{50}], [56]) == 0.5  # 0 is found, and one of two marks on either side
    assert f1([{50}], [49, 51]) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))  # a mark counts once
    assert f1([{50, 54}], [52]) == pytest.approx(2 * (2 / 3) / (1 + 2 / 3))  # and a detection matches once
    # precision 3 / 3 against the union, recall (2 / 2 + 2 / 2) / 2
    assert f1([{50}, {80}], [50, 80]) == 1.0
    assert f1([{50}, {80}], [50]) == pytest.approx(2 * 0.75 / 1.75)  # recall (1 + 1 / 2) / 2


# ---- TCPD and TSSB


def test_published_rows_are_complete() -> None:
    known = tcpd.published()
    assert {len(known[name]) for name in ("bocpd", "zero")} == {16}
    assert set(known["bocpd"]) - set(known["binseg"]) == {"run_log"}
    assert np.mean([c for c, _ in known["binseg"].values()]) == pytest.approx(0.761, abs=5e-4)
    assert np.mean([f for _, f in known["binseg"].values()]) == pytest.approx(0.762, abs=5e-4)


def folder_or_skip(name: str) -> Path:
    try:
        return data_folder(name)
    except MissingDataError as error:
        pytest.skip(str(error))


def test_no_change_scores_as_published() -> None:
    known = tcpd.published()["zero"]
    loaded = tcpd.load(folder_or_skip("tcpd"))
    for name, (x, marks) in loaded.items():
        assert (covering(marks, [], len(x)), f1(marks, [])) == pytest.approx(known[name], abs=1e-4)


def test_tssb_is_read(tmp_path: Path) -> None:
    (tmp_path / "desc.txt").write_text("One,10,3,5\nTwo,20,4\n")
    (tmp_path / "One.txt").write_text("1\n2.5\n3\n")
    (tmp_path / "Two.txt").write_text("1e-3\n")
    loaded = tssb.load(tmp_path)
    assert loaded["One"][0].tolist() == [1.0, 2.5, 3.0]
    assert (loaded["One"][1], loaded["Two"][1]) == ([3, 5], [4])
    assert list(tssb.load(tmp_path, 1)) == ["One"]


def test_tssb_halves(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Series at even positions of the sorted names are the design half; the waveform changes in all but one."""
    t = np.arange(2000)
    wave = np.sin(2 * np.pi * t / 25)
    for seed, (name, change) in enumerate([("d", 1000), ("b", 500), ("a", 1500), ("c", 0)]):
        x = np.where(t < (change or 2000), wave, np.sign(wave)) + np.random.default_rng(seed).normal(0, 0.1, 2000)
        np.savetxt(tmp_path / f"{name}.txt", x)
    (tmp_path / "desc.txt").write_text("d,25,1000\nb,25,500\na,25,1500\nc,25\n")
    monkeypatch.setattr(tssb, "data_folder", lambda name: tmp_path)
    tssb.report([], Cache(tmp_path))
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    rows = {name: cells for name, *cells in lines}
    assert rows["none"] == ["no", "0.812", "0.562", "0.688", "-", "-", "0.0"]  # a and c, b and d, all
    looks_ahead, design, judge, both, *_, alarms = rows["shape_detector"]
    assert looks_ahead == "yes"
    assert min(float(design), float(judge), float(both)) > 0.95
    assert alarms == "0.8"  # three in four series


# ---- the command


def test_tables_are_markdown() -> None:
    assert markdown(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


@pytest.mark.slow
def test_the_command_prints_every_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def printed(arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["accuracy", *arguments.split()])
        command.main()
        return capsys.readouterr().out

    monkeypatch.setattr(command, "Cache", lambda: Cache(tmp_path))
    monkeypatch.setattr(score_zoo, "QUIET", ("white",))
    monkeypatch.setattr(score_zoo, "LEAST", 2)
    monkeypatch.setattr(score_zoo, "CHANGES", ("level2",))
    monkeypatch.setattr(score_zoo, "CHANGED", ("white/level2",))
    design = printed("zoo --count 2 --methods mfbocd,ADWIN")
    assert "| mfbocd | no | yes |" in design
    assert "| ADWIN | no | yes |" in design
    assert "seeds 0 to 1, 1200 ticks" in design
    assert "| kinds above 0.5 |" in design
    assert "best peer: 1 of 1 |" in design
    monkeypatch.setattr(score_zoo, "CHANGES", ("level2", "variance", "period"))
    monkeypatch.setattr(score_zoo, "CHANGED", ("white/level2", "white/variance", "sine/period"))
    judged = printed("zoo --count 1 --seeds judge --methods PageHinkley,ADWIN --rate 0.9")
    assert "seeds 1000 to 1000" in judged
    assert "| 0.90 |" in judged
    assert (tmp_path / "ADWIN.json").is_file()


def test_missing_data_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("benchmarks.accuracy.common.ROOT", Path("nowhere") / "checkout")
    monkeypatch.setattr("sys.argv", ["accuracy", "tcpd", "--methods", "mfbocd"])
    command.main()
    assert "Skipped tcpd: no folder shared/data/tcpd" in capsys.readouterr().out


# ---- speed


@pytest.mark.slow
def test_decisions_are_timed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.collect", lambda: 0)  # before every measurement, and slow in a process with many modules
    speed.decision(states=1)
    printed = capsys.readouterr().out
    for gain in GAINS:
        assert printed.count(f"{gain:11s} kernel") == 2  # two families
