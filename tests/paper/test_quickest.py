"""The quickest study: naive twins of the peers, published and reference delays, calibration, the page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mfbocd as mf
from paper.framework import Options
from paper.quickest import fleets, page, peers
from paper.quickest.cells import Cell
from paper.quickest.focus import focus
from paper.quickest.measure import Size, measure, threshold_for, ticks_per_alarm
from paper.quickest.real import REAL
from paper.quickest.rules import KEPT, NEVER, OURS, RULES, Outcome, bisect, follow, rules_of
from paper.quickest.settings import MAIN, ON_OR_OFF, SYNTHETIC, WIDE, Drawn
from paper.targets.quickest import SETTINGS, quickest

from .helpers import missing

pytestmark = pytest.mark.slow
Array = NDArray[np.float64]


# --- naive twins -------------------------------------------------------------------------------------------------


def ratios(seed: int, kinds: int = 2, ticks: int = 400, fidelities: int = 2) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ticks, fidelities))
    x[ticks // 2 :] += 0.7
    return np.stack([s * x - 0.5 for s in (1.0, -1.0)[:kinds]])


def naive_suspicious(ratio: Array, after: int, suspicion: float, threshold: float) -> tuple[list[int], list[int]]:
    alarms, choices = [], []
    began = 0
    for t in range(ratio.shape[1]):
        # W of a CUSUM is the largest sum over a suffix of the readings since the last alarm, or 0
        read = [[ratio[d, s, choices[s]] for s in range(began, t)] for d in range(len(ratio))]
        w = [max([0.0, *(sum(r[k:]) for k in range(len(r)))]) for r in read]
        choices.append(ratio.shape[2] - 1 if max(w) > suspicion else 0)
        read = [[ratio[d, s, choices[s]] for s in range(began, t + 1)] for d in range(len(ratio))]
        if max(max([0.0, *(sum(r[k:]) for k in range(len(r)))]) for r in read) > threshold:
            alarms.append(t)
            began = t + 1
            if t >= after:
                break
    return alarms, choices


def naive_shiryaev(ratio: Array, after: int, suspicion: float, threshold: float) -> tuple[list[int], list[int]]:
    alarms, choices = [], []
    began = 0
    for t in range(ratio.shape[1]):

        def odds(until: int) -> float:
            # the likelihood ratios of all change ticks since the last alarm
            read = [[ratio[d, s, choices[s]] for s in range(began, until)] for d in range(len(ratio))]  # noqa: B023
            return sum(math.exp(sum(r[k:])) for r in read for k in range(len(r)))

        choices.append(ratio.shape[2] - 1 if odds(t) > suspicion else 0)
        if math.log(odds(t + 1)) > threshold:
            alarms.append(t)
            began = t + 1
            if t >= after:
                break
    return alarms, choices


def naive_data_efficient(ratio: Array, after: int, step: float, depth: float, threshold: float) -> Any:
    alarms, choices = [], []
    d = [0.0] * len(ratio)
    for t in range(ratio.shape[1]):
        taken = any(v >= 0.0 for v in d)
        choices.append(ratio.shape[2] - 1 if taken else -1)
        d = [max(v + ratio[k, t, -1], -depth) if taken else min(v + step, 0.0) for k, v in enumerate(d)]
        if max(d) > threshold:
            alarms.append(t)
            d = [0.0] * len(ratio)
            if t >= after:
                break
    return alarms, choices


def naive_two_experiments(ratio: Array, after: int, scale: float, threshold: float) -> Any:
    alarms, choices = [], []
    state = [(0.0, 0.0)] * len(ratio)  # statistic and floor
    for t in range(ratio.shape[1]):
        better = any(d >= 0.0 for d, _ in state)
        choices.append(ratio.shape[2] - 1 if better else 0)
        moved = []
        for k, (d, floor) in enumerate(state):
            new = d + ratio[k, t, choices[-1]]
            if new >= 0.0:
                moved.append((new, floor))
            elif d >= 0.0:  # it falls below 0 now
                moved.append((scale * new, scale * new))
            else:
                moved.append((max(new, floor), floor))
        state = moved
        if max(d for d, _ in state) > threshold:
            alarms.append(t)
            state = [(0.0, floor) for _, floor in state]
            if t >= after:
                break
    return alarms, choices


def naive_top_r(
    x: Array, size: float, extra: float, reads: int, top: int, threshold: float, breaks: Array
) -> list[int]:
    alarms = []
    w = {(i, s): 0.0 for i in range(x.shape[1]) for s in (1, -1)}
    for t, row in enumerate(x):
        local = [max(w[i, 1], w[i, -1]) + breaks[i] for i in range(len(row))]
        read = set(sorted(range(len(row)), key=lambda i: -local[i])[:reads])
        for i, s in w:
            w[i, s] = max(w[i, s] + s * size * row[i] - size**2 / 2, 0.0) if i in read else w[i, s] + extra
        if sum(sorted(max(w[i, 1], w[i, -1]) for i in range(len(row)))[-top:]) > threshold:
            alarms.append(t)
            w = dict.fromkeys(w, 0.0)
    return alarms


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("fast", "naive", "arguments"),
    [
        (peers.suspicious_cusum, naive_suspicious, (1.0, 4.0)),
        (peers.suspicious_cusum, naive_suspicious, (-1.0, 3.0)),
        (peers.suspicious_shiryaev, naive_shiryaev, (20.0, 5.0)),
        (peers.data_efficient_cusum, naive_data_efficient, (0.2, 100.0, 3.0)),
        (peers.data_efficient_cusum, naive_data_efficient, (0.2, 0.5, 3.0)),
        (peers.two_experiment_cusum, naive_two_experiments, (3.0, 4.0)),
    ],
)
def test_peers_equal_their_naive_twins(
    fast: Callable[..., peers.Run], naive: Callable[..., Any], arguments: tuple[float, ...], seed: int
) -> None:
    ratio = ratios(seed, kinds=1 + seed % 2)
    for after in (NEVER, 200):
        alarm, choice = fast(ratio, after, *arguments)
        alarms, choices = naive(ratio, after, *arguments)
        assert np.flatnonzero(alarm).tolist() == alarms
        assert choice[: len(choices)].tolist() == choices
        assert alarms


def test_tras_equals_its_naive_twin() -> None:
    rng = np.random.default_rng(5)
    x, breaks = rng.normal(size=(600, 12)), 1e-9 * rng.random(12)
    x[300:, :2] += 1.5
    alarm, _ = peers.top_r_adaptive(x, NEVER, 1.0, 0.05, 3, 2, 6.0, breaks)
    alarms = naive_top_r(x, 1.0, 0.05, 3, 2, 6.0, breaks)
    assert np.flatnonzero(alarm).tolist() == alarms
    assert len(alarms) > 2


def test_focus_is_the_largest_likelihood_ratio_over_all_changes() -> None:
    """Two-sided, with the level before known: max over k of (sum of the last k)^2 / (2 k)."""
    x = np.random.default_rng(3).normal(size=300)
    x[200:] += 1.0
    began, alarms = 0, []
    for t in range(300):
        sums = np.cumsum(x[began : t + 1][::-1])
        if (sums**2 / (2.0 * np.arange(1, sums.size + 1))).max() >= 5.0:
            alarms.append(t)
            began = t + 1
    assert np.flatnonzero(focus(x, NEVER, 5.0)).tolist() == alarms
    assert len(alarms) > 2


@pytest.mark.parametrize("charge", [0.01, 0.04])
def test_no_rule_is_quicker_than_one_that_reads_above_a_level(charge: float) -> None:
    """Value iteration over all rules that know both levels; `charge` is the price of an expensive reading.

    State: log odds of a change by 1 sd. A tick after the change costs 1, an expensive reading before it `charge`, an
    alarm before it 400. The best rule reads the expensive fidelity exactly above one level, up to the alarm.
    """
    hazard = 1 / 1000
    log_odds = np.linspace(-14.0, 8.0, 441)
    node, share = np.polynomial.hermite_e.hermegauss(21)
    share = share / share.sum()
    odds = (np.exp(log_odds) + hazard) / (1.0 - hazard)
    p = odds / (1.0 + odds)

    def transition(zeta: float) -> Array:
        """Row i: the weights of the grid in the expected value after a reading in state i, interpolated linearly."""
        matrix, rows = np.zeros((log_odds.size, log_odds.size)), np.arange(log_odds.size)
        for s, belief in ((-1.0, 1.0 - p), (1.0, p)):
            for z, weight in zip(node, share, strict=True):
                place = (np.log(odds) + s * zeta / 2.0 + math.sqrt(zeta) * z - log_odds[0]) / (
                    log_odds[1] - log_odds[0]
                )
                left = np.clip(np.floor(place).astype(int), 0, log_odds.size - 2)
                part = np.clip(place - left, 0.0, 1.0)
                matrix[rows, left] += belief * weight * (1.0 - part)
                matrix[rows, left + 1] += belief * weight * part
        return matrix

    cheap, best = transition(0.1), transition(1.0)
    stop = 400.0 * (1.0 - 1.0 / (1.0 + np.exp(-log_odds)))
    value, change = np.zeros(log_odds.size), math.inf
    while change > 1e-6:
        low, high = p + cheap @ value, p + best @ value + charge * (1.0 - p)
        new = np.minimum(np.minimum(low, high), stop)
        value, change = new, float(np.abs(new - value).max())
    going = stop > np.minimum(low, high)
    alarm = int(np.argmin(going))
    assert 300 < alarm < log_odds.size  # it alarms above a level
    assert not going[alarm:].any()
    reads = (high < low)[:alarm]
    level = int(np.argmax(reads))
    assert 100 < level < alarm
    assert reads[level:].all()


# --- reference delays --------------------------------------------------------------------------------------------


def near(cell: dict[str, Any], wanted: float) -> None:
    """Within three standard errors, of the delays and of a threshold from 100 to 200 false alarms (2 %)."""
    delays = np.array(cell["delays"])
    error = math.hypot(delays.std() / math.sqrt(delays.size), 0.02 * wanted)
    assert abs(delays.mean() - wanted) < 3.0 * error + 0.05, (delays.mean(), wanted, error)


@pytest.mark.parametrize(("duty", "delay"), [(0.5, 14.4), (0.25, 19.8), (0.1, 39.2)])
def test_delays_of_de_cusum(duty: float, delay: float) -> None:
    setting, size = ON_OR_OFF["duty"](), Size(100, 1000, 600)
    (cell,) = measure(setting, "DE-CuSum, both levels known", duty, size, seed=1)
    assert 0.8 * duty < cell["spent"] < duty  # `duty` is that of streams without alarms
    assert 400.0 < cell["every"] < 625.0
    near(cell, delay)


def test_delay_of_a_cusum_that_reads_every_tick() -> None:
    setting = ON_OR_OFF["duty"]()
    (cell,) = measure(setting, "CUSUM at every tick, both levels known", 1.0, Size(100, 1000, 600), seed=1)
    near(cell, 12.9)


def test_delays_of_focus() -> None:
    setting = ON_OR_OFF["plain"]()
    two = replace(setting, changed=dict(list(setting.changed.items())[1:3]))  # a peer in Python: the others take long
    cells = measure(two, "FOCuS at every tick, level before known", 1.0, Size(24, 1000, 100), seed=1)
    for cell, delay in zip(cells, (15.9, 9.4), strict=True):
        near(cell, delay)


@pytest.mark.parametrize(("spend", "delay"), [(0.05, (36.0, 11.0)), (0.2, (21.0, 6.5))])
def test_delays_of_the_cusum_that_knows_both_levels(spend: float, delay: tuple[float, float]) -> None:
    cells = measure(SYNTHETIC[MAIN](), "CUSUM, both levels known", spend, Size(50, 4000, 400), seed=1)
    assert [c["change"] for c in cells] == ["1 sd", "2 sd"]
    for cell, wanted in zip(cells, delay, strict=True):
        near(cell, wanted)


def test_delays_of_tras() -> None:
    scale = fleets.Scale(quiet=2, ticks=10_000, changed=60)
    cells = fleets.tras_cells("TRAS, size known", scale, seed=1)
    for cell, wanted in zip(cells, (58.0, 22.0, 16.5, 7.0), strict=True):
        delays = np.array(cell["delays"])
        error = math.hypot(delays.std() / math.sqrt(delays.size), 0.1 * wanted)  # 10 false alarms
        assert abs(delays.mean() - wanted) < 3.0 * error, (cell["change"], delays.mean(), error)


def test_delay_of_random_choice() -> None:
    """Of all streams, as the reference counts."""
    cells = measure(SYNTHETIC[MAIN](), "random", 0.2, Size(50, 4000, 300), seed=1)
    for cell, wanted in zip(cells, (47.0, 13.5), strict=False):
        near(cell, wanted)


# --- calibration and scores --------------------------------------------------------------------------------------


def test_a_threshold_has_the_wanted_number_of_false_alarms() -> None:
    for shift in (-3.0, 0.0, 9.0):
        found = threshold_for(lambda x, s=shift: round(2000 * math.exp(-0.7 * (x - s))), 100.0)  # type: ignore[misc]
        assert 2000 * math.exp(-0.7 * (found - shift)) == pytest.approx(100.0, rel=0.06)
    assert bisect(lambda x: -x, -3.0, 0.0, 8.0, halvings=30) == pytest.approx(3.0, abs=1e-6)


def test_delays_and_spend_of_an_outcome() -> None:
    setting = SYNTHETIC[MAIN]()
    alarm = np.zeros((10, 3), dtype=bool)
    alarm[4, 0] = alarm[2, 1] = alarm[9, 1] = True
    choice = np.zeros((10, 3), dtype=np.int64)
    choice[5:] = 1
    run = Outcome(alarm, choice)
    assert run.delays(Drawn(np.zeros((10, 3, 2)), (4,)), 5).ravel().tolist() == [1.0, 5.0, 5.0]
    assert run.delays(Drawn(np.zeros((10, 3, 2)), (2, 8)), 100).tolist() == [[3.0, 2.0], [1.0, 2.0], [6.0, 2.0]]
    assert run.spent(setting, 0) == pytest.approx(0.5)
    assert run.spent(setting, 5) == pytest.approx(1.0)


def test_streams_are_followed_as_by_single_detectors() -> None:
    setting = SYNTHETIC[MAIN]()
    drawn = setting.changed["2 sd"](4, 3)
    drawn = Drawn(drawn.table[800:1100], (200,))
    run = follow(setting, mf.Budget(share=0.2), drawn, 1.0, seed=7)
    for i in range(3):
        detector = mf.Detector(
            setting.model,
            setting.fidelities,
            setting.hazard,
            policy=mf.Budget(share=0.2),
            alarm=mf.Alarm(200, 1.0 / (1.0 + math.exp(-1.0))),
            prune=mf.Resample(KEPT),
            seed=7 + i,
        )
        trace = mf.run(detector, drawn.table[:, i])
        end = np.flatnonzero(trace.alarm & (np.arange(300) >= 200))[:1]
        assert end.size == 1
        assert np.flatnonzero(run.alarm[:, i]).tolist() == np.flatnonzero(trace.alarm[: end[0] + 1]).tolist()
        np.testing.assert_array_equal(run.choice[: end[0] + 1, i], trace.choice[: end[0] + 1])
        assert (run.choice[end[0] + 1 :, i] == -1).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_streams_and_rules(name: str) -> None:
    setting = SETTINGS[name]()
    assert setting.name == name
    columns = len(setting.fidelities)
    assert setting.quiet(1, 2, 50).shape == (50, 2, columns)
    np.testing.assert_array_equal(setting.quiet(1, 2, 50), setting.quiet(1, 2, 50))
    for change, make in setting.changed.items():
        drawn = make(1, 2)
        assert drawn.table.shape[1:] == (2, columns)
        assert drawn.changes[0] == setting.lead
        if change in setting.ratio:
            kinds, *shape = setting.ratio[change](drawn.table).shape
            assert kinds in (1, 2)
            assert tuple(shape) == drawn.table.shape
    assert [r.name for r in rules_of(setting)] == list(dict.fromkeys(r.name for r in rules_of(setting)))
    if name in REAL:
        assert not any(r.oracle for r in rules_of(setting))


def test_log_likelihood_ratios() -> None:
    """E exp(log ratio) is 1 before the change, for every fidelity."""
    for name in (MAIN, "flipped", "ladder"):
        setting = SYNTHETIC[name]()
        quiet = setting.quiet(2, 40, 5000)
        for ratio in setting.ratio.values():
            values = np.exp(ratio(quiet)).reshape(-1, quiet.shape[0] * quiet.shape[1], quiet.shape[2])
            error = values.std(axis=1) / math.sqrt(values.shape[1])
            assert (np.abs(values.mean(axis=1) - 1.0) < 5.0 * error).all()


def test_false_alarms_of_a_fleet_are_counted_once() -> None:
    path = np.zeros(1000)
    path[[10, 11, 100, 300]] = 5.0
    assert fleets.alarms(path, 1.0) == [10, 300]
    rng = np.random.default_rng(0)
    paths = [rng.exponential(size=30_000) for _ in range(2)]
    assert fleets.ticks_per_alarm(paths, fleets.threshold_of(paths)) == pytest.approx(2000.0, rel=0.05)


# --- the page ----------------------------------------------------------------------------------------------------


def cell(rule: str, delays: list[float], **more: Any) -> Cell:
    given = {"setting": MAIN, "change": "1 sd", "spend": 0.05, "spent": 0.05, "threshold": 1.0, "every": 2000.0}
    return Cell(rule=rule, delays=delays, clear=[True] * len(delays), **(given | more))


def test_a_loss_is_listed_if_it_exceeds_its_error() -> None:
    rng = np.random.default_rng(1)
    base = 40.0 + rng.normal(size=200)
    ours, slow = cell(OURS, base.tolist()), cell("random", (base - 1.0).tolist())
    assert "- none" in page.losses([ours, slow])  # 2 % of two thresholds is more
    assert page.losses([ours, cell("random", (base - 9.0).tolist())]).count("\n- ") == 1
    assert "random, later by 9.0" in page.losses([ours, cell("random", (base - 9.0).tolist())])
    # a rule that knows the change is no loss, but a finding
    knows = cell("CUSUM, both levels known", (base / 2.0).tolist())
    assert "- none" in page.losses([ours, knows])
    assert "2.00 times its delay" in page.findings([ours, knows])


def test_a_rule_that_misses_its_spend_is_not_compared() -> None:
    ours, other = cell(OURS, [40.0, 41.0]), cell("random", [10.0, 11.0], spent=0.3)
    assert "- none" in page.losses([ours, other])
    assert "10.5 (1.0) at 30%" in page.main_table([ours, other], MAIN)


def test_the_summary_compares_ours_for_each_prior() -> None:
    """The headline of the first setting, and the ratios of both: of the clear streams and of all."""
    knows, best = "CUSUM, both levels known", "optimal rule, both levels known"
    first = [
        cell(OURS, [20.0, 30.0]),
        cell("random", [50.0, 50.0]),
        cell(knows, [20.0, 20.0]),
        cell(best, [20.0, 18.0]),
    ]
    text = page.headline(first)
    assert text == f"`{OURS}` finds a change of one standard deviation after 25 ticks at 5% spend (random choice 50)."
    assert "| Prior N(0, 1), 5% spend | 25.0 (10.0) | 0.50 | 0.38 | 0.50 | 1.25 |" in page.summary_table(first)
    assert "N(0, 9)" not in page.summary_table(first)
    second = [replace(c, setting=WIDE, clear=[True, False]) for c in first]
    assert "| Prior N(0, 9), 5% spend | 20.0 | 0.40 | 0.40 | 0.50 | 1.00 |" in page.summary_table([*first, *second])
    assert page.headline([]) == page.summary_table([]) == "This run does not have the rules of the summary."


def test_only_streams_clear_for_both_are_compared() -> None:
    a = Cell(MAIN, "1 sd", "random", 0.05, 0.05, 1.0, 2000.0, [10.0, 1000.0, 14.0], [True, False, True])
    b = Cell(MAIN, "1 sd", OURS, 0.05, 0.05, 1.0, 2000.0, [8.0, 9.0, 900.0], [True, True, False])
    assert a.number.value == 12.0
    assert a.overall.value == pytest.approx(1024 / 3)
    assert b.later_than(a).value == -2.0


def test_a_quick_run_has_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paper.quickest.measure.TRIES", 1)  # the numbers do not matter here
    monkeypatch.setattr("paper.targets.quickest.QUICK_TICKS", 60)
    options = Options(tmp_path, trials=4, quick=True, jobs=1, progress=False, given={"family": (MAIN, "duty")})
    result = quickest.run(options)
    titles = [title for title, _ in result.sections]
    assert titles[:2] == ["Ours, random choice and what is possible", "Findings"]
    assert titles[2:4] == ["Prior N(0, 1): delay against spend", "Where ours is slower"]
    assert "Read or skip" in titles
    assert result.figures[0].stem == "quickest"
    # a quick run has fewer rules and settings, so some heads and sentences are shorter than on the page
    assert not [line for line in missing(quickest, result) if line.startswith("# ")]
    assert {row.what for row in result.more} >= {"delay", "ticks per false alarm", "spent"}
    with pytest.raises(ValueError, match=r"family must be one of gaussian, .* not 'nonsense'"):
        quickest.run(Options(tmp_path, given={"family": ("nonsense",)}))


def test_rules_have_unique_names_and_state_what_they_know() -> None:
    for name, rule in RULES.items():
        assert rule.name == name
        assert bool(rule.oracle) == ("known" in name)


def test_a_cheap_fidelity_worse_than_declared_causes_false_alarms() -> None:
    """With the threshold of a correct declaration, several times as many."""
    size, setting = Size(20, 3000, 2), SYNTHETIC[MAIN]()
    cells = measure(setting, "random", 0.05, size, seed=3)
    right, wrong = (
        ticks_per_alarm(s, "random", 0.05, cells[0]["threshold"], size, 3)
        for s in (setting, SYNTHETIC["zeta-too-high"]())
    )
    assert right == cells[0]["every"]
    assert wrong < right / 3.0
    table = page.declared_table([("zeta-too-high", "random", 0.05, wrong)])
    assert f"| random | {wrong:.0f} |" in table
