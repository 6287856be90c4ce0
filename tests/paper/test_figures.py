"""The targets mf-posterior, mi-illustration, margin and costs: their numbers against naive twins, and their pages."""

from __future__ import annotations

import csv
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from paper import numerical, operations, published
from paper.framework import Options, write
from paper.targets import costs, load, margin, mf_posterior, mi_illustration

from .helpers import missing

pytestmark = pytest.mark.slow


def _options(tmp_path: Path, **more: object) -> Options:
    return Options(tmp_path, jobs=1, progress=False, quick=True, **more)  # type: ignore[arg-type]


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


# --- mf-posterior --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zeta", "share"), [(0.0, 50), (0.5, 25), (0.9, 100), (0.5, 0)])
def test_posteriors_equal_the_integral_of_prior_times_tempered_likelihoods(zeta: float, share: int) -> None:
    x = np.random.default_rng(4).normal(1.0, 1.0, size=20)
    theta = np.linspace(-12.0, 12.0, 200_001)
    logs = -0.5 * theta**2 / 3.0
    for i, value in enumerate(x):
        logs += (zeta if i < 20 * share / 100 else 1.0) * -0.5 * (value - theta) ** 2
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    mean = float(weight @ theta)
    variance = float(weight @ (theta - mean) ** 2)
    for found in (mf_posterior.by_library, mf_posterior.by_equation):
        assert found(x, mf_posterior.fidelities(zeta, share)) == pytest.approx((mean, variance), rel=1e-9)


def test_readings_of_zeta_zero_leave_the_prior_exactly(tmp_path: Path) -> None:
    result = mf_posterior.mf_posterior.run(_options(tmp_path))
    assert len(result.rows) == 2 * 3 * 5
    found = {(r.keys["zeta of low fidelity"], r.keys["low fidelity, %"], r.what): r for r in result.rows}
    assert found[0.0, 100, "mean"].ours.value == 0.0
    assert found[0.0, 100, "variance"].ours.value == 3.0
    assert all(r.verdict == "agrees to the digits printed" for r in result.rows)
    assert result.headline.startswith(
        "At zeta 0 and 100 % low fidelity the posterior is exactly the prior (difference 0)"
    )
    assert "The posterior narrows as" in result.headline


def test_the_posteriors_headline_is_made_from_the_numbers() -> None:
    x = np.ones(20)
    found = {
        (z, p): mf_posterior.by_equation(x, mf_posterior.fidelities(z, p))
        for z in mf_posterior.ZETAS
        for p in mf_posterior.SHARES
    }
    wrong = found | {(0.0, 100): mf_posterior.Posterior(0.0, 3.5), (0.9, 50): mf_posterior.Posterior(1.0, 9.0)}
    headline = mf_posterior.headline(wrong, found)
    assert "differs from the prior by 0.5" in headline
    assert "does not always narrow" in headline
    assert "within 8.9e+00" in headline


# --- the numerical experiment ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["library", numerical.CORRECTED])
def test_scores_are_the_papers(engine: str) -> None:
    """L1 compares whole matrices of the NEXT point's run length; MSE the predicted means."""
    table = numerical.stream(3, numerical.ENGINES[engine], ticks=60).table
    runs = [numerical.follow(table, p, 3, engine) for p in (mf.InformationRate(), mf.Always("high"))]
    h = numerical.HAZARD
    matrices = []
    for run in runs:
        detector = mf.Detector(numerical.MODEL, numerical.FIDELITIES, h, policy=mf.Always(), prune=None)
        matrix = np.zeros((61, 61))
        matrix[0, 0] = 1.0
        for t, j in enumerate(run.choice):
            detector.update(float(table[t, j]), numerical.FIDELITIES[j].name)
            matrix[t + 1, 0] = h
            for length, weight in zip(*detector.run_length, strict=True):
                matrix[t + 1, length + 1] = (1.0 - h) * weight
        matrices.append(matrix)
    scores = numerical.score(*runs)
    assert scores["L1"] == pytest.approx(np.abs(matrices[0] - matrices[1]).sum(), rel=1e-8)
    assert scores["MSE"] == pytest.approx(
        sum((a - b) ** 2 for a, b in zip(runs[0].mean, runs[1].mean, strict=True)) / 60
    )
    lows = [j == 0 for j in runs[0].choice]
    assert scores["low"] == sum(lows) / 60
    assert 0.0 < scores["low"] < 1.0
    assert scores["switching"] == sum(a != b for a, b in pairwise(lows)) / 59


