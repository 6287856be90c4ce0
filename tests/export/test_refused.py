"""What has no C code is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfbocd as mf

PLAIN: dict[str, Any] = {
    "model": mf.Gaussian(0, 9, 1),
    "fidelities": [mf.Fidelity("low", 0.1, 1), mf.Fidelity("high", 1.0, 10)],
    "policy": mf.Budget(share=0.3, gain="variance"),
    "prune": mf.TopK(32),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": mf.Trend()}, "Trend cannot be exported; models that can: Gaussian, GaussianUnknown, Bernoulli"),
        ({"model": mf.Scaled(mf.Trend())}, "Trend cannot be exported"),
        ({"hazard": mf.Learned()}, "Learned"),
        ({"hazard": [0.1, 0.2]}, "hazard by run length"),
        ({"prune": None}, "without pruning cannot be exported"),
        ({"prune": mf.Threshold()}, "Threshold cannot be exported"),
        ({"prune": mf.TopK(70_000)}, "k = 70000"),
        ({"policy": mf.InformationRate()}, "InformationRate cannot be exported; policies that can: Net, Budget"),
        ({"policy": mf.Net(0.1, gain="run_length")}, "gain 'run_length' of Gaussian"),
        ({"model": mf.Poisson(), "policy": mf.Net(0.1, gain="joint")}, "gain 'joint' of Poisson"),
        ({"model": mf.RobustTrend(), "policy": mf.Net(0.1, gain="joint")}, "gain 'joint' of RobustTrend"),
        ({"fidelities": [mf.Fidelity("f", 1.0, lambda raw: 2.0)], "policy": mf.Always()}, "cost that is a function"),
        ({"policy": mf.Budget(share=0.3, cap=(1e9, 100_000), gain="variance")}, "cap over 100000 ticks"),
        ({"on_error": "fallback"}, "on_error='fallback'"),
        ({"shadow": 100}, "shadow"),
        ({"surprise": True}, "surprise=True"),
        ({"learn": True}, "learn=True"),
        ({"alarm": mf.Alarm(2**32)}, "Alarm.within"),
        ({"alarm": mf.Alarm(direction="up")}, "Alarm.direction, Alarm.before and Alarm.at_least cannot be"),
        ({"policy": mf.Budget(reads=1, gain="variance")}, "Budget.reads cannot be exported"),
        ({"model": mf.Gaussian(0, 1e20, 1)}, "Gaussian.var = 1e\\+20 cannot be exported in single precision"),
        ({"hazard": 1e-20}, "hazard = 1e-20"),
        ({"model": mf.Transformed(mf.Gaussian(0, 9, 1e-20), "log")}, "Gaussian.noise_var = 1e-20 cannot be exported"),
        ({"model": mf.FixedSeason(mf.Gaussian(), 8, [1.0, 1e20], [0, 0])}, r"FixedSeason.cosine\[1\] = 1e\+20"),
        (
            {"model": mf.RobustTrend(count=(1.0, 1e17))},
            r"RobustTrend.count\[1\] = 1e\+17 cannot be exported",
        ),
        ({"model": mf.RobustTrend(line=1 - 1e-9)}, "RobustTrend.line this close to 1"),
        ({"model": mf.RobustTrend(ar=-np.poly([0.8] * 16)[1:])}, "RobustTrend.ar has coefficients too large for"),
        ({"hazard": 1 - 1e-9}, "hazard this close to 1"),
    ],
)
def test_refused_by_name(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        mf.export.c(mf.Detector(**(PLAIN | change)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_many_fidelities_are_refused(tmp_path: Path) -> None:
    many = [mf.Fidelity(f"s{i}", 1.0, 1.0) for i in range(300)]
    with pytest.raises(ValueError, match="300 fidelities"):
        mf.export.c(mf.Detector(mf.Gaussian(), many, prune=mf.TopK(4)), tmp_path / "out")


def test_other_arguments(tmp_path: Path) -> None:
    detector = mf.Detector(**PLAIN)
    with pytest.raises(TypeError, match="only a Detector can be exported, not AutoDetector"):
        mf.export.c(mf.auto(), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="real must be 'float' or 'double', not 'half'"):
        mf.export.c(detector, tmp_path, real="half")  # type: ignore[arg-type]
    wide = mf.Detector(**(PLAIN | {"model": mf.Gaussian(0, 1e20, 1)}))
    assert (mf.export.c(wide, tmp_path, real="double") / "src" / "mfbocd.h").exists()


def test_names_of_fidelities(tmp_path: Path) -> None:
    sensors = [mf.Fidelity(name, 1.0, i + 1.0) for i, name in enumerate(["GPS fix", "gps-fix", "*/ läuft", "光"])]
    detector = mf.Detector(mf.Gaussian(), sensors, policy=mf.Always(), prune=mf.TopK(4))
    text = (mf.export.c(detector, tmp_path) / "src" / "mfbocd_model.h").read_text(encoding="ascii")
    assert "#define MFBOCD_FIDELITY_GPS_FIX 0 /* GPS fix */" in text
    assert "#define MFBOCD_FIDELITY_GPS_FIX_1 1 /* gps-fix */" in text
    assert "#define MFBOCD_FIDELITY_L_UFT 2 /* * / l\\xe4uft */" in text
    assert "#define MFBOCD_FIDELITY_3 3 /* \\u5149 */" in text
