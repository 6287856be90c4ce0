"""The score of the Numenta Anomaly Benchmark against values computed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import nab
from benchmarks.accuracy.methods import Array, Times

WINDOW = (100, 119)
"""The window of a file of 200 rows, of which 30 are probation."""


def nab_file(rows: int = 200, windows: tuple[tuple[int, int], ...] = (WINDOW,)) -> nab.File:
    return nab.File("f", [""] * rows, np.zeros(rows), windows)


def nab_score(detections: list[int], profile: str = "standard", file: nab.File | None = None) -> float:
    """The normalized score of these detections, without a choice of the threshold."""
    file = file or nab_file()
    scores = np.zeros(file.x.size)
    scores[detections] = 1.0
    scored, start = nab.points([file]), nab.probation(file.x.size)
    # rows that are no detections never help below the threshold of 1: their sum of false positives is large
    return nab.sweep(scored, scores[start:], profile)[0]


def test_sigma_by_hand() -> None:
    assert nab.sigma(-1.0) == pytest.approx(0.98661, abs=1e-5)
    assert nab.sigma(-0.5) == pytest.approx(0.84828, abs=1e-5)
    assert nab.sigma(0.0) == 0.0
    assert nab.sigma(1.0) == pytest.approx(-0.98661, abs=1e-5)
    assert nab.sigma(3.0) == -1.0


def test_worth_of_rows() -> None:
    worth = nab.worth(200, [WINDOW])
    assert worth[0] == worth[99] == -1.0  # no window yet
    assert worth[100] == pytest.approx(1.0)
    assert worth[110] == pytest.approx(0.84828 / 0.98661, abs=1e-5)  # half of the window is left
    assert worth[119] == pytest.approx((2 / (1 + math.exp(-5 / 20)) - 1) / 0.98661, abs=1e-5)
    assert worth[120] == pytest.approx(2 / (1 + math.exp(5 / 19)) - 1)
    assert worth[119 + 19] == pytest.approx(-0.98661, abs=1e-5)
    assert worth[119 + 57] == -1.0
    assert (np.diff(worth[100:176]) < 0).all()


def test_normalized_scores_by_hand() -> None:
    assert nab_score([]) == 0.0
    assert nab_score([100]) == pytest.approx(100.0)
    assert nab_score([100, 105, 119]) == pytest.approx(100.0)  # the first detection in a window counts
    assert nab_score([100, 60]) == pytest.approx(100.0 * (1.0 - 0.11 + 1.0) / 2.0)
    assert nab_score([100, 190]) == pytest.approx(
        100.0 * (1.0 - 0.11 + 1.0) / 2.0
    )  # no threshold splits equal scores
    assert nab_score([100, 60], "reward_low_FP") == pytest.approx(100.0 * (1.0 - 0.22 + 1.0) / 2.0)
    assert nab_score([100, 60], "reward_low_FN") == pytest.approx(100.0 * (1.0 - 0.11 + 2.0) / 3.0)
    late = 0.84828 / 0.98661
    assert nab_score([110]) == pytest.approx(100.0 * (late + 1.0) / 2.0, abs=1e-3)
    assert nab_score([10, 100]) == pytest.approx(100.0)  # probation
    two = nab_file(windows=(WINDOW, (150, 159)))
    assert nab_score([100], file=two) == pytest.approx(50.0)
    assert nab_score([60]) == 0.0  # better without any detection


def test_a_window_in_the_probation_does_not_count() -> None:
    assert nab.points([nab_file(windows=((5, 10), WINDOW))]).windows == 1
    assert nab.points([nab_file(windows=((25, 35), WINDOW))]).windows == 2
    assert (nab.probation(200), nab.probation(4999), nab.probation(100_000)) == (30, 749, 750)


def test_one_threshold_for_all_files() -> None:
    files = [nab_file(), nab_file()]
    first, second = np.zeros(200), np.zeros(200)
    first[100], second[60], second[100] = 0.5, 0.6, 0.3
    scored = nab.points(files)
    kept = np.concatenate([first[30:], second[30:]])
    score, threshold = nab.sweep(scored, kept, "standard")
    assert threshold == 0.3
    assert score == pytest.approx(100.0 * (2.0 - 0.11 + 2.0) / 4.0)


@pytest.mark.parametrize("scorer", nab.scorers(), ids=lambda s: s.name)
def test_scores_are_in_range_and_do_not_look_ahead(scorer: nab.Scorer) -> None:
    x = np.random.default_rng(0).normal(size=400)
    x[300:] += 8.0
    file = nab.File("f", [""] * 400, x, [(300, 399)])  # P(change) stays high for 200 ticks
    result = nab.evaluate(scorer, [file])
    assert set(result) == set(nab.PROFILES)
    if scorer.name != "blind, every 9 %":
        assert result["standard"][0] > 90.0
        other = x.copy()
        other[250:] = 0.0
        before, after = scorer.scores(x, None), scorer.scores(other, None)
        assert np.array_equal(before[60:250], after[60:250])


def test_a_given_threshold() -> None:
    """Rows that reach it count, whatever would have been best."""
    file = nab_file(windows=(WINDOW, (150, 159)))
    scores = np.zeros(200)
    scores[[60, 100, 105, 190]] = 0.4, 0.3, 0.5, 0.2
    scored, kept = nab.points([file]), scores[30:]
    late = nab.worth(200, file.windows)[105]
    after = nab.worth(200, file.windows)[190]

    def score(threshold: float, profile: str = "standard") -> float:
        return nab.score_at(scored, kept, profile, threshold)

    assert score(0.6) == score(math.inf) == 0.0
    assert score(0.5) == pytest.approx(100.0 * (late + 1.0) / 4.0)
    assert score(0.4) == pytest.approx(100.0 * (late + 1.0 - 0.11) / 4.0)
    assert score(0.3) == pytest.approx(100.0 * (1.0 + 1.0 - 0.11) / 4.0)
    assert score(0.2) == pytest.approx(100.0 * (2.0 - 0.11 + 0.11 * after) / 4.0)
    assert score(0.3, "reward_low_FN") == pytest.approx(100.0 * (1.0 + 2.0 - 0.11) / 6.0)
    for profile in nab.PROFILES:
        best, threshold = nab.sweep(scored, kept, profile)
        assert score(threshold, profile) == pytest.approx(best)


def test_the_threshold_is_chosen_on_the_design_half() -> None:
    """Files at even positions of the sorted names; the others would prefer another threshold."""
    level = {"a": (0.5, 0.4), "b": (0.3, 0.6), "c": (0.5, 0.4), "d": (0.3, 0.6)}  # in the window, outside
    files = [nab.File(name, [""] * 200, np.full(200, float(ord(name))), [WINDOW]) for name in "dbca"]

    def scores(x: Array, times: Times) -> Array:
        out = np.zeros(x.size)
        out[[100, 60]] = level[chr(int(x[0]))]
        return out

    found = nab.halves(nab.Scorer("s", False, scores), files)["standard"]
    assert found.threshold == 0.5
    assert found.design == pytest.approx(100.0)
    assert found.judge == pytest.approx(100.0 * (0.0 - 0.11) / 2.0)  # misses both windows, and two false detections
    assert found.both == pytest.approx((found.design + found.judge) / 2.0)
    assert found.best == pytest.approx(100.0 * (2.0 - 0.11) / 2.0)  # at 0.3: every window, four false detections


def test_scores_out_of_range_raise() -> None:
    broken = nab.Scorer("broken", False, lambda x, times: x + 2.0)
    with pytest.raises(ValueError, match="one number in"):
        nab.evaluate(broken, [nab_file()])


def test_windows_become_rows(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    rows = [f"2014-01-01 00:{i:02d}:00,{i}" for i in range(30)]
    (tmp_path / "a" / "b.csv").write_text("timestamp,value\n" + "\n".join(rows))
    window = ["2014-01-01 00:10:00.000000", "2014-01-01 00:12:30.000000"]
    (tmp_path / "windows.json").write_text(json.dumps({"a/b.csv": [window], "a/c.csv": []}))
    (file,) = nab.load(tmp_path, 1)
    assert file.windows == [(10, 12)]
    assert file.x[10:13].tolist() == [10.0, 11.0, 12.0]
