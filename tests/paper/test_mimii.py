"""Machine sounds: the ToyCar protocol against naive twins, and the text of the page."""

import numpy as np
import pytest

import mfbocd as mf
from paper import published
from paper.framework import Number, write
from paper.sound.figures import rates
from paper.sound.machines import HAZARD, Machine, fidelities, streams, toycar
from paper.sound.rules import errors, family_of, informed, play, random_choices, within_budgets
from paper.sound.table import PRINTED, Played, deciding, operations, table_rows
from paper.targets.mimii import carries_over, headline, mimii

from .helpers import missing, small

pytestmark = pytest.mark.slow


def options(out, **more):
    return small(out, **{"trials": 3, "quick": True, **more})


# --- the protocol ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [4, 1])
@pytest.mark.parametrize("machine", [1, 2, 3, 4])
def test_readings_streams_and_zeta_are_those_of_the_shipped_streams(machine, windows):
    mine = toycar(machine, windows)
    found = fidelities(mine)
    drawn = streams(mine, found.readings, 200, range(7, 9))
    column = {1: 0, 4: 1}[windows]
    for i, seed in enumerate((7, 8)):
        theirs = mf.datasets.toycar(machine, seed)
        np.testing.assert_array_equal(drawn.tables[:, i], theirs.table[:, [column, 3]])
        np.testing.assert_array_equal(drawn.truth[:, i], theirs.truth)
    assert found.zeta == theirs.fidelities[column].zeta
    assert mine.flops == (2 * theirs.fidelities[column].cost, 2 * theirs.fidelities[3].cost)


def test_streams_use_clips_of_the_kind_drawn_and_none_held_out():
    machine = toycar(2, 4)
    drawn = streams(machine, fidelities(machine).readings, 100, range(20))
    np.testing.assert_array_equal(machine.anomalous[drawn.clips], drawn.truth == 1.0)
    assert not machine.held_out[drawn.clips].any()


def test_random_choice_reads_low_exactly_as_often_and_anywhere():
    lows = np.array([0, 3, 100, 50])
    choice = random_choices(np.repeat(lows, 500), ticks=100, seed=1)
    np.testing.assert_array_equal((choice == 0).sum(axis=0), np.repeat(lows, 500))
    at_each_tick = (choice[:, 1500:] == 0).mean(axis=1)
    assert abs(at_each_tick - 0.5).max() < 5 * 0.5 / np.sqrt(500)


@pytest.fixture(scope="module")
def machine_one():
    """The family of machine 1, and four streams of it."""
    machine = toycar(1, 4, share=0.42)
    family = family_of(machine, fidelities(machine), 60)
    assert [f.cost for f in family.fidelities] == list(machine.flops)
    drawn = family.streams(4, first=1)
    together = streams(machine, fidelities(machine).readings, 60, range(1, 5)).tables
    np.testing.assert_array_equal(np.stack([s.table for s in drawn], axis=1), together)
    return family, drawn


def test_errors_are_those_of_one_detector_at_a_time(machine_one):
    family, drawn = machine_one
    pair = family.fidelities
    choice = informed(40.0, family, drawn, False)
    assert 0 < (choice == 0).sum() < choice.size
    mse, l1 = errors(choice, family, drawn, False)
    for i, stream in enumerate(drawn):
        posteriors, means = [], []
        for picked in (choice[:, i], np.ones(60, dtype=int)):
            detector = mf.Detector(mf.Bernoulli(1, 1), pair, HAZARD, policy=mf.Always(), prune=None)
            shifted = np.zeros((60, 61))
            mean = []
            for t, j in enumerate(picked):
                mean.append(detector.update(stream.table[t, j], pair[j].name).mean)
                shifted[t, 0] = HAZARD
                for length, weight in zip(detector.run_length.length, detector.run_length.weight, strict=True):
                    shifted[t, length + 1] = (1 - HAZARD) * weight
            posteriors.append(shifted)
            means.append(mean)
        assert l1[i] == pytest.approx(np.abs(posteriors[0] - posteriors[1]).sum(), rel=1e-9)
        assert mse[i] == pytest.approx(np.mean(np.subtract(*means) ** 2), rel=1e-9)


