"""WAV clips from the folder to the page of the machine-sound target."""

import numpy as np
import pytest
from scipy.io import wavfile

from paper.sound.autoencoders import given, scores
from paper.sound.clips import (
    FFT,
    HOP,
    INPUTS,
    MELS,
    SHORTEST,
    corners,
    filters,
    folders,
    log_mel,
    read,
    triangles,
    windows,
)
from paper.targets.mimii import mimii

from .helpers import large_file
from .test_mimii import options

pytestmark = pytest.mark.slow

RATE = 16_000


# --- sound -----------------------------------------------------------------------------------------------------


def test_filters_are_triangles_that_share_out_every_frequency():
    c = corners(RATE)
    assert c.size == MELS + 2
    assert (c[0], c[-1]) == (0.0, pytest.approx(RATE / 2))
    assert (np.diff(c) > 0).all()
    at = np.linspace(c[1], c[-2], 5000)
    np.testing.assert_allclose(triangles(RATE, at).sum(axis=0), 1.0)
    np.testing.assert_allclose(triangles(RATE, c[1:-1]), np.eye(MELS), atol=1e-9)
    fine = np.linspace(0, RATE / 2, 40_001)
    area = (triangles(RATE, fine) * (2 / (c[2:] - c[:-2]))[:, None]).sum(axis=1) * (fine[1] - fine[0])
    np.testing.assert_allclose(area, 1.0, rtol=1e-3)
    bins = np.fft.rfftfreq(FFT, 1 / RATE)
    for i in (0, 40, 127):
        inside = (bins > c[i]) & (bins < c[i + 2])
        np.testing.assert_array_equal(filters(RATE)[i] > 0, inside)
        rising = (bins > c[i]) & (bins <= c[i + 1])
        slope = 2 / (c[i + 2] - c[i]) / (c[i + 1] - c[i])
        np.testing.assert_allclose(filters(RATE)[i, rising], slope * (bins[rising] - c[i]), rtol=1e-9)


@pytest.mark.parametrize("frequency", [250.0, 1000.0, 3123.0, 7000.0])
def test_a_pure_tone_lands_in_its_mel_bin_with_its_power(frequency):
    t = np.arange(RATE) / RATE
    quiet, loud = (log_mel(a * np.sin(2 * np.pi * frequency * t), RATE) for a in (0.01, 0.1))
    assert quiet.shape == (1 + (RATE - FFT) // HOP, MELS)
    heard = int(loud.mean(axis=0).argmax())
    assert corners(RATE)[heard] < frequency < corners(RATE)[heard + 2]
    np.testing.assert_allclose((loud - quiet)[:, heard], 20.0, atol=1e-6)


def test_the_spectrogram_is_the_plain_sum_over_a_frame():
    samples = np.random.default_rng(2).standard_normal(FFT + 3 * HOP)
    frame, band = 2, 77
    part = samples[frame * HOP : frame * HOP + FFT] * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT))
    k = np.arange(FFT // 2 + 1)
    waves = np.exp(-2j * np.pi * np.outer(k, np.arange(FFT)) / FFT)
    power = np.abs(waves @ part) ** 2
    assert log_mel(samples, RATE)[frame, band] == pytest.approx(10 * np.log10(filters(RATE)[band] @ power))


def test_a_window_is_five_frames_one_after_the_other():
    spectrogram = np.arange(9 * MELS, dtype=float).reshape(9, MELS)
    made = windows(spectrogram)
    assert made.shape == (5, INPUTS)
    np.testing.assert_array_equal(made[2], np.concatenate(spectrogram[2:7]))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (np.int16, [-32768, 16384], [-1.0, 0.5]),
        (np.uint8, [0, 192], [-1.0, 0.5]),
        (np.float32, [-1.0, 0.5], [-1.0, 0.5]),
    ],
)
def test_samples_are_read_at_full_scale_from_the_first_channel(tmp_path, kind, values, expected):
    mono = np.resize(np.array(values, dtype=kind), SHORTEST)
    wavfile.write(tmp_path / "a.wav", 8000, np.stack([mono, np.zeros_like(mono)], axis=1))
    rate, samples = read(tmp_path / "a.wav")
    assert rate == 8000
    np.testing.assert_allclose(samples, np.resize(expected, SHORTEST))