def test_streams_as_published_are_drawn_with_deviations_for_variances() -> None:
    ours, theirs = (numerical.stream(1, how, ticks=4000) for how in (False, True))
    assert (ours.table - ours.theta[:, None]).std(axis=0) == pytest.approx([math.sqrt(2.0), 1.0], rel=0.03)
    assert (theirs.table - theirs.theta[:, None]).std(axis=0) == pytest.approx([2.0, 1.0], rel=0.03)


@pytest.mark.parametrize("engine", list(numerical.ENGINES))
def test_the_margin_rule_reads_low_where_gains_are_close(engine: str) -> None:
    table = numerical.stream(2, numerical.ENGINES[engine], ticks=50).table
    assert not numerical.follow(table, mf.Margin(1e9), 0, engine).choice.any()
    assert numerical.follow(table, mf.Margin(0.0), 0, engine).choice.all()
    assert 0 < numerical.follow(table, mf.Margin(0.01), 0, engine).choice.sum() < 50


def test_as_published_every_rule_runs_on_the_published_means() -> None:
    """The rate rule, the margin rule and given choices all go through the engine with the mistake, or without it."""
    table = numerical.stream(4, True, ticks=150).table  # on this stream the rate rule reads both
    args = (numerical.MODEL, numerical.ZETAS, numerical.HAZARD, table)
    choice = numerical.follow(table, numerical.random(0.5), 4, "library").choice
    rules = (
        (mf.InformationRate(), {"rates": numerical.RATES}),
        (mf.Margin(0.03), {"margin": 0.03}),
        (numerical.random(0.5), {"choice": choice}),
    )
    for policy, given in rules:
        means = []
        for engine, correct in (("as published", False), (numerical.CORRECTED, True)):
            found = numerical.follow(table, policy, 4, engine)
            twin = published.run(*args, correct=correct, **given)  # type: ignore[arg-type]
            assert found.choice.tolist() == twin.choice.tolist()
            assert found.mean.tolist() == twin.mean.tolist()
            assert set(found.choice) == {0, 1}
            means.append(found.mean)
        assert np.abs(means[0] - means[1]).max() > 1e-3  # far beyond rounding


@pytest.mark.parametrize("engine", list(numerical.ENGINES))
def test_random_choice_has_its_share(engine: str) -> None:
    table = numerical.stream(2, numerical.ENGINES[engine], ticks=400).table
    choice = numerical.follow(table, numerical.random(0.3), 5, engine).choice
    assert (choice == 0).mean() == pytest.approx(0.3, abs=0.07)
    other = numerical.follow(table, numerical.random(0.3), 6, engine).choice
    assert (choice != other).any()


def test_a_trial_depends_on_its_seed_alone() -> None:
    together = numerical.trials(1, 3, 80, "library", (0.01, 1.3))
    assert numerical.trials(3, 1, 80, "library", (0.01, 1.3)) == together[2:]
    rules = ("rate", "margin", "default")
    assert list(together[0]) == [name for rule in rules for name in (rule, numerical.random_of(rule))]


def test_the_margin_is_tuned_to_the_rate_rules_share() -> None:
    found = numerical.tune(1, 6, 200, "library")
    assert found["reached"] == pytest.approx(found["wanted"], abs=0.02)
    tables = [numerical.stream(numerical.HELD_OUT + s, False, 200).table for s in range(1, 7)]
    shares = [numerical.follow(t, mf.Margin(found["delta"]), 0, "library").choice == 0 for t in tables]
    assert found["reached"] == pytest.approx(np.mean(shares))