def test_the_rule_and_the_budget_choose_as_one_detector_does(machine_one):
    family, drawn = machine_one
    pair = family.fidelities
    chosen = informed(40.0, family, drawn, False)
    budgets = np.array([0.3, 0.5, 0.7, 0.9]) * pair[1].cost_of()
    within = within_budgets(budgets, family, drawn)
    assert 0 < (within == 0).sum() < within.size
    for i, stream in enumerate(drawn):
        for policy, theirs in ((mf.InformationRate({"high": 40.0}), chosen), (mf.Budget(budgets[i]), within)):
            detector = mf.Detector(mf.Bernoulli(1, 1), pair, HAZARD, policy=policy, prune=None)
            np.testing.assert_array_equal(mf.run(detector, stream.table).choice, theirs[:, i])


def test_the_published_engine_is_followed_stream_by_stream(machine_one):
    family, drawn = machine_one
    low, high = family.fidelities
    choice = informed(40.0, family, drawn, True)
    rate = (1 / low.cost_of(), 40.0 / high.cost_of())
    zeta = [low.zeta, high.zeta]
    mse, l1 = errors(choice, family, drawn, True)
    table, zeros = drawn[2].table, np.zeros(60, dtype=np.int64)
    mine = published.run(mf.Bernoulli(1, 1), zeta, HAZARD, table, rates=rate)
    weak = published.run(mf.Bernoulli(1, 1), zeta, HAZARD, table[:, 1:], choice=zeros)
    np.testing.assert_array_equal(choice[:, 2], mine.choice)
    plain = published.run(mf.Bernoulli(1, 1), [1.0], HAZARD, table[:, 1:], choice=zeros)
    assert l1[2] == pytest.approx(np.abs(mine.posterior - plain.posterior).sum())
    assert mse[2] == pytest.approx(((mine.mean - plain.mean) ** 2).mean())
    assert not np.allclose(weak.posterior, plain.posterior)  # only zeta differs


def test_play_tunes_to_the_share_and_gives_random_choice_the_same_spend():
    result = play(toycar(4, 4, share=0.46), 40, 16, 200, 1, False)
    assert np.mean(result["IG"]["low"]) == pytest.approx(0.46, abs=0.05)
    assert result["RN"]["low"] == result["IG"]["low"]
    assert result["RN for Budget"]["low"] == result["Budget"]["low"]
    assert np.mean(result["Budget"]["low"]) == pytest.approx(np.mean(result["IG"]["low"]), abs=0.05)
    assert set(result["LF"]["low"]) == {1.0}
    assert np.mean(result["RN"]["MSE"]) < np.mean(result["LF"]["MSE"])


def test_low_fidelity_alone_is_plain_detection_in_both_engines():
    by_engine = [play(toycar(2, 4, share=0.36), 5, 2, 80, 3, engine)["LF"]["L1"] for engine in (False, True)]
    np.testing.assert_allclose(*by_engine, rtol=1e-6)


def test_fidelities_refuse_a_low_fidelity_that_never_agrees():
    anomalous = np.array([False, True] * 8)
    high = np.where(anomalous, 2.0, 1.0)[:, None]
    held_out = np.arange(16) < 8
    machine = Machine("odd", (-high, high), anomalous, held_out, ~held_out, (1.0, 2.0), 0.5)
    with pytest.raises(ValueError, match="machine odd: zeta is 0"):
        fidelities(machine)


# --- the page ------------------------------------------------------------------------------------------------


def made_up(shift, trials=50, published=0):
    """A machine on which the information rule errs by `shift` more than random choice."""
    rng = np.random.default_rng(1)
    base = 1.0 + 0.1 * rng.random(trials)
    noise = 0.01 * rng.standard_normal(trials)
    low = np.full(trials, 0.5)

    def of(values):
        return {"MSE": values, "L1": 100 * values, "low": low}

    result = {
        "LF": of(base + 1),
        "RN": of(base),
        "IG": of(base + shift + noise),
        "Budget": of(base - 0.5 + noise),
        "RN for Budget": of(base),
    }
    empty = np.zeros((0, 1))
    none = np.zeros(0, dtype=bool)
    return Played(Machine(str(published + 1), (empty, empty), none, none, none, (1e6, 3e6), 0.5, published), result)


@pytest.mark.parametrize(
    ("shifts", "begins"),
    [
        ((0.2, 0.2), "does not beat {} in MSE and L1 on any of the 2 machines, and is worse in MSE"),
        ((-0.2, -0.2), "beats {} in MSE and L1 on all 2 machines."),
        ((-0.2, 0.0), "does not beat {} in MSE and L1 on machine 2; it beats it in MSE and L1 on"),
        ((0.2, -0.2), "does not beat {} in MSE and L1 on machine 1, and is worse in MSE and L1 on"),
    ],
)
def test_the_headline_begins_with_where_information_does_not_win(shifts, begins):
    played = [made_up(shift, published=i) for i, shift in enumerate(shifts)]
    text = headline(played, False, True)
    baseline = "the random baseline at equal spend"
    assert text.startswith(f"Information-based switching {begins.format(baseline)}")
    assert text.endswith(f"The library's default beats {baseline} in MSE and L1 on all 2 machines.")