def synthesise(root, machines=2, clips=16, seconds=1.0, seed=1):
    """Clips of a tone in noise; the damaged machine has another tone."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    for machine in range(machines):
        for kind, second in (("normal", 900.0), ("abnormal", 1300.0)):
            folder = root / "fan" / f"id_0{machine}" / kind
            folder.mkdir(parents=True)
            for i in range(clips):
                sound = 0.05 * rng.standard_normal(t.size)
                for frequency in (400.0 + 100.0 * machine, second):
                    sound += 0.04 * (0.5 + rng.random()) * np.sin(2 * np.pi * (frequency * t + rng.random()))
                wavfile.write(folder / f"{i:08d}.wav", RATE, (sound * 32767).astype(np.int16))
    return root


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "00000003.wav is not a readable WAV file"),
        (b"not a sound at all, only words", "00000003.wav is not a readable WAV file"),
        ("short", f"00000003.wav must contain at least {SHORTEST} samples"),
        ("empty", f"00000003.wav must contain at least {SHORTEST} samples"),
        ("slow", "00000003.wav has 8000 samples per second, the clips before it 16000"),
    ],
)
def test_a_bad_clip_is_named(tmp_path, content, message):
    root = synthesise(tmp_path, machines=1, clips=4)
    bad = root / "fan" / "id_00" / "abnormal" / "00000003.wav"
    if isinstance(content, bytes):
        bad.write_bytes(content)
    else:
        count = {"short": SHORTEST - 1, "empty": 0, "slow": SHORTEST}[content]
        wavfile.write(bad, 8000 if content == "slow" else RATE, np.zeros(count, dtype=np.int16))
    (folder,) = folders(root, (4, 2))
    with pytest.raises(ValueError, match=message):
        scores(folder, None, 100)


def test_a_bad_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="contains no folder MACHINE/ID"):
        folders(tmp_path, (4, 2))
    (tmp_path / "fan" / "id_00" / "normal").mkdir(parents=True)
    with pytest.raises(ValueError, match="normal must contain at least 4 WAV clips, not 0"):
        folders(tmp_path, (4, 2))
    with pytest.raises(ValueError, match="id_00 has no folder 'abnormal'"):
        folders(tmp_path, (0, 2))


# --- from clips to the page ------------------------------------------------------------------------------------


def test_clips_go_through_two_trained_networks_to_the_table(tmp_path):
    root = synthesise(tmp_path / "clips")
    mine = options(tmp_path / "out", given={"clips": root})
    result = mimii.run(mine)
    known = {(r.keys["machine"], r.keys["rule"], r.what): r.ours for r in result.rows}
    for machine in ("fan/id_00", "fan/id_01"):
        cells = next(line for line in dict(result.sections)["The machines"].splitlines() if machine in line).split(
            "|"
        )
        assert min(float(cells[4]), float(cells[5])) > 0.8  # AUC: both networks detect the damage
        # 2 * 640 * 4 and 2 * (640 * 128 + 128 * 128 + 128 * 8) multiply-adds per window, 2 flops each, 200 ticks
        ticks = 200 * 2 * (1 + (RATE - FFT) // HOP - 4) / 1e6
        assert known[machine, "LF", "Ops (million)"].value == pytest.approx(ticks * 5120)
        assert known[machine, "HF", "Ops (million)"].value == pytest.approx(ticks * 198_656)
    assert all(r.published is None for r in result.rows if r.keys["machine"] != "any")
    part = mine.out / ".parts" / "scores-fan-id_00.json"
    kept = part.stat().st_mtime_ns
    assert [r.ours for r in mimii.run(mine).rows] == [r.ours for r in result.rows]
    assert part.stat().st_mtime_ns == kept
    (root / "fan" / "id_00" / "normal" / "00000000.wav").write_bytes(b"changed")
    with pytest.raises(ValueError, match=r"00000000.wav is not a readable WAV"):
        mimii.run(mine)


def test_scores_keep_clips_for_training_tuning_and_streams_apart(tmp_path):
    (folder,) = folders(synthesise(tmp_path, machines=1, clips=8), (4, 2))
    scored = scores(folder, None, 500)
    label, held_out, used = (np.array(x) for x in (folder.anomalous, scored["held_out"], scored["used"]))
    assert not (held_out & used).any()
    training = ~held_out & ~used
    assert (training.sum(), training[label].sum()) == (4, 0)
    assert [held_out[label == kind].sum() for kind in (False, True)] == [2, 4]
    low, high = (np.array(s) for s in scored["scores"])
    assert low.shape == high.shape == (16, 14)
    # a network reconstructs its training clips better than those of the damaged machine
    for score in (low, high):
        assert np.median(score[training]) < np.median(score[label])


def linear(path, rank=4):
    """An ONNX autoencoder that keeps the first `rank` inputs."""
    import onnx
    from onnx import TensorProto, helper

    down = np.zeros((INPUTS, rank), dtype=np.float32)
    down[:rank] = np.eye(rank)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", INPUTS]) for n in ("x", "y")]
    weights = [
        helper.make_tensor("down", TensorProto.FLOAT, down.shape, down.ravel()),
        helper.make_tensor("up", TensorProto.FLOAT, down.T.shape, down.T.ravel()),
    ]
    nodes = [helper.make_node("MatMul", ["x", "down"], ["h"]), helper.make_node("MatMul", ["h", "up"], ["y"])]
    graph = helper.make_graph(nodes, "linear", [ends[0]], [ends[1]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_networks_are_used_as_given(tmp_path):
    high = large_file("models", "ad01_fp32.tflite")
    low = linear(tmp_path / "low.onnx")
    root = synthesise(tmp_path / "clips", machines=1, clips=8)
    result = mimii.run(options(tmp_path / "out", given={"clips": root, "low-model": low, "high-model": high}))
    known = {(r.keys["rule"], r.what): r.ours.value for r in result.rows}
    assert known["HF", "Ops (million)"] / known["LF", "Ops (million)"] == pytest.approx(264_192 / (2 * 4 * INPUTS))
    assert any("low.onnx (low) and ad01_fp32.tflite (high)" in line for line in result.protocol)


def test_a_given_networks_error_is_that_of_its_answer(tmp_path):
    clip = np.random.default_rng(3).standard_normal((6, INPUTS)).astype(np.float32)
    rebuild, count = given(linear(tmp_path / "low.onnx"))
    assert count == 2 * 4 * INPUTS
    expected = clip.copy()
    expected[:, 4:] = 0.0
    np.testing.assert_allclose(rebuild(clip), expected, atol=1e-6)
    rebuild, count = given(large_file("models", "ad01_fp32.tflite"))
    assert count == 264_192
    one_by_one = np.concatenate([rebuild(clip[i : i + 1]) for i in range(6)])
    np.testing.assert_allclose(rebuild(clip), one_by_one, rtol=1e-4, atol=1e-4)


def test_a_file_that_is_not_an_autoencoder_is_named(tmp_path):
    other = tmp_path / "weights.bin"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=r"weights.bin must be a network"):
        given(other)
    with pytest.raises(ValueError, match="cannot be counted"):
        given(large_file("models", "deeplabv3_mnv2_dm05_pascal_quant.tflite"))
