"""The ablations and the policies page on tiny settings: numbers against naive twins, text against numbers."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.trace import metrics
from paper import ablation, published
from paper.ablation import HIGH, LOW, PAPER, Column, Measured, Pair, headline, listed, paired, rows
from paper.framework import Number, Options, write
from paper.published import CORRECTED, LIBRARY, PUBLISHED
from paper.streams.families import FAMILIES
from paper.streams.follow import follow
from paper.streams.tuning import HELD_OUT, reach, share_low
from paper.targets import ablation_bernoulli, ablation_gaussian, policies

from .helpers import missing

pytestmark = pytest.mark.slow

GAUSSIAN_TARGET = ablation_gaussian.ablation_gaussian
BERNOULLI_TARGET = ablation_bernoulli.ablation_bernoulli
POLICIES = policies.policies
PRINTED = ablation_gaussian.SETTING.printed
GAUSSIAN = replace(ablation_gaussian.SETTING, ticks=40, printed=PRINTED[2:4])
BERNOULLI = replace(ablation_bernoulli.SETTING, ticks=40, printed=ablation_bernoulli.SETTING.printed[4:5])


def options(path, **given):
    return Options(path, **{"trials": 4, "seed": 3, "jobs": 1, "progress": False} | given)


def test_reach_finds_the_argument_of_a_share_that_falls():
    assert reach(lambda w: 1 / (1 + w), 0.2) == pytest.approx(4.0, rel=0.02)
    assert reach(lambda w: float(w < 0.7), 0.5) == pytest.approx(0.7, rel=1.0)  # a jump: the closest value seen
    assert reach(lambda w: 1 / (1 + w), 0.01, high=2.0) == pytest.approx(2.0, rel=0.01)  # out of reach


@pytest.mark.parametrize("engine", [LIBRARY, PUBLISHED, CORRECTED])
def test_low_fidelity_only_is_plain_bocd_on_the_low_column(engine):
    found = Measured(**ablation.low_only(GAUSSIAN, engine, trials=2, seed=5))
    assert found.low == [1.0, 1.0]
    for i in range(2):
        table = GAUSSIAN.draw(engine, 5 + i).table
        if engine != LIBRARY:
            zeros = np.zeros(40, dtype=np.int64)
            low, high = (published.run(GAUSSIAN.model, (1.0,), 1 / 50, table[:, [j]], choice=zeros) for j in (0, 1))
            mean, matrix = (low.mean, high.mean), (low.posterior, high.posterior)
            shifted = metrics.l1(*matrix)
        else:
            plain = [
                mf.run(mf.Detector(GAUSSIAN.model, hazard=1 / 50, prune=None), table[:, j], posterior=True)
                for j in (0, 1)
            ]
            mean = tuple(p.mean for p in plain)
            shifted = (1 - 1 / 50) * metrics.l1(plain[0].posterior, plain[1].posterior)
        assert found.mse[i] == pytest.approx(metrics.mse(*mean), rel=1e-9)
        assert found.l1[i] == pytest.approx(shifted, rel=1e-9)


@pytest.mark.parametrize("engine", [LIBRARY, PUBLISHED, CORRECTED])
def test_a_level_is_the_rule_and_random_choice_of_the_same_share_on_the_same_streams(engine):
    part = ablation.at_level(GAUSSIAN, engine, 38, trials=3, tuning=3, seed=5)
    json.dumps(part)  # saved on disk
    mine, random = Measured(**part["information"]), Measured(**part["random"])
    chosen = ablation.random_choices(mine.low, 40, 38, 5)
    for i in range(3):
        table = GAUSSIAN.draw(engine, 5 + i).table
        if engine != LIBRARY:
            rates, correct = (1.0, part["weight"] / 2.0), engine == CORRECTED
            run = published.run(GAUSSIAN.model, (0.5, 1.0), 1 / 50, table, rates=rates, correct=correct)
            high = published.run(GAUSSIAN.model, (1.0,), 1 / 50, table[:, [1]], choice=np.zeros(40, dtype=np.int64))
            forced = published.run(GAUSSIAN.model, (0.5, 1.0), 1 / 50, table, choice=chosen[i], correct=correct)
            pairs = [(run.mean, high.mean), (forced.mean, high.mean)]
            l1 = metrics.l1(run.posterior, high.posterior)
        else:
            fidelities, policy = [LOW, HIGH], mf.InformationRate([1.0, part["weight"]])
            run, high = (
                mf.run(mf.Detector(GAUSSIAN.model, fidelities, 1 / 50, policy=p, prune=None), table, posterior=True)
                for p in (policy, mf.Always("high"))
            )
            detector = mf.Detector(GAUSSIAN.model, fidelities, 1 / 50, policy=mf.Always("high"), prune=None)
            means = [detector.update(x[j], fidelities[j]).mean for x, j in zip(table, chosen[i], strict=True)]
            pairs = [(run.mean, high.mean), (means, high.mean)]
            l1 = (1 - 1 / 50) * metrics.l1(run.posterior, high.posterior)
        assert mine.low[i] == (run.choice == 0).mean()
        assert mine.mse[i] == pytest.approx(metrics.mse(*pairs[0]), rel=1e-9)
        assert random.mse[i] == pytest.approx(metrics.mse(*pairs[1]), rel=1e-9)
        assert random.low[i] == (chosen[i] == 0).mean()
        assert mine.l1[i] == pytest.approx(l1, rel=1e-9)


def test_random_choices_have_each_trials_own_share():
    few, many = ablation.random_choices([0.1, 0.9], 5000, 38, seed=3)
    assert (few == 0).mean() == pytest.approx(0.1, abs=0.02)
    assert (many == 0).mean() == pytest.approx(0.9, abs=0.02)
    again, other = (ablation.random_choices([0.1], 5000, level, seed=3)[0] for level in (38, 53))
    assert (again == few).all()
    assert (other != few).any()


def test_held_out_streams_are_none_of_the_trials():
    trial, held_out = (GAUSSIAN.draw(LIBRARY, s).table for s in (3, HELD_OUT + 3))
    assert not np.allclose(trial, held_out)
    # the library's Gaussian is that of the paper's equations, the published one is not
    assert not np.allclose(trial, GAUSSIAN.draw(PUBLISHED, 3).table)
    assert np.array_equal(BERNOULLI.draw(LIBRARY, 3).table, BERNOULLI.draw(PUBLISHED, 3).table)


def column(engine, better, worse):
    """Two levels: at the first the rule is better than random by `better`, at the second worse by `worse`."""
    noise = np.array([0.01, -0.01, 0.02, -0.02])
    low = [0.4] * 4
    random = Measured(low, (1.0 + noise).tolist(), (100 + noise).tolist())
    one = Measured(low, (1.0 - better + 2 * noise).tolist(), (100 + 2 * noise).tolist())
    two = Measured(low, (1.0 + worse + 2 * noise).tolist(), (100 + 2 * noise).tolist())
    pairs = [Pair(38, 1.3, one, random), Pair(53, 1.2, two, random)]
    return engine, Column(engine, GAUSSIAN, random, pairs)


def test_the_headline_begins_with_where_random_choice_was_not_beaten():
    text = headline([column(LIBRARY, 0.5, 0.4)])
    first = "Information-based switching does not always beat the random baseline at equal spend."
    assert text.startswith(first)
    assert "library: in MSE better at 1 of 2 levels and worse at 1 (53 % low), in L1 better at 0 of 2 levels" in text
    name, lost = column(PUBLISHED, 0.5, -0.4)
    won = replace(lost, pairs=[replace(p, information=p.information._replace(l1=[9.0] * 4)) for p in lost.pairs])
    first = "Information-based switching always beats the random baseline at equal spend."
    assert headline([(name, won)]).startswith(first)


def test_outcomes_and_sections_show_paired_differences():
    _, made = column(LIBRARY, 0.5, 0.4)
    first, second = made.pairs
    assert (first.outcome("mse"), second.outcome("mse"), first.outcome("l1")) == ("better", "worse", "no different")
    noise = np.array([0.01, -0.01, 0.02, -0.02])
    assert first.difference("mse") == Number.mean_of(-0.5 + noise)
    text = paired([(LIBRARY, made)])[1]
    assert text.count("\n| library | ") == 2
    assert "| 40.0 % | 1.300 | -0.500 (0.018) | better |" in text
    assert listed(made).count("\n") == 2 + 4
    found = {(r.keys["LF %"], r.keys["rule"], r.what): r for r in rows([(LIBRARY, made)])}
    assert len(found) == 2 + 8
    assert found["53", "information", "L1"].published == Number.printed("173.01 (10.46)")
    assert found["53", "random", "L1"].published == Number.printed("183.40 (11.36)")
    assert found["38", "information", "MSE"].published == Number.printed("0.494 (0.059)")
    assert found["all", "LF only", "L1"].published == Number.printed("270.87 (8.35)")
    assert found["53", "information", "MSE"].ours.value == pytest.approx(1.4)


def test_a_target_writes_page_figures_and_the_same_bytes_again(tmp_path, monkeypatch):
    monkeypatch.setattr(ablation_gaussian, "SETTING", GAUSSIAN)
    texts = []
    for k in range(2):
        asked = options(tmp_path / str(k))
        result = GAUSSIAN_TARGET.run(asked)
        page = write(GAUSSIAN_TARGET, result, asked)
        assert page.read_text().splitlines()[2] == f"**{result.headline}**"
        assert {p.suffix for p in asked.out.glob("ablation-gaussian.*")} == {".md", ".csv", ".png", ".pdf"}
        texts.append((asked.out / "ablation-gaussian.csv").read_bytes())
    assert texts[0] == texts[1]
    table = list(csv.DictReader(texts[0].decode().splitlines()))
    assert {row["engine"] for row in table} == {LIBRARY, PUBLISHED, CORRECTED}
    assert len(table) == 3 * (2 + 2 * 2 * 2)
    assert result.sections[0][0] == "The mistake in the published update"
    assert missing(GAUSSIAN_TARGET, result) == []
    other = GAUSSIAN_TARGET.run(options(tmp_path / "other", seed=4, as_published=True))
    assert {row.engine for row in other.rows} == {"as published"}
    assert len(other.sections) == 2  # no engine to compare the mistake with
    mine = {row["ours"] for row in table}
    assert not mine & {f"{row.ours.value:.8g}" for row in other.rows}


def test_one_share_is_the_rules_average_on_every_stream(tmp_path):
    asked = options(tmp_path)
    setting = replace(GAUSSIAN, engines=(PUBLISHED,))
    (column,) = ablation.compare(setting, asked)
    (found,) = ablation_gaussian.one_share([column], asked)
    for pair, plain in zip(found.pairs, column.pairs, strict=True):
        assert (pair.information, pair.weight) == (plain.information, plain.weight)
        choices = ablation.random_choices([plain.low] * 4, 40, pair.level, 3)
        for i, choice in enumerate(choices):
            table = setting.draw(PUBLISHED, 3 + i).table
            run = published.run(setting.model, (0.5, 1.0), 1 / 50, table, choice=choice)
            best = published.run(setting.model, (1.0,), 1 / 50, table[:, [1]], choice=np.zeros(40, dtype=np.int64))
            assert pair.random.mse[i] == pytest.approx(metrics.mse(run.mean, best.mean), rel=1e-9)
            assert pair.random.low[i] == (choice == 0).mean()


def shaped(engine, humped, better):
    """Two levels: the random baseline's MSE falls or rises from one to the next; the rule is better or worse."""
    noise = np.array([0.01, -0.01, 0.02, -0.02])
    pairs = []
    for level, mse in zip((38, 53), (0.8, 0.5) if humped else (0.5, 0.8), strict=True):
        random = Measured([0.4] * 4, (mse + noise).tolist(), (100 + noise).tolist())
        mine = mse + (-0.3 if better else 0.3)
        pairs.append(Pair(level, 1.2, random._replace(mse=(mine - noise).tolist()), random))
    return Column(engine, GAUSSIAN, pairs[0].random, pairs)