def _scores(mse: list[float], l1: list[float]) -> list[numerical.Scores]:
    """Results of a rule whose random baseline has MSE 1, 1.1, 1, 1.1 and L1 100, 110, 100, 110."""
    random = [1.0, 1.1, 1.0, 1.1]
    return [
        {"rate": {"MSE": m, "L1": n}, "random for rate": {"MSE": c, "L1": 100.0 * c}}
        for m, n, c in zip(mse, l1, random, strict=True)
    ]


@pytest.mark.parametrize(
    ("mse", "l1", "won", "verb", "words"),
    [
        ([0.5, 0.6, 0.5, 0.5], [50, 60, 50, 60], 2, "beats", ("lower", "lower")),
        ([0.5, 0.6, 0.5, 0.5], [90, 120, 90, 120], 1, "beats", ("lower", "no clear difference")),
        ([1.5, 1.6, 1.5, 1.5], [90, 120, 90, 120], 0, "does not beat", ("HIGHER", "no clear difference")),
    ],
)
def test_the_sentence_about_random_choice_is_made_from_paired_differences(
    mse: list[float], l1: list[float], won: int, verb: str, words: tuple[str, str]
) -> None:
    found, sentence = numerical.beside_random(_scores(mse, l1), "rate", "it")
    assert found == won
    assert sentence.startswith(f"it {verb} the random baseline at equal spend")
    assert [part.rpartition(", ")[2].rstrip(").") for part in sentence.split(";")] == list(words)
    assert ("in MSE only" in sentence) == (won == 1)


def test_the_headline_begins_with_where_choosing_does_not_win() -> None:
    winning, losing = _scores([0.5, 0.6, 0.5, 0.5], [50, 60, 50, 60]), _scores([1.5, 1.6, 1.5, 1.5], [150] * 4)
    for found in ({"library": winning, "as published": losing}, {"as published": losing, "library": winning}):
        assert mi_illustration.headline(found).startswith("As published: information-based switching does not beat")
    assert "claim is reversed; random minus information rate is -0.4" in mi_illustration.claim({"library": losing})
    assert mi_illustration.claim({"library": winning}).count("claim holds") == 2


# --- mi-illustration ------------------------------------------------------------------------------------------------


def test_the_illustration_shows_both_engines_and_resumes(tmp_path: Path) -> None:
    options = _options(tmp_path / "a", trials=3)
    result = mi_illustration.mi_illustration.run(options)
    write(load("mi-illustration"), result, options)
    assert missing(load("mi-illustration"), result) == []
    rows = _csv(tmp_path / "a" / "mi-illustration.csv")
    assert {(r["switching"], r["measure"], r["engine"]) for r in rows} >= {
        (s, m, e) for s in ("random", "information rate") for m in ("MSE", "L1") for e in numerical.ENGINES
    }
    found = {(r["switching"], r["measure"], r["engine"]): float(r["ours"]) for r in rows}
    naive = numerical.trials(1, 3, numerical.TICKS, "library")
    assert found["random", "MSE", "library"] == pytest.approx(
        sum(s["random for rate"]["MSE"] for s in naive) / 3, rel=1e-6
    )
    gap = found["random", "L1", "library"] - found["information rate", "L1", "library"]
    assert found["random minus information rate", "L1", "library"] == pytest.approx(gap, rel=1e-5)
    assert found["information rate", "low fidelity, %", "library"] == pytest.approx(
        100 * sum(s["rate"]["low"] for s in naive) / 3, rel=1e-6
    )
    for stem in (picture.stem for picture in result.figures):
        assert (tmp_path / "a" / f"{stem}.png").stat().st_size > 20_000
        assert (tmp_path / "a" / f"{stem}.pdf").stat().st_size > 5_000
    part = tmp_path / "a" / ".parts" / "library-1.json"
    stamp = part.stat().st_mtime_ns
    (tmp_path / "a" / ".parts" / "as-published-1.json").unlink()
    again = mi_illustration.mi_illustration.run(options)
    assert part.stat().st_mtime_ns == stamp  # finished parts are not computed again
    assert again == result