def test_the_comparison_with_the_paper_counts_the_orders():
    played = [made_up(-0.2), made_up(0.2, published=1)]
    text = carries_over(played)
    assert "IG < RN < LF in MSE on 1 of 2 machines (published means: 2 of 2) and in L1 on 1 of 2" in text
    assert "(published means: 1 of 2)." in text  # machine 1: in the paper random choice has the lower L1
    assert "| 1 | L1 | RN < IG < LF | IG < RN < LF |" in text
    assert text.count("worse than random") == 2


def test_deciding_costs_what_the_paper_counts():
    assert deciding() == sum(32 * t + 1 for t in range(200)) / 1e6
    for machine in range(4):
        assert float(PRINTED["Ops", "IG"][machine]) - float(PRINTED["Ops", "RN"][machine]) == pytest.approx(
            deciding(), abs=0.01
        )


def test_operations_give_the_papers_from_the_papers_costs():
    none = np.zeros(0, dtype=bool)
    machine = Machine("1", (np.zeros((0, 1)),) * 2, none, none, none, (0.5e6, 124.7e6), 0.42)
    assert operations(machine, 1.0) == 100.0
    assert operations(machine, 0.0) == pytest.approx(24940.0)
    assert operations(machine, 0.42242) == pytest.approx(14447.58, abs=1.0)


def test_rows_hold_every_number_of_the_table():
    rows = table_rows([made_up(-0.2), made_up(0.2, published=1)], "library")
    known = {(r.keys["machine"], r.keys["rule"], r.what): r for r in rows}
    assert len(known) == len(rows) == 2 * (4 + 4 + 5 + 2) + 1
    row = known["2", "RN", "L1"]
    assert (row.published.value, row.published.two_se) == (97.79, 3.66)
    assert row.ours == Number.mean_of(made_up(0.2, published=1).result["RN"]["L1"])
    assert known["1", "IG", "Ops (million)"].ours.value == pytest.approx(200 * 2 + 0.637)
    assert known["1", "RN", "Ops (million)"].ours.value == pytest.approx(200 * 2)
    assert known["any", "IG", "deciding (million)"].verdict == "agrees to the digits printed"
    assert known["1", "Budget", "MSE"].published is None


def test_rates_of_a_threshold():
    score = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    fpr, fnr = rates(score, np.array([False, False, True, False, True]), np.array([0.0, 3.0, 9.0]))
    np.testing.assert_allclose(fpr, [1, 1 / 3, 0])
    np.testing.assert_allclose(fnr, [0, 0.5, 1])


def test_the_target_writes_the_same_table_again_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("paper.targets.mimii.TICKS", 60)  # exact filters: the time grows with the square
    made = []
    for name in ("a", "b"):
        mine = options(tmp_path / name)
        result = mimii.run(mine)
        write(mimii, result, mine)
        made.append([(tmp_path / name / f).read_bytes() for f in ("mimii.csv", "mimii-scatter.png")])
        for picture in result.figures:
            assert (mine.out / f"{picture.stem}.png").exists()
            assert (mine.out / f"{picture.stem}.pdf").exists()
    assert made[0] == made[1]
    assert len(result.figures) == 4
    assert missing(mimii, result) == []
    assert b"1 window" in made[0][0]
    assert b"as published" in made[0][0]
    part = tmp_path / "a" / ".parts" / "main-1.json"
    kept = part.stat().st_mtime_ns
    (tmp_path / "a" / ".parts" / "main-2.json").unlink()  # as if interrupted
    again = mimii.run(options(tmp_path / "a"))
    assert part.stat().st_mtime_ns == kept
    assert [r.ours for r in again.rows] == [r.ours for r in result.rows]


def test_networks_need_clips_and_each_other(tmp_path):
    with pytest.raises(ValueError, match="low-model needs clips"):
        mimii.run(options(tmp_path, given={"low-model": tmp_path}))
    with pytest.raises(ValueError, match="go together"):
        mimii.run(options(tmp_path, given={"clips": tmp_path, "low-model": tmp_path}))
