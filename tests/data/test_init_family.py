"""The family that is guessed from readings, with its prior and its reason, and that the guess finds changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import mfbocd as mf
from mfbocd.adapters.series import model_for
from mfbocd.calibrate.auto import AutoDetector
from mfbocd.calibrate.draft import classify_columns, guess_config, guess_family, guess_with_reasons
from mfbocd.calibrate.draft.model import guess_basic_model
from mfbocd.calibrate.draft.scatter import dispersion, exponential_distance, noise_ratio
from mfbocd.cli import main
from mfbocd.io.config import Config
from mfbocd.io.tables import Chunk

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
Rng = np.random.Generator
TICKS = 600


def regimes(rng: Rng, draw: Callable[[], float], ticks: int = TICKS) -> Array:
    """Levels of a stream with none to five changes."""
    starts = np.sort(rng.choice(np.arange(20, ticks - 20), rng.integers(0, 6), replace=False))
    return np.repeat([draw() for _ in range(starts.size + 1)], np.diff([0, *starts, ticks]))


def rates(rng: Rng, scale: float) -> Array:
    return regimes(rng, lambda: scale * float(np.exp(0.8 * rng.normal())))


def levels(rng: Rng) -> Array:
    return regimes(rng, lambda: 7.0 + 4.0 * rng.normal())


def kinds(make: Callable[[Rng], Array], streams: int = 20) -> list[str]:
    return [guess_with_reasons(make(np.random.default_rng(seed))).spec["kind"] for seed in range(streams)]


def reason(x: Array) -> str:
    return guess_with_reasons(x).reasons["kind"]


def detector(x: Array) -> mf.Detector:
    return Config.parse({"model": guess_with_reasons(x).spec}).detector()


# --- which family --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.5, 3.0, 30.0, 1000.0])
def test_counts_are_poisson(scale: float) -> None:
    assert kinds(lambda rng: rng.poisson(rates(rng, scale)).astype(float)).count("poisson") == 20


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_waiting_times_are_exponential(scale: float) -> None:
    assert kinds(lambda rng: rng.exponential(rates(rng, scale))).count("exponential") >= 19
    assert kinds(lambda rng: np.rint(rng.exponential(rates(rng, 50.0)))).count("exponential") >= 18


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_real_numbers_are_gaussian_whatever_their_noise(scale: float) -> None:
    # one constant stream in a hundred is classified as varying
    assert kinds(lambda rng: scale * (levels(rng) + rng.normal(size=TICKS))).count("gaussian") >= 19
    assert kinds(lambda rng: scale * (levels(rng) + rng.standard_t(3, TICKS))).count("gaussian") >= 19


def test_noise_that_grows_is_unknown() -> None:
    def louder(times: float) -> Callable[[Rng], Array]:
        sd = np.repeat([1.0, times, 1.0], TICKS // 3)
        return lambda rng: levels(rng) + sd * rng.normal(size=TICKS)

    assert kinds(louder(4.0)).count("gaussian_unknown") == 20
    assert kinds(louder(1.2)).count("gaussian") >= 19
    x = louder(4.0)(np.random.default_rng(0))
    assert "; their noise is not constant" in reason(x)
    x[50] = 1e9
    assert guess_with_reasons(x).spec["kind"] == "gaussian_unknown"


def test_unit_and_offset_do_not_matter() -> None:
    sd = np.repeat([1.0, 3.0], TICKS // 2)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        for x in (levels(rng) + rng.normal(size=TICKS), levels(rng) + sd * rng.normal(size=TICKS)):
            for scale, shift in ((1000.0, 5.0), (-0.3, 1e3), (1e-6, 0.0)):
                assert guess_with_reasons(scale * x + shift).spec["kind"] == guess_with_reasons(x).spec["kind"]
    rng = np.random.default_rng(0)
    for _ in range(100):  # rounded to 0.1, so that many differences are equal, and only slightly more noise
        celsius = np.round(20.0 + rng.normal(size=120) * np.repeat([0.2, 0.4], 60), 1)
        assert noise_ratio(1.8 * celsius + 32.0) == pytest.approx(noise_ratio(celsius), rel=1e-3)
    x = np.random.default_rng(0).exponential(size=TICKS)
    assert (
        guess_with_reasons(x + 5.0).spec["kind"] == "gaussian"
    )  # a waiting time of at least five is not exponential
    assert guess_with_reasons(-x).spec["kind"] == "gaussian"


def test_integers_that_are_not_counts() -> None:
    assert kinds(lambda rng: np.rint(200.0 + levels(rng) + rng.normal(size=TICKS))).count("gaussian") >= 19
    rng = np.random.default_rng(1)
    assert reason(np.rint(1012 + rng.normal(size=TICKS))) == (
        "whole numbers, but their variance within a level is 0.0011 times their mean (about 1 for counts)"
    )
    bursts = rng.negative_binomial(10, 0.25, TICKS).astype(float)  # variance 4 times the mean
    assert guess_with_reasons(bursts).spec == guess_basic_model(bursts).spec
    assert (
        reason(bursts)
        == "whole numbers, but their variance within a level is 4.1 times their mean (about 1 for counts)"
    )
    for labels in range(3, 12):
        assert guess_with_reasons(rng.integers(0, labels, TICKS)).spec["kind"] == "gaussian", labels
    assert kinds(lambda rng: rng.integers(1, 7, TICKS).astype(float)) == ["gaussian"] * 20
    assert reason(np.resize([0.0, 2.0, 1.0], 60)).startswith(
        "whole numbers, but 33% of them equal the largest, 2: labels"
    )
    assert guess_with_reasons(rng.poisson(3, TICKS) - 1.0).spec["kind"] == "gaussian"
    assert guess_with_reasons(10.0 * rng.poisson(3, TICKS)).spec["kind"] == "gaussian"


def test_positive_numbers_that_are_not_waiting_times() -> None:
    assert "exponential" not in kinds(lambda rng: rng.random(TICKS))
    assert "exponential" not in kinds(lambda rng: rng.gamma(2.0, rates(rng, 1.0)))
    assert "exponential" not in kinds(lambda rng: rng.gamma(0.5, rates(rng, 1.0)))
    assert "exponential" not in kinds(lambda rng: rng.geometric(0.3, TICKS) - 1.0)
    rng = np.random.default_rng(0)
    assert (
        guess_with_reasons(rng.choice([0.1, 1.0], TICKS)).spec["kind"] == "gaussian"
    )  # as variable, with another distribution


def test_one_impossible_reading_excludes_a_family() -> None:
    rng = np.random.default_rng(4)
    for x, odd in ((rng.poisson(3.0, TICKS).astype(float), -1.0), (rng.poisson(3.0, TICKS).astype(float), 2.5)):
        assert guess_with_reasons(x).spec["kind"] == "poisson"
        assert guess_with_reasons(np.insert(x, 300, odd)).spec["kind"] == "gaussian"
    waits = rng.exponential(size=TICKS)
    assert guess_with_reasons(np.insert(waits, 300, 0.0)).spec["kind"] == "exponential"
    assert guess_with_reasons(np.insert(waits, 300, -1e-9)).spec["kind"] == "gaussian"


def test_few_readings_keep_the_default_family() -> None:
    rng = np.random.default_rng(3)
    assert guess_with_reasons(rng.poisson(4, 29)).spec["kind"] == "gaussian"
    assert guess_with_reasons(rng.exponential(size=99)).spec["kind"] == "gaussian"
    assert reason(np.array([3.0, 5.0])) == "some of the 2 readings are neither 0 nor 1"
    gaps = rng.poisson(4, 300).astype(float)
    holes = np.insert(gaps, [0, 100, 300], np.nan)
    assert guess_with_reasons(holes) == guess_with_reasons(gaps)
    for still in (np.full(100, 5.0), np.repeat([3.0, 4.0], 50), np.array([2.0] * 99 + [7.0])):
        assert guess_with_reasons(still).spec["kind"] == "gaussian"


# --- the statistics ------------------------------------------------------------------------------------------------


def test_the_scatter_does_not_depend_on_the_levels() -> None:
    rng = np.random.default_rng(5)
    many = 20.0 * np.exp(rng.normal(size=80)).repeat(250)
    assert dispersion(rng.poisson(many).astype(float)) == pytest.approx(1.0, abs=0.05)
    assert dispersion(rng.negative_binomial(10.0 * many, 1.0 / 3.0).astype(float)) == pytest.approx(3.0, abs=0.15)
    assert exponential_distance(rng.exponential(many)) < 0.02
    # the distribution functions of gammas of shape 2 and 1/2 are (3 v - v^3) / 2 and 2 asin(v) / pi
    assert exponential_distance(rng.gamma(2.0, many)) == pytest.approx(1.0 / np.sqrt(27.0), abs=0.02)
    assert exponential_distance(rng.gamma(0.5, many)) == pytest.approx(0.2105, abs=0.02)
    assert exponential_distance(np.zeros(5)) == exponential_distance(np.ones(5)) == 1.0


def test_constant_noise_is_rarely_classified_as_varying() -> None:
    rng = np.random.default_rng(6)
    for draw in (rng.normal, rng.laplace, rng.standard_cauchy):
        assert sum(noise_ratio(draw(size=300)) > 1.0 for _ in range(400)) <= 12  # 4 are expected
    assert sum(noise_ratio(np.cumsum(rng.normal(size=300))) > 1.0 for _ in range(400)) <= 12
    assert noise_ratio(rng.normal(size=59)) == noise_ratio(np.zeros(200)) == 1.0


def test_large_noise_is_measured() -> None:
    rng = np.random.default_rng(7)
    for times in (3.0, 10.0):
        found = [noise_ratio(rng.normal(size=900) * np.repeat([1.0, times], 450)) for _ in range(20)]
        assert np.mean(found) == pytest.approx(times, rel=0.35)  # the first and last tenths also differ by chance
    still = np.concatenate([np.full(90, 2.0), rng.normal(size=200)])
    assert noise_ratio(still) == np.inf
    assert reason(still).endswith("its standard deviation is 0 at times")


# --- the prior -----------------------------------------------------------------------------------------------------


def test_a_poissons_prior_is_wide() -> None:
    x = np.random.default_rng(8).poisson(50.0, 500).astype(float)
    model = guess_with_reasons(x).spec
    assert model["shape"] / model["rate"] == pytest.approx(x.mean())
    assert model["shape"] / model["rate"] ** 2 == pytest.approx(9.0 * x.mean())  # one regime: others may differ much
    x[250:] = np.random.default_rng(9).poisson(900.0, 250)
    model = guess_with_reasons(x).spec
    assert model["shape"] / model["rate"] ** 2 == pytest.approx(x.var())
    rare = np.random.default_rng(8).poisson(0.3, 500).astype(float)
    guess = guess_with_reasons(rare)
    assert guess.spec == {"kind": "poisson", "shape": 0.5, "rate": 0.5 / rare.mean()}
    assert set(guess.reasons) == {"kind", "shape", "rate"}


def test_an_exponential_prior_tolerates_a_gross_error() -> None:
    x = np.random.default_rng(10).exponential(3.0, 500)
    x[77] = 1e9
    guess = guess_with_reasons(x)
    assert guess.spec["kind"] == "exponential"
    assert detector(x).model.predictive(detector(x).model.prior())[0] == pytest.approx(3.0, rel=0.2)
    assert set(guess.reasons) == {"kind", "shape", "rate"}


def test_an_unknown_noise_has_a_prior_at_the_observed_noise() -> None:
    rng = np.random.default_rng(11)
    x = rng.normal(size=600) * np.repeat([1.0, 5.0], 300)
    plain, guess = guess_basic_model(x).spec, guess_with_reasons(x)
    model = detector(x).model
    assert isinstance(model, mf.GaussianUnknown)
    assert model.scale / (model.shape - 1.0) == pytest.approx(plain["noise_var"])
    assert model.count == pytest.approx(plain["noise_var"] / plain["var"])
    assert model.mean == plain["mean"]
    assert set(guess.reasons) == {"kind", "mean", "count", "shape", "scale"}


# --- detected changes ---------------------------------------------------------------------------------------------


def test_fewer_false_alarms_than_a_gaussian_of_known_noise() -> None:
    rng = np.random.default_rng(12)
    streams = [
        rng.poisson(np.repeat([0.5, 3.0, 12.0], 200)).astype(float),
        rng.exponential(np.repeat([1.0, 8.0, 1.0], 200)),
        rng.normal(size=600) * np.repeat([1.0, 4.0, 1.0], 200),
    ]
    for x in streams:
        short = Config.parse({"model": guess_with_reasons(x).spec, "alarm": {"within": 50}}).detector()
        noticed = [change.tick for change in mf.run(short, x).changes]
        assert [tick // 200 for tick in noticed] == [1, 2]
        assert all(tick % 200 <= 20 for tick in noticed)
        known = Config.parse({"model": guess_basic_model(x).spec}).detector()
        assert len(mf.run(known, x).changes) > 5


def test_a_change_of_a_rate_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(13).poisson(np.repeat([2.0, 12.0], 200))
    Path("calls.csv").write_text("calls\n" + "".join(f"{count}\n" for count in x))
    options = ["--model", "poisson", "--alarms", "--out", "steps.jsonl"]
    done = CliRunner().invoke(main, ["detect", "calls.csv", *options])
    assert done.exit_code == 0, done.output
    assert "  kind = poisson: as specified\n" in done.stderr
    rate = guess_family("poisson", x[:200]).spec["rate"]
    assert f"  rate = {rate:.4g}: number of readings that the prior is worth\n" in done.stderr
    assert "400 ticks, 1 change found:\n  2.0 -> 11.9 at tick 200, > 99.9 % sure, detected at once\n" in done.stderr
    written = CliRunner().invoke(main, ["init", "--from", "calls.csv", "--out", "mf.toml"])
    assert written.stderr == "Wrote mf.toml. Run: mfbocd detect calls.csv -c mf.toml\n"
    again = CliRunner().invoke(main, ["detect", "calls.csv", "-c", "mf.toml"])
    assert again.exit_code == 0
    assert "400 ticks, " in again.stderr


def config_of(x: Any) -> tuple[Config, dict[str, str]]:
    cells = {"x": list(map(repr, np.asarray(x, dtype=float).tolist()))}
    return guess_config(classify_columns([Chunk("line", range(2, len(x) + 2), cells)], ["x"]))


def test_the_config_of_one_column_is_the_chosen_structure() -> None:
    x = 50.0 + 4.0 * np.random.default_rng(14).normal(size=400) + np.repeat([0.0, 40.0], 200)
    detector = AutoDetector()
    changes = detector.run(x).changes
    assert detector.structure is not None
    assert detector.structure.transform == "none"
    config, notes = config_of(x)
    model = dict(config.model)
    assert model.pop("kind") == "robust_trend"
    spec = detector.structure.model().spec()
    assert spec.pop("weighting") == model.pop("weighting") == "precision"  # the default, which has no reason
    assert set(model) == set(spec)
    for name, value in spec.items():
        assert model[name] == pytest.approx(value, rel=1e-3), name
    assert (config.hazard, config.alarm) == (pytest.approx(detector.hazard), detector.alarm)
    assert detector.explain() == notes["model"]
    assert "one change every 500 ticks" in notes["hazard"]
    assert {f"model.{name}" for name in model} <= set(notes)
    found = mf.run(Config.parse(config.to_dict()).detector(), x).changes
    assert [c.changed_at for c in found] == [c.changed_at for c in changes] == [200]


def test_zeros_and_ones_of_one_column_are_a_bernoulli() -> None:
    config, notes = config_of(np.random.default_rng(1).random(300) < 0.3)
    assert (config.model["kind"], config.model["alpha"], config.model["beta"]) == ("bernoulli", 1.0, 1.0)
    assert notes["model.kind"] == "All 300 readings are 0 or 1."
    assert config_of([1.0, 0.0])[0].model["kind"] == "bernoulli"
    assert config_of([1.0, 5.0, np.nan])[0].model["kind"] == "robust_trend"  # too few for a choice


def test_a_season_and_a_transform_are_written_as_tables(tmp_path: Path) -> None:
    """The file repeats the alarms of the automatic detector."""
    t = np.arange(960)
    level = np.where(t < 700, 50.0, 90.0)
    noise = 0.05 * np.random.default_rng(2).normal(size=t.size)
    x = level * np.exp(0.8 * np.sin(2.0 * np.pi * t / 24.0) + noise)
    detector = AutoDetector()
    changes = detector.run(x).changes
    config, notes = config_of(x)
    path = tmp_path / "mf.toml"
    path.write_text(config.to_toml(notes))
    text = path.read_text()
    assert text.count("[model") == 3
    assert "# Ticks per season.\nperiod = 23.99" in text.split("[model.model]")[1]
    assert "# Typical level of 960 readings.\nlevel = " in text.split("[model.model.model]")[1]
    loaded = Config.load(path)
    assert loaded == config
    found = mf.run(loaded.detector(), x).changes
    assert [c[:2] for c in found] == [c[:2] for c in changes] == [(701, 700)]


def test_several_columns_are_gaussian_and_a_note_says_so() -> None:
    rng = np.random.default_rng(15)
    good = rng.poisson(np.repeat([4.0, 9.0, 20.0], 200)).astype(float)
    columns = {"rough": good + rng.normal(0.0, 5.0, 600), "good": good}
    cells = {name: list(map(str, values)) for name, values in columns.items()}
    config, notes = guess_config(classify_columns([Chunk("line", range(2, 602), cells)], list(cells)))
    assert config.model["kind"] == "gaussian"
    assert config.model["noise_var"] == pytest.approx(guess_basic_model(good).spec["noise_var"], rel=1e-3)
    assert "CAREFUL: by itself the best column is of kind poisson: counts: whole numbers" in notes["model.kind"]
    assert "Noise variance of the best divided by its own" in notes["fidelity[0].zeta"]
    plain = {name: list(map(str, rng.normal(0.0, sd, 600))) for name, sd in (("a", 2.0), ("b", 1.0))}
    _, notes = guess_config(classify_columns([Chunk("line", range(2, 602), plain)], ["a", "b"]))
    assert "CAREFUL" not in notes["model.kind"]


def test_adapters_do_not_guess_a_family() -> None:
    rng = np.random.default_rng(16)
    for x in (rng.poisson(4, 400), rng.exponential(size=400)):
        assert isinstance(model_for(x), mf.GaussianUnknown)
