"""`mfbocd_save` and `mfbocd_load`: a stream moves between device and server."""

from __future__ import annotations

import ctypes
import zlib
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd._kernels.robust_trend import LINE, SLOPED

from .build import Firmware, run_python
from .configurations import FAMILIES, POLICIES, TOLERANCE, make_detector, make_table
from .test_same_answers import assert_same

DAMAGED, OTHER, IMPOSSIBLE = -1, -2, -3


def sealed(data: bytes) -> bytes:
    return data + zlib.crc32(data).to_bytes(4, "little")


@pytest.mark.parametrize("family", FAMILIES)
def test_there_and_back(family: str, tmp_path: Path) -> None:
    """Python, C, Python, C: the same as without moving; also within the first ticks of a cap's window."""
    rng = np.random.default_rng(FAMILIES.index(family))
    detector = make_detector(rng, family, POLICIES[FAMILIES.index(family) % 4])
    firmware = Firmware(detector, tmp_path)
    assert mf.Detector.from_bytes(firmware.save()).choose() == detector.choose()  # before the first tick
    table, near = make_table(rng, detector, 260), TOLERANCE[family]
    for low, high in ((0, 7), (7, 60), (60, 260)):
        assert firmware.load(detector.to_bytes()) == 0
        c = firmware.run(table[low:high])
        restored = mf.Detector.from_bytes(firmware.save())
        assert_same(c, run_python(detector, table[low:high]), near)
        assert restored.ticks == detector.ticks
        assert restored.spent == pytest.approx(detector.spent, rel=1e-12)
        np.testing.assert_allclose(restored._filter.stats, detector._filter.stats, rtol=10 * near, atol=near)
        again = mf.Detector.from_bytes(detector.to_bytes())
        assert_same(run_python(restored, table[:20]), run_python(again, table[:20]), near)


@pytest.mark.parametrize("family", FAMILIES)
def test_in_float(family: str, tmp_path: Path) -> None:
    """Python accepts what a float build saves, also statistics at the prior, and weights that no float can hold."""
    rng = np.random.default_rng(7)
    detector = make_detector(rng, family, "budget", "variance")
    firmware = Firmware(detector, tmp_path, real="float")
    table = make_table(rng, detector, 150)
    for low, high in ((0, 1), (1, 50), (50, 150)):
        firmware.run(table[low:high])
        run_python(detector, table[low:high])
        restored = mf.Detector.from_bytes(firmware.save())
        np.testing.assert_allclose(restored._filter.stats, detector._filter.stats, rtol=1e-4, atol=1e-4)
        assert firmware.load(detector.to_bytes()) == 0
    state = detector._filter.state
    count, cap = int(state[layout.COUNT]), int(state[layout.CAP])
    expected = [firmware.c.p_of_row(i) for i in range(count)]
    state[layout.TOTAL] *= 1e-180
    state[layout.HEAD : layout.HEAD + cap] *= 1e-180
    assert firmware.load(detector.to_bytes()) == 0
    assert [firmware.c.p_of_row(i) for i in range(count)] == pytest.approx(expected, abs=1e-6)


def test_other_bytes_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    detector = make_detector(rng, "gaussian", "cap", "variance")
    firmware = Firmware(detector, tmp_path)
    run_python(detector, make_table(rng, detector, 50))
    data = detector.to_bytes()
    assert firmware.load(data) == 0
    assert firmware.load(data[:-1]) == DAMAGED
    assert firmware.load(b"") == DAMAGED
    assert firmware.load(data[:40] + b"?" + data[41:]) == DAMAGED
    other = mf.Detector(mf.Gaussian(0, 9, 1), prune=mf.TopK(32)).to_bytes()
    assert firmware.load(other) == OTHER
    assert firmware.c.spent() == 0.0  # starts from the beginning
    body = data[:-4]
    assert firmware.load(sealed(body[:-8])) == IMPOSSIBLE
    assert firmware.load(sealed(body + bytes(8))) == IMPOSSIBLE
    columns = 8 * int(detector._filter.state[layout.COUNT]) * 4
    head = len(body) - columns - 8 * layout.HEAD
    for field, value in [
        (layout.COUNT, 1e9),
        (layout.COUNT, 1.5),
        (layout.COUNT, -1.0),
        (layout.TICK, 2.0),
        (layout.TOTAL, 0.0),
        (layout.TOTAL, np.nan),
        (layout.LIMIT, 1000.0),
        (layout.MAP_INDEX, 400.0),
        (layout.FIRED, 1e6),
        (layout.P_CHANGE, 1.5),
        (layout.ALARM, 2.0),
        (layout.COLUMNS, 3.0),
        (layout.SEED, -1.0),
        (layout.EVIDENCE, np.inf),
    ]:
        at = head + 8 * field
        changed = body[:at] + np.float64(value).tobytes() + body[at + 8 :]
        assert firmware.load(sealed(changed)) == IMPOSSIBLE, field


def test_more_hypotheses_than_fit(tmp_path: Path) -> None:
    """The number of hypotheses is checked also where the length of the bytes matches it."""
    detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01, prune=mf.TopK(4), missing="skip")
    firmware = Firmware(detector, tmp_path)
    run_python(detector, np.zeros((50, 1)))
    count = int(detector._filter.state[layout.COUNT])
    body = detector.to_bytes()[:-4]
    start = len(body) - 8 * (layout.HEAD + 4 * count)
    head = np.frombuffer(body[start : start + 8 * layout.HEAD]).copy()
    for many, status in ((4, 0), (5, IMPOSSIBLE), (400, IMPOSSIBLE)):
        head[layout.COUNT], head[layout.TOTAL], head[layout.TICK] = many, many, 1000.0
        head[layout.MAP_INDEX] = many - 1.0
        live = np.array([np.ones(many), np.arange(many), np.full(many, 5.0), np.zeros(many)])
        assert firmware.load(sealed(body[:start] + head.tobytes() + live.tobytes())) == status


def test_little_room(tmp_path: Path) -> None:
    detector = make_detector(np.random.default_rng(1), "bernoulli", "net")
    firmware = Firmware(detector, tmp_path)
    data = firmware.save()
    buffer = ctypes.create_string_buffer(len(data))
    assert firmware.c.save(buffer, len(data) - 1) == 0
    assert firmware.c.save(buffer, len(data)) == len(data)


def test_nearly_certain_lines_in_float(tmp_path: Path) -> None:
    """P(line) may be closer to 1 than any float, and a scale that was forgotten below every float."""
    detector = mf.Detector(mf.RobustTrend(forget=0.9), hazard=0.01, prune=mf.TopK(4), missing="skip")
    run_python(detector, np.arange(60.0)[:, None] ** 1.5)
    state = detector._filter.state
    cap, count = int(state[layout.CAP]), int(state[layout.COUNT])
    start = layout.HEAD + cap * (layout.STATS + SLOPED)
    state[start : start + count] = [1.0 - 1e-12, 1e-12, 0.5, 0.75][:count]
    state[layout.HEAD + cap * (layout.STATS + LINE)] = 1e-60
    firmware = Firmware(detector, tmp_path, real="float")
    assert firmware.load(detector.to_bytes()) == 0
    saved = mf.Detector.from_bytes(firmware.save())._filter.stats[SLOPED]
    p = detector._filter.stats[SLOPED]
    np.testing.assert_allclose(np.minimum(saved, 1.0 - saved), np.minimum(p, 1.0 - p), rtol=1e-3)
    np.testing.assert_allclose(saved, p, rtol=1e-6)
    assert np.isfinite(firmware.run(np.full((20, 1), 3.0)).out).all()