def test_as_published_is_that_engine_alone(tmp_path: Path) -> None:
    result = mi_illustration.mi_illustration.run(_options(tmp_path, trials=2, as_published=True))
    assert {row.engine for row in result.rows} == {"as published"}
    assert [picture.stem for picture in result.figures] == ["mi-illustration-as-published"]
    assert result.headline.startswith("As published: ")


def test_the_band_is_that_of_the_filter() -> None:
    table = numerical.stream(1, False, ticks=40).table
    followed = numerical.follow(table, mf.InformationRate(), 1, "library")
    detector = mf.Detector(
        numerical.MODEL, numerical.FIDELITIES, numerical.HAZARD, policy=mf.InformationRate(), prune=None, seed=1
    )
    mf.run(detector, table)
    assert numerical.deviation(table, followed)[-1] == pytest.approx(math.sqrt(detector.variance), rel=1e-12)


# --- margin ---------------------------------------------------------------------------------------------------------


def test_the_margin_page_shows_which_rule_switches_more(tmp_path: Path) -> None:
    options = _options(tmp_path, trials=2)
    result = margin.margin.run(options)
    write(load("margin"), result, options)
    assert missing(load("margin"), result) == []
    rows = {(r["rule"], r["measure"], r["engine"]): float(r["ours"]) for r in _csv(tmp_path / "margin.csv")}
    for engine in numerical.ENGINES:
        switching = [rows[rule, "ticks that switch, %", engine] for rule in margin.RULES.values()]
        assert all(0.0 <= s <= 100.0 for s in switching)
        gap = rows["margin minus information rate", "ticks that switch, %", engine]
        assert gap == pytest.approx(switching[0] - switching[1], abs=1e-5)
    assert len(rows) == 3 * (6 * 4 + 3)
    assert "the paper's claim that it switches more" in result.headline
    assert (tmp_path / "margin.png").stat().st_size > 20_000
    assert (tmp_path / "margin.pdf").stat().st_size > 5_000
    assert sum(line.startswith("Delta (") for line in result.protocol) == 3


@pytest.mark.parametrize(
    ("often", "word"), [(0.4, "more often than"), (0.01, "less often than"), (0.1, "about as often as")]
)
def test_the_margin_verdict_is_made_from_the_numbers(often: float, word: str) -> None:
    scores = []
    for i in range(6):
        wobble = 0.02 * (-1) ** i
        plain = {"MSE": 1.0, "L1": 1.0, "low": 0.5}
        found = {rule: {**plain, "switching": 0.1 + wobble} for rule in margin.RULES}
        found["margin"]["switching"] = often - wobble
        scores.append(found)
    claim = margin.claim({"library": scores})
    assert f"switches {word} the rate rule" in claim
    verdict = {"more": "holds", "less": "is reversed", "about": "is neither confirmed nor refuted"}
    assert verdict[word.split()[0]] in claim


# --- costs ----------------------------------------------------------------------------------------------------------


def test_the_counted_gain_is_the_gain() -> None:
    rng = np.random.default_rng(1)
    weight, a, b = rng.dirichlet(np.ones(9)), rng.uniform(0.2, 5.0, 9), rng.uniform(0.2, 5.0, 9)
    model = mf.Bernoulli(1, 1, predictive="paper")
    for zeta in (0.3, 1.0):
        found = operations.gain(operations.Tally(), weight.tolist(), a.tolist(), b.tolist(), zeta)
        assert found == pytest.approx(model.run_length_gain(weight, np.stack([a, b, 1 / (a + b)]), zeta), rel=1e-9)


