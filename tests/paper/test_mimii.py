"""Machine sounds: the ToyCar protocol against naive twins, and WAV clips from the folder to the page."""

import os
from pathlib import Path

import numpy as np
import pytest

import mfbocd as mf
from paper import published
from paper.framework import Number, Options, write
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
from paper.sound.figures import rates
from paper.sound.machines import HAZARD, Machine, fidelities, streams, toycar
from paper.sound.rules import errors, family_of, informed, play, random_choices, within_budgets
from paper.sound.table import PRINTED, Played, deciding, operations, table_rows
from paper.targets.mimii import carries_over, headline, mimii

pytestmark = pytest.mark.slow

RATE = 16_000


def model_file(name):
    path = Path(__file__).resolve().parents[3] / "shared" / "data" / "models" / name
    if not path.is_file():
        if os.environ.get("CI"):
            pytest.fail(f"{path} is missing: CI must run this test")
        pytest.skip(f"{path} is not here")
    return path


def options(out, **more):
    return Options(out, jobs=1, progress=False, **({"trials": 3, "quick": True} | more))


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
def small():
    """The family of machine 1, and four streams of it."""
    machine = toycar(1, 4, share=0.42)
    family = family_of(machine, fidelities(machine), 60)
    assert [f.cost for f in family.fidelities] == list(machine.flops)
    drawn = family.streams(4, first=1)
    together = streams(machine, fidelities(machine).readings, 60, range(1, 5)).tables
    np.testing.assert_array_equal(np.stack([s.table for s in drawn], axis=1), together)
    return family, drawn


def test_errors_are_those_of_one_detector_at_a_time(small):
    family, drawn = small
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


def test_the_rule_and_the_budget_choose_as_one_detector_does(small):
    family, drawn = small
    pair = family.fidelities
    chosen = informed(40.0, family, drawn, False)
    budgets = np.array([0.3, 0.5, 0.7, 0.9]) * pair[1].cost_of()
    within = within_budgets(budgets, family, drawn)
    assert 0 < (within == 0).sum() < within.size
    for i, stream in enumerate(drawn):
        for policy, theirs in ((mf.InformationRate({"high": 40.0}), chosen), (mf.Budget(budgets[i]), within)):
            detector = mf.Detector(mf.Bernoulli(1, 1), pair, HAZARD, policy=policy, prune=None)
            np.testing.assert_array_equal(mf.run(detector, stream.table).choice, theirs[:, i])


def test_the_published_engine_is_followed_stream_by_stream(small):
    family, drawn = small
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
    """A machine whose information run errs by `shift` more than random choice."""
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
def test_the_headline_says_first_where_information_does_not_win(shifts, begins):
    played = [made_up(shift, published=i) for i, shift in enumerate(shifts)]
    text = headline(played, False, True)
    baseline = "the random baseline at equal spend"
    assert text.startswith(f"Information-based switching {begins.format(baseline)}")
    assert text.endswith(f"The library's default beats {baseline} in MSE and L1 on all 2 machines.")


def test_what_carries_over_counts_the_orders():
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


def test_the_target_writes_the_same_table_again_and_resumes(tmp_path):
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
    from scipy.io import wavfile

    mono = np.resize(np.array(values, dtype=kind), SHORTEST)
    wavfile.write(tmp_path / "a.wav", 8000, np.stack([mono, np.zeros_like(mono)], axis=1))
    rate, samples = read(tmp_path / "a.wav")
    assert rate == 8000
    np.testing.assert_allclose(samples, np.resize(expected, SHORTEST))


def synthesise(root, machines=2, clips=16, seconds=1.0, seed=1):
    """Clips of a tone in noise; the damaged machine has another tone."""
    from scipy.io import wavfile

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
    ("content", "says"),
    [
        (b"", "00000003.wav is not a readable WAV file"),
        (b"not a sound at all, only words", "00000003.wav is not a readable WAV file"),
        ("short", f"00000003.wav must hold at least {SHORTEST} samples"),
        ("empty", f"00000003.wav must hold at least {SHORTEST} samples"),
        ("slow", "00000003.wav has 8000 samples per second, the clips before it 16000"),
    ],
)
def test_a_bad_clip_is_named(tmp_path, content, says):
    from scipy.io import wavfile

    root = synthesise(tmp_path, machines=1, clips=4)
    bad = root / "fan" / "id_00" / "abnormal" / "00000003.wav"
    if isinstance(content, bytes):
        bad.write_bytes(content)
    else:
        count = {"short": SHORTEST - 1, "empty": 0, "slow": SHORTEST}[content]
        wavfile.write(bad, 8000 if content == "slow" else RATE, np.zeros(count, dtype=np.int16))
    (folder,) = folders(root, (4, 2))
    with pytest.raises(ValueError, match=says):
        scores(folder, None, 100)


def test_a_bad_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no folder MACHINE/ID"):
        folders(tmp_path, (4, 2))
    (tmp_path / "fan" / "id_00" / "normal").mkdir(parents=True)
    with pytest.raises(ValueError, match="normal must hold at least 4 WAV clips, not 0"):
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
        # 2 * 640 * 4 and 2 * (640 * 128 + 128 * 128 + 128 * 8) multiply-adds a window, 2 flops each, 200 ticks
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
    high = model_file("ad01_fp32.tflite")
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
    rebuild, count = given(model_file("ad01_fp32.tflite"))
    assert count == 264_192
    one_by_one = np.concatenate([rebuild(clip[i : i + 1]) for i in range(6)])
    np.testing.assert_allclose(rebuild(clip), one_by_one, rtol=1e-4, atol=1e-4)


def test_a_file_that_is_no_autoencoder_is_named(tmp_path):
    other = tmp_path / "weights.bin"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=r"weights.bin must be a network"):
        given(other)
    with pytest.raises(ValueError, match="cannot be counted"):
        given(model_file("deeplabv3_mnv2_dm05_pascal_quant.tflite"))