@pytest.mark.parametrize(
    ("made", "without", "words"),
    [
        ((True, True), (False, False), "explains the paper's table: "),
        ((True, False), (False, False), "explains the shape of the paper's table but not which rule wins: "),
        ((False, True), (False, False), "explains which rule wins in the paper's table but not the table's shape: "),
        ((True, True), (True, True), "does not explain the paper's table: "),
        ((False, False), (False, False), "does not explain the paper's table: "),
    ],
)
def test_the_verdict_on_the_mistake_follows_the_numbers(made, without, words):
    one = [shaped(PUBLISHED, *made), shaped(CORRECTED, *without)]
    own = [shaped(PUBLISHED, True, True), shaped(CORRECTED, False, False)]
    found = ablation_gaussian.Mistake(*own, *one)
    assert f"mistake in updating its means {words}" in found.verdict
    text = found.section
    assert found.verdict in text
    assert "| 38 | 0.680 (0.118) | 0.800 (0.018) |" in text
    assert "| 53 | 183.40 (11.36) | 100.000 (0.018) |" in text
    assert f"with the mistake at 1 (own share) and {int(made[0])} (one share)" in text
    assert "- L1 at 38 % low: 161.05 (11.08) of information against 162.31 (12.97) of random as printed" in text
    wins = [2 * int(made[1]), 2 * int(not made[1])]
    assert f"with the mistake at 2 and 0 (own share), {wins[0]} and {wins[1]} (one share)" in text


