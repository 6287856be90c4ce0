"""Offset and scale of a fidelity: corrected once, with the same bits, whichever way a reading comes in."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.calibrate import alarm_for
from mfbocd.detector.step import checked_raw, reading
from mfbocd.io.config import Config
from mfbocd.io.warm import rehearse

MODEL = mf.Gaussian(0, 9, 1)
WRONG = (mf.Fidelity("imu", 0.2, 1, offset=2.0, scale=1.8), mf.Fidelity("gps", 1, 40))
RIGHT = tuple(replace(f, offset=0.0, scale=1.0) for f in WRONG)


def tables() -> tuple[Any, Any]:
    """Return what the sensors show, and the same corrected."""
    shown = np.random.default_rng(0).normal(size=(80, 2))
    shown[40:] += 5.0
    corrected = shown.copy()
    corrected[:, 0] = (shown[:, 0] - 2.0) / 1.8
    return shown, corrected


def test_a_correction_is_described_and_checked() -> None:
    plain = mf.Fidelity("imu", 0.2, 1)
    assert not plain.has_correction
    assert plain.corrected(3.0) == 3.0
    assert "offset" not in repr(plain)
    imu = WRONG[0]
    assert imu.has_correction
    assert repr(imu) == "Fidelity(name='imu', zeta=0.2, cost=1.0, offset=2.0, scale=1.8)"
    assert imu != RIGHT[0]
    assert math.isnan(imu.corrected(math.nan))
    with pytest.raises(ValueError, match=r"Fidelity\.scale must be positive, not 0"):
        mf.Fidelity("imu", 0.2, 1, scale=0)
    with pytest.raises(ValueError, match=r"Fidelity\.offset must be finite, not inf"):
        mf.Fidelity("imu", 0.2, 1, offset=math.inf)
    with pytest.raises(ValueError, match="x = 1e\\+300 is too large for offset = 0 and scale = 1e-10"):
        mf.Fidelity("imu", 0.2, 1, scale=1e-10).corrected(1e300)
    with pytest.raises(ValueError, match="'imu' need readings of one number, not of the 2"):
        mf.Detector(mf.MultivariateGaussian([0, 0], np.eye(2), np.eye(2)), WRONG)


@pytest.mark.parametrize("policy", [None, mf.Always("imu")], ids=["budget", "always"])
def test_a_detector_corrects_once(policy: Any) -> None:
    shown, corrected = tables()
    one, other = (mf.Detector(MODEL, ways, policy=policy, missing="skip") for ways in (WRONG, RIGHT))
    left, right = mf.run(one, shown), mf.run(other, corrected)
    np.testing.assert_array_equal(left.mean, right.mean)
    np.testing.assert_array_equal(left.x, right.x)
    assert one.update(-1.6, "imu") == other.update((-1.6 - 2.0) / 1.8, "imu")
    assert one.update(-1, "imu") == other.update((-1 - 2.0) / 1.8, "imu")  # not the shortcut of floats
    assert one.update(3.0, "gps").x == 3.0
    assert one.update(None, "imu").x is None


def test_observers_fallbacks_and_shadow_readings_are_corrected() -> None:
    shown = {"imu": lambda raw: 2.0 + 1.8 * raw, "gps": lambda raw: raw}
    ways = [replace(f, observe=shown[f.name]) for f in WRONG]
    assert mf.Detector(MODEL, ways, policy=mf.Always("imu")).step(4.5).x == pytest.approx(4.5)
    fallback = mf.Detector(MODEL, ways[:1], on_error="fallback")
    assert fallback.step(4.5).x == pytest.approx(4.5)
    guarded = mf.Detector(MODEL, ways, shadow=1)
    for raw in np.random.default_rng(1).normal(size=300).tolist():
        step = guarded.step(raw)
        assert step.warning is None  # the pairs differ by nothing once they are corrected
    assert guarded.shadow["imu"].pairs > 50


def test_a_fleet_corrects_each_stream_for_its_fidelity() -> None:
    """Also where streams have their own units: the correction comes first."""
    rng = np.random.default_rng(2)
    options: dict[str, Any] = {"offset": [0.0, 5.0, -3.0], "scale": [1.0, 2.0, 1.0], "missing": "skip"}
    one, other = mf.Fleet(3, MODEL, WRONG, **options), mf.Fleet(3, MODEL, RIGHT, **options)
    for _ in range(30):
        choice = other.choose()
        assert one.choose().tolist() == choice.tolist()
        x = rng.normal(3.0, 2.0, size=3)
        x[rng.random(3) < 0.1] = np.nan
        given = other.update(np.where(choice == 0, (x - 2.0) / 1.8, x), choice)
        found = one.update(x, choice)
        np.testing.assert_array_equal(found.x, given.x)
        np.testing.assert_array_equal(found.mean, given.mean)
    with pytest.raises(ValueError, match="stream 1: x = 1e\\+300 is too large for offset = 0"):
        mf.Fleet(2, MODEL, [mf.Fidelity("imu", 0.2, 1, scale=1e-10)]).update([0.0, 1e300])
    again = mf.Fleet.from_bytes(one.to_bytes())
    assert again.fidelities == WRONG
    assert again.extract(1).to_bytes() == one.to_bytes(1)
    with pytest.raises(ValueError, match="fidelities must equal the fleet's"):
        other.insert(one.extract(0))


def test_a_correction_is_saved_and_its_absence_takes_no_byte() -> None:
    detector = mf.Detector(MODEL, WRONG)
    detector.update(3.0, "imu")
    again = mf.Detector.from_bytes(detector.to_bytes())
    assert again.fidelities == WRONG
    assert again.to_bytes() == detector.to_bytes()
    assert b"corrections" not in mf.Detector(MODEL, RIGHT).to_bytes()


def test_a_number_that_the_model_cannot_have_after_the_correction_is_refused() -> None:
    counter = mf.Fidelity("counter", 1, 1, offset=10.0, scale=2.0)
    detector = mf.Detector(mf.Poisson(1, 1), counter)
    assert detector.update(16).x == 3.0
    with pytest.raises(
        ValueError, match=r"x = 3\.5 is outside .* it was read as 17, before the correction of 'counter'"
    ):
        detector.update(17)
    with pytest.raises(ValueError, match="row 0"):
        mf.run(detector, [17])
    assert reading(detector.model, 16, "skip", counter) == 3.0
    assert checked_raw(detector.model, 16, "skip", counter) == 16.0
    assert checked_raw(detector.model, None, "skip", counter) is None
    with pytest.raises(ValueError, match=r"x = 3\.5"):
        checked_raw(detector.model, 17, "skip", counter)


def test_what_is_simulated_fits_the_correction() -> None:
    """Simulated readings are what the sensor shows; alarms are calibrated in the units of the model."""
    shown = mf.simulate.gaussian(MODEL, WRONG, ticks=50, seed=1).table
    plain = mf.simulate.gaussian(MODEL, RIGHT, ticks=50, seed=1).table
    np.testing.assert_allclose((shown - [2.0, 0.0]) / [1.8, 1.0], plain, rtol=1e-12)
    found, wanted = (
        alarm_for(20, MODEL, 1 / 20, fidelities=ways, policy=mf.Always("imu"), events=5) for ways in (WRONG, RIGHT)
    )
    assert found == wanted


def test_kernels_are_compiled_for_a_count_with_a_correction() -> None:
    given = {"name": "counter", "zeta": 1, "cost": 1, "offset": 0.5, "scale": 3}
    config = Config.parse({"model": {"kind": "poisson"}, "fidelity": [given]})
    assert rehearse(config).step.tick == 2


def test_a_configuration_has_corrections() -> None:
    given = {"model": {"kind": "gaussian"}, "fidelity": [{"name": "imu", "zeta": 0.2, "cost": 1, "offset": 2}]}
    config = Config.parse(given)
    assert config.detector().fidelities[0].offset == 2.0
    assert config.fleet(2).fidelities[0].offset == 2.0
    assert config.to_dict()["fidelity"] == [{"name": "imu", "zeta": 0.2, "cost": 1.0, "offset": 2.0}]
    assert Config.parse(config.to_dict()) == config
    assert config.digest() != Config.parse(given | {"fidelity": [given["fidelity"][0] | {"offset": 3}]}).digest()
    with pytest.raises(ValueError, match=r"fidelity\[0\]\.scale must be positive, not -1"):
        Config.parse(given | {"fidelity": [given["fidelity"][0] | {"scale": -1}]})