def test_operations_grow_linearly() -> None:
    for t in range(1, 30):
        tally = operations.count(t)
        assert tally.of("predictive") == 32 * t
        assert sum(tally.of(part) for part in operations.PARTS) == sum(tally.count.values()) == 43 * t + 3
    assert costs.growth() == (43.0, 3.0)
    assert costs.growth("predictive") == (32.0, 0.0)


def test_every_operation_is_counted_once() -> None:
    tally = operations.Tally()
    x = tally.number(6.0)
    with tally.part("a"):
        y = (x + 1.0) * (x - x) / x
    with tally.part("b"):
        z = tally.call("exp", y)
    assert (y.value, z.value) == (0.0, 1.0)
    assert tally.count == {("a", k): 1 for k in ("add", "sub", "mul", "div")} | {("b", "exp"): 1}


def test_the_papers_sums() -> None:
    verdicts = {row.what: row.verdict for row in costs.arithmetic_rows()}
    ours = {row.what: row.ours.value for row in costs.arithmetic_rows()}
    assert verdicts["sum of 32 t + 1, t = 0 .. 170, one fidelity"] == "agrees to the digits printed"
    assert ours["smallest MobileNet, 82 million flops, over two gains"] == pytest.approx(82e6 / (2 * 320_001))
    assert verdicts["smallest MobileNet, 82 million flops, over two gains"] == "differs by 0.085 of it"
    assert verdicts["10,000 particles, million flops per gain"] == "agrees to the digits printed"
    assert ours["CamVid, both: 0.00046 + 85 x 19.5 + 86 x 36.7, as written"] == pytest.approx(4813.70046)
    assert verdicts["CamVid, both: with 19.5 and 36.86"] == "agrees to the digits printed"


def test_the_same_seed_gives_the_same_table(tmp_path: Path) -> None:
    pages = []
    for name in ("a", "b"):
        options = _options(tmp_path / name)
        result = costs.costs.run(options)
        pages.append(write(load("costs"), result, options))
        assert "43 t + 3" in result.headline
    for file in ("costs.csv", "costs.png", "costs.pdf"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_times_are_measured_for_every_number_of_hypotheses() -> None:
    timed = operations.times(2, seed=1)
    assert [t.hypotheses for t in timed if t.what == "gain, Bernoulli"] == list(operations.HYPOTHESES)
    assert all(t.ns > 0.0 for t in timed)
    assert timed[-1].what == "autoencoder, 264,192 multiply-adds"
    text = costs.measured_text(timed)
    assert all(f"\n| {k} | " in text for k in operations.HYPOTHESES)


def test_the_timed_gain_uses_the_stated_number_of_hypotheses() -> None:
    for hypotheses in (1, 4, 20):
        for model in (mf.Bernoulli(1, 1), mf.Gaussian(1, 3, 1)):
            call = operations.gain_of(model, hypotheses, seed=1)
            belief = call.__closure__[0].cell_contents._filter  # type: ignore[attr-defined]
            assert belief.predicted()[0].size == hypotheses
            assert call().shape == (1,)


def test_networks_cost_what_their_layers_multiply() -> None:
    known = {n.name: n.flops for n in costs.networks()}
    assert known["autoencoder, one window"] == 2 * operations.multiply_adds() == 2 * 264_192
    assert known["espnetv2-2.0"] == pytest.approx(2.024e9)
    assert [name for name, f in known.items() if f > 1e10] == [
        "MobileNetV3-large (CamVid, high)",
        "MobileNetV3-small (CamVid, low)",
    ]


def test_the_headline_names_the_sums_that_fail() -> None:
    headline = costs.headline(costs.counted_rows(), costs.arithmetic_rows(), costs.networks())
    assert "7 of 10 sums" in headline
    assert "not 0.00046 (0.000465291), 140 (128.125), 3333 (3334.5)" in headline
    made_up = [row for row in costs.arithmetic_rows() if str(row.published) == "140"]
    assert "0 of 1 sums" in costs.headline(costs.counted_rows(), made_up, costs.networks())
