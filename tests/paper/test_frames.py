"""The video target from frames, labels and networks in files."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import mfbocd as mf
from paper.__main__ import main
from paper.framework import write
from paper.targets.camvid import camvid
from paper.video import runs
from paper.video.scene import Fractions, binarised, folder_scene
from paper.video.segmentation import fed, given_scene, load, mask, paired, picture

from .helpers import large_file
from .test_camvid import few, ours

pytestmark = pytest.mark.slow


def scores_model(path, height, width):
    """(1, 3, height, width) floats in -1..1 to two scores per pixel: class 1 where red outweighs green."""
    weights = np.array([[0, 0, 0], [1, -1, 0]], dtype=np.float32).reshape(2, 3, 1, 1)
    bias = np.array([0.5, 0.0], dtype=np.float32)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"])
    _save(path, [node], TensorProto.FLOAT, [1, 3, height, width], TensorProto.FLOAT, [1, 2, height, width],
          [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")])  # fmt: skip


def mask_model(path, height, width):
    """(1, height, width, 3) bytes to a class per pixel: 5 where red exceeds green by more than 64, else 0."""
    constants = {
        "red": np.array([[1], [-1], [0]], dtype=np.float32),
        "cut": np.array(64, dtype=np.float32),
        "five": np.array(5, dtype=np.int64),
        "zero": np.array(0, dtype=np.int64),
        "axis": np.array([3], dtype=np.int64),
    }
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "red"], ["d"]),
        helper.make_node("Greater", ["d", "cut"], ["g"]),
        helper.make_node("Where", ["g", "five", "zero"], ["m"]),
        helper.make_node("Squeeze", ["m", "axis"], ["y"]),
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    _save(path, nodes, TensorProto.UINT8, [1, height, width, 3], TensorProto.INT64, [1, height, width], weights)


def _save(path, nodes, kind, shape, out_kind, out_shape, weights):
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_tensor_value_info("y", out_kind, out_shape)
    graph = helper.make_graph(nodes, "test", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


SIZES = [0, 8, 8, 0, 0, 9, 8, 0, 0, 0, 0, 7, 8, 8, 8, 0, 0, 8]
"""Width of the red thing in each of 18 frames, 12 by 16 pixels, of which it fills the upper half."""


@pytest.fixture
def folder(tmp_path):
    """Frames, labels (thing 3, void 11) and two networks that number the thing 1."""
    for name in ("frames", "labels"):
        (tmp_path / name).mkdir()
    rng = np.random.default_rng(1)
    for i, size in enumerate(SIZES):
        image = rng.integers(0, 60, (12, 16, 3)).astype(np.uint8)
        image[:6, :size, 0] = 250
        label = np.zeros((12, 16), dtype=np.uint8)
        label[:6, :size] = 3
        label[11] = 11
        Image.fromarray(image).save(tmp_path / "frames" / f"f{i:02d}.png")
        Image.fromarray(label).save(tmp_path / "labels" / f"f{i:02d}.png")
    scores_model(tmp_path / "low.onnx", 3, 4)
    scores_model(tmp_path / "high.onnx", "h", "w")
    return tmp_path


def given(folder, **more):
    named = {"frames": "frames", "labels": "labels", "low-model": "low.onnx", "high-model": "high.onnx"}
    classes = {"label-class": 3, "model-class": 1}
    return {key: folder / name for key, name in named.items()} | classes | more


def test_frames_labels_and_onnx_networks_become_the_same_table(folder):
    options = few(folder / "out", trials=3, given=given(folder))
    result = camvid.run(options)
    with (options.out / "fractions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["frame", "gt_fraction", "low_fraction", "high_fraction"]
    assert [row["frame"] for row in rows] == [f"f{i:02d}" for i in range(18)]
    label = [6 * size / (12 * 16) for size in SIZES]
    assert [float(row["gt_fraction"]) for row in rows] == pytest.approx(label, abs=1e-6)
    # at full size the network finds every pixel; at 3 by 4 it sees blurred ones
    assert [float(row["high_fraction"]) for row in rows] == pytest.approx(label, abs=1e-6)
    low = [float(row["low_fraction"]) for row in rows]
    assert low != pytest.approx(label, abs=1e-3)
    assert np.corrcoef(low, label)[0, 1] > 0.9
    # multiply-adds: 3 in, 2 out, per pixel
    assert ours(result, "cost, GMAC", runs.HIGH) == pytest.approx(12 * (6 * 12 * 16) / 1e9)
    assert ours(result, "cost, GMAC", runs.LOW) == pytest.approx(12 * (6 * 3 * 4) / 1e9)
    assert not [row for row in result.rows if row.published is not None]
    assert "Top: some frames" in result.figures[0].caption
    assert "first 6 of the 18 frames are for tuning" in " ".join(result.protocol)
    write(camvid, result, options)
    with Image.open(options.out / "camvid.png") as figure:
        assert figure.height > 0.65 * figure.width  # the frames are on top


def test_networks_are_not_run_again_for_other_seeds(folder):
    options = few(folder / "out", trials=3, given=given(folder))
    first = given_scene(options)
    parts = {path: path.stat().st_mtime_ns for path in (folder / "out" / ".parts").glob("*.json")}
    assert len(parts) == 2 + 2  # blocks of 16 frames, once per network
    again = given_scene(replace(options, seed=9, as_published=True, trials=5))
    assert {path: path.stat().st_mtime_ns for path in parts} == parts
    assert np.array_equal(again.table, first.table)
    scores_model(folder / "low.onnx", 6, 8)
    given_scene(options)
    frames = {path: when for path, when in parts.items() if path.name.startswith("frames")}
    assert len(frames) == 2
    assert all(path.stat().st_mtime_ns > when for path, when in frames.items())


def test_a_network_of_bytes_that_answers_a_mask(folder):
    mask_model(folder / "mask.onnx", 12, 16)
    network = load(folder / "mask.onnx")
    image = picture(folder / "frames" / "f05.png")
    assert np.array_equal(fed(network, image), image)
    wanted = np.zeros((12, 16), dtype=int)
    wanted[:6, :9] = 5
    assert np.array_equal(mask(network, image), wanted)


def test_floats_are_fed_in_minus_one_to_one(folder):
    image = np.zeros((3, 4, 3), dtype=np.uint8)
    image[0, 1, 2] = 255
    fed_in = fed(load(folder / "low.onnx"), image)
    assert fed_in.shape == (3, 3, 4)
    assert fed_in.dtype == np.float32
    assert fed_in[2, 0, 1] == 1.0
    assert fed_in[0, 0, 1] == -1.0


def test_the_first_third_tunes_and_is_not_scored(folder):
    scene = given_scene(few(folder / "out", given=given(folder)))
    assert scene.frame == tuple(f"f{i:02d}" for i in range(6, 18))
    assert scene.truth.tolist() == [float(size > 0) for size in SIZES[6:]]
    assert [len(t) for t in scene.tuning] == [6]
    assert scene.hazard == pytest.approx(3 / 5)  # the label switches at 1, 3 and 5
    assert scene.fidelities[1].zeta == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label-class": 4}, "0 of the 6 tuning frames"),
        ({"label-floor": 0.5}, "label floor 0.5"),
        ({"model-class": 0, "label-floor": 0.0, "low-model": "high.onnx"}, "low model: its cost"),
        ({"low-model": "readme.txt"}, "'readme.txt' must end in .tflite or .onnx"),
    ],
)
def test_errors_of_a_folder_are_named(folder, change, message):
    (folder / "readme.txt").write_text("")
    own = given(folder, **{key: folder / v if isinstance(v, str) else v for key, v in change.items()})
    with pytest.raises(ValueError, match=message):
        given_scene(few(folder / "out", given=own))


def test_a_frame_without_a_label_is_named(folder):
    (folder / "labels" / "f03.png").unlink()
    with pytest.raises(ValueError, match=r"no label for 'f03.png' \(1 are missing\)"):
        paired(folder / "frames", folder / "labels")


def test_a_colour_label_is_refused(folder):
    Image.new("RGB", (16, 12)).save(folder / "labels" / "f00.png")
    with pytest.raises(ValueError, match=r"'f00\.png' must have one channel"):
        given_scene(few(folder / "out", given=given(folder)))


def test_frames_without_labels_or_networks_are_refused(folder):
    done = CliRunner().invoke(main, ["camvid", "--out", str(folder / "out"), "--frames", str(folder / "frames")])
    assert done.exit_code == 1
    assert "Error: --labels is missing" in done.output


def test_the_command_takes_the_classes(folder):
    words = ["camvid", "--trials", "2", "--jobs", "1", "--out", str(folder / "out")]
    for key, value in given(folder, **{"label-floor": 0.01}).items():
        words += [f"--{key}", str(value)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    page = (folder / "out" / "camvid" / "camvid.md").read_text()
    assert "class 3 of the labels, class 1 of the networks low.onnx (low) and high.onnx (high)" in page
    assert "--label-floor 0.01" in page


def test_a_low_network_no_better_than_chance_is_refused():
    rng = np.random.default_rng(2)
    seen = np.tile([0.0, 1.0], 15)
    fractions = Fractions(tuple(map(str, range(30))), seen, 1.0 - seen + 0.01 * rng.random(30), seen)
    assert binarised(fractions, np.arange(30) < 10, 0.5)[0][:, 1].tolist() == seen.tolist()
    with pytest.raises(ValueError, match="low model: it agrees with the high model on"):
        folder_scene(fractions, "thing", ("low", "high"), (1.0, 2.0), "ms", 0.5)


def test_the_real_frames_and_the_real_networks(tmp_path):
    """Cars in 12 frames, by two DeepLabs, against the same frames in the shipped table."""
    frames, labels = large_file("camvid", "frames"), large_file("camvid", "labels")
    low, high = (large_file("models", f"deeplabv3_mnv2_{name}pascal_quant.tflite") for name in ("dm05_", ""))
    with (Path(mf.datasets.__file__).parent / "data" / "camvid_fence.csv").open() as file:
        rows = {row["frame"]: row for row in csv.DictReader(file) if row["frame"].startswith("Seq05VD")}
    chosen = list(rows)[5::14][:12]
    for name, source in (("frames", frames), ("labels", labels)):
        (tmp_path / name).mkdir()
        for stem in chosen:
            (tmp_path / name / f"{stem}.png").symlink_to(source / f"{stem}.png")
    own = {"frames": tmp_path / "frames", "labels": tmp_path / "labels", "low-model": low, "high-model": high}
    options = few(tmp_path / "out", trials=3, given=own | {"label-class": 8, "model-class": 7, "label-floor": 0.01})
    result = camvid.run(options)
    with (options.out / "fractions.csv").open() as file:
        measured = list(csv.DictReader(file))
    assert [row["frame"] for row in measured] == chosen
    for mine, theirs, apart in (
        ("gt_fraction", "gt_car", 1e-5),
        ("low_fraction", "deeplab_dm05_car", 0.003),  # resized there by another method
        ("high_fraction", "deeplab_dm10_car", 0.003),
    ):
        wanted = [float(rows[name][theirs]) for name in chosen]
        assert max(wanted) > 0.03
        assert [float(row[mine]) for row in measured] == pytest.approx(wanted, abs=apart)
    assert ours(result, "cost, ms", runs.HIGH) > 0.0
    write(camvid, result, options)
    assert (options.out / "camvid.png").exists()