def test_an_interrupted_run_resumes_from_its_parts(tmp_path, monkeypatch):
    asked = options(tmp_path, as_published=True)
    whole = ablation.compare(GAUSSIAN, asked)
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / ".parts").glob("*.json")}
    assert len(kept) == 3
    gone = tmp_path / ".parts" / "published-40-53.json"
    gone.unlink()
    assert ablation.compare(GAUSSIAN, asked) == whole
    assert all(p.stat().st_mtime_ns == at for p, at in kept.items() if p != gone)
    assert gone.exists()


def test_the_bernoulli_page_has_every_engine(tmp_path, monkeypatch):
    monkeypatch.setattr(ablation_bernoulli, "SETTING", BERNOULLI)
    monkeypatch.setattr(ablation_bernoulli, "SHORT", replace(BERNOULLI, ticks=20, engines=(PUBLISHED,)))
    result = BERNOULLI_TARGET.run(options(tmp_path))
    assert list(dict.fromkeys(row.engine for row in result.rows)) == [LIBRARY, PUBLISHED, "as published, T = 200"]
    titles = [title for title, _ in result.sections]
    assert titles[1] == "The paper's predictive in the library"
    assert PAPER in result.sections[0][1]
    assert missing(BERNOULLI_TARGET, result) == []
    only = BERNOULLI_TARGET.run(options(tmp_path / "published", as_published=True))
    assert list(dict.fromkeys(row.engine for row in only.rows)) == [PUBLISHED, "as published, T = 200"]


# --- policies ------------------------------------------------------------------------------------------------


def test_a_ratio_of_means_has_the_error_of_its_delta():
    rng = np.random.default_rng(1)
    random = rng.gamma(4.0, size=(4000, 50))
    mine = 0.6 * random + 0.2 * rng.normal(size=random.shape)
    found = [policies.ratio(a, b) for a, b in zip(mine, random, strict=True)]
    spread = 2.0 * np.std([n.value for n in found])
    assert np.mean([n.value for n in found]) == pytest.approx(0.6, abs=0.002)
    assert np.mean([n.two_se for n in found]) == pytest.approx(spread, rel=0.05)


def test_only_the_gain_differs_in_the_rule_as_published():
    family = FAMILIES["gaussian-half"]()
    drawn = family.streams(2, first=11)
    chosen = []
    choose = policies.rate_as_published(family, 1.2)

    def spy(fleet):
        chosen.append(choose(fleet))
        return chosen[-1]

    scores = follow(family, spy, drawn, seed=1)
    for i, stream in enumerate(drawn):
        detector = mf.Detector(family.model, family.fidelities, family.hazard, policy=mf.Always("high"), prune=None)
        for x, j in zip(stream.table, [c[i] for c in chosen], strict=True):
            gains = published.gains(detector._filter, np.array([0.5, 1.0]))
            assert j == int(gains[1] * 1.2 / 2.0 > gains[0])
            detector.update(x[j], family.fidelities[j])
        assert scores.low[i] == np.mean([c[i] == 0 for c in chosen])
    tables = [s.table for s in drawn]
    assert share_low(family, choose, tables) == pytest.approx(scores.low.mean(), rel=1e-12)


def cell(rule, level, ratio, family="gaussian-half"):
    random = np.linspace(1.0, 2.0, 20)
    wiggle = 0.01 * (-1.0) ** np.arange(20)
    mine = {m: (ratio * random + wiggle).tolist() for m in ("mse", "l1")}
    return policies.Cell(family, level, rule, level, mine, {m: random.tolist() for m in ("mse", "l1")})


def test_the_words_of_the_policies_page_follow_its_numbers():
    cells = [
        cell(rule, level, r)
        for level in (0.65, 0.35)
        for rule, r in zip(policies.RULES, (1.2, 1.0, 0.5), strict=True)
    ]
    text = policies.headline(cells)
    assert text.startswith("The paper's rule does not always beat the random baseline, but our default does.")
    assert "rate, gain as published: in MSE better than random on 0 of 2 and worse on 2" in text
    assert "rate, exact gain: in MSE better than random on 0 of 2 and worse on 0" in text
    text = policies.paragraph(cells)
    assert "our default: MSE 0.50 to 0.50 (median 0.50)" in text
    assert "the paper's rule is better in 4 of 4 comparisons" in text
    assert "paper's rule with an exact gain in 4 of 4, and worse in 0" in text
    turned = [replace(c, mine=cell(c.rule, c.level, 1.5).mine) if c.rule == "default" else c for c in cells]
    assert "and neither does our default" in policies.headline(turned)


def test_the_policies_target_on_two_kinds_of_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(policies, "SYNTHETIC", ("toycar-1",))
    asked = options(tmp_path, quick=True, trials=3)
    result = POLICIES.run(asked)
    assert len(result.rows) == 2 * 3 * 2
    assert {row.keys["rule"] for row in result.rows} == set(policies.RULES.values())
    assert result.headline.startswith("The paper's rule ")
    write(POLICIES, result, asked)
    assert (tmp_path / "policies.pdf").exists()
    assert [line[:11] for line in missing(POLICIES, result)] == ["- Streams. "]  # one kind only
    again = POLICIES.run(options(tmp_path / "again", quick=True, trials=3))
    assert [str(r.ours) for r in again.rows] == [str(r.ours) for r in result.rows]
