"""The real streams: their contents, and that only their readings were used."""

import dataclasses
import sys
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

import mfbocd as mf
from mfbocd import datasets
from mfbocd.datasets import RealStream, camvid_fence, digits, run_log, toycar
from mfbocd.datasets._held_out import equal_error_threshold, relative_zeta
from mfbocd.datasets._labelled import draw

pytestmark = pytest.mark.slow

# the functions hide the modules of the same name, so the modules are imported by name
CAMVID = import_module("mfbocd.datasets._camvid_fence")
TOYCAR = import_module("mfbocd.datasets._toycar")
DIGITS = import_module("mfbocd.datasets._digits")
RUN_LOG = import_module("mfbocd.datasets._run_log")


def streams():
    yield "camvid_fence", camvid_fence
    for machine in (1, 2, 3, 4):
        yield f"toycar-{machine}", lambda machine=machine: toycar(machine, seed=3)
    yield "run_log", run_log
    yield "digits", lambda: digits(seed=3)


@pytest.fixture
def river():
    return import_module("river.drift.datasets")


@pytest.fixture
def sklearn():
    return import_module("sklearn.datasets")


@pytest.fixture(params=streams(), ids=lambda p: p[0])
def stream(request):
    _, make = request.param
    return make()


# every stream


def test_every_stream_can_be_run_without_options(stream):
    cost = [f.cost for f in stream.fidelities]
    assert cost == sorted(cost)
    assert len(set(cost)) == len(cost)
    assert stream.fidelities[-1].zeta == 1.0
    assert all(0.0 < f.zeta < 1.0 for f in stream.fidelities[:-1])
    assert stream.source
    assert stream.note
    for f in stream.fidelities:
        trace = mf.run(
            mf.Detector(stream.model, stream.fidelities, stream.hazard, policy=mf.Always(f.name)), stream.table
        )
        assert np.isfinite(trace.mean).all()
        assert trace.cost.sum() == pytest.approx(f.cost * len(stream.table))


def test_the_most_expensive_reading_is_closer_to_the_truth_than_the_cheapest(stream):
    if isinstance(stream.model, mf.Gaussian):
        assert stream.truth is None  # the true pace is unknown
        return
    error = (stream.table != stream.truth[:, None]).mean(axis=0)
    assert error[-1] < error[0]
    assert error[-1] < 0.4


def test_a_binary_stream_contains_zeros_and_ones(stream):
    if isinstance(stream.model, mf.Bernoulli):
        assert set(np.unique(stream.table)) == {0.0, 1.0}
        assert set(np.unique(stream.truth)) == {0.0, 1.0}


def test_changes_are_where_theta_or_the_label_moves(stream):
    moved = stream.theta if stream.theta is not None else stream.truth
    if moved is not None:
        assert stream.changes.tolist() == [t for t in range(1, len(moved)) if moved[t] != moved[t - 1]]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("table", np.zeros((171, 3)), "must have 4 columns, one per fidelity, not 3"),
        ("truth", np.zeros(170), "truth must have shape"),
        ("theta", np.zeros((171, 1)), "theta must have shape"),
        ("changes", np.array([0, 5]), "changes must lie in 1..170"),
        ("changes", np.array([5, 171]), "changes must lie in 1..170"),
    ],
)
def test_an_inconsistent_stream_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(camvid_fence(), **{field: value})


def test_only_the_five_names_are_public():
    assert sorted(datasets.__all__) == ["RealStream", "camvid_fence", "digits", "run_log", "toycar"]
    assert all(getattr(datasets, name) for name in datasets.__all__)
    assert dataclasses.is_dataclass(RealStream)


# held-out estimators


def brute_threshold(score, positive):
    """Try every midpoint, as the docstring defines it."""
    values = sorted(set(score.tolist()))
    found = []
    for a, b in pairwise(values):
        cut = (a + b) / 2
        fnr = np.mean([s <= cut for s in score[positive]])
        fpr = np.mean([s > cut for s in score[~positive]])
        found.append((round(abs(fnr - fpr), 12), round(fnr + fpr, 12), cut))
    return min(found)[2]


@pytest.mark.parametrize("seed", range(20))
def test_threshold_equals_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    positive = rng.random(31) < 0.4
    score = (rng.normal(size=31) + positive).round(1)  # rounded: ties between scores
    assert equal_error_threshold(score, positive) == pytest.approx(brute_threshold(score, positive))


def test_threshold_needs_both_kinds_and_scores_that_differ():
    with pytest.raises(ValueError, match="both classes"):
        equal_error_threshold(np.arange(3.0), np.ones(3, bool))
    with pytest.raises(ValueError, match="both classes"):
        equal_error_threshold(np.arange(3.0), np.zeros(3, bool))
    with pytest.raises(ValueError, match="differ"):
        equal_error_threshold(np.ones(4), np.array([True, False, True, False]))


@pytest.mark.parametrize("how", ["accuracy", "information", "tpr"])
def test_zeta_is_one_for_the_same_readings_and_zero_at_chance_or_worse(how):
    x = np.array([1, 1, 0, 0], bool)
    assert relative_zeta(x, x, how) == 1.0
    assert relative_zeta(~x, x, how) == 0.0
    assert relative_zeta(np.array([1, 0, 1, 0], bool), x, how) == 0.0  # independent of x


def test_zeta_by_hand():
    high = np.array([1] * 4 + [0] * 6, bool)
    low = np.array([1, 1, 1, 0] + [1] + [0] * 5, bool)
    assert relative_zeta(low, high, "accuracy") == pytest.approx(0.8)
    assert relative_zeta(low, high, "information") == pytest.approx(0.36)
    assert relative_zeta(low, high, "tpr") == pytest.approx(0.75)


def test_zeta_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="'accuracy', 'information', 'tpr', not 'auc'"):
        camvid_fence(zeta="auc")


# drawn streams


def test_drawn_items_have_the_drawn_label_and_every_item_is_reached():
    label = np.array([False, True, False, True, True])
    drawn = draw(label, mf.Bernoulli(1, 1), 0.05, 4000, seed=0)
    assert (label[drawn.item] == (drawn.truth == 1.0)).all()
    count = np.bincount(drawn.item, minlength=5)
    ones = int(drawn.truth.sum())
    expected = np.where(label, ones / 3, (4000 - ones) / 2)
    assert (np.abs(count - expected) < 5 * np.sqrt(expected)).all()


def test_drawn_regimes_follow_the_hazard_and_the_prior():
    drawn = draw(np.array([False, True]), mf.Bernoulli(2, 6), 0.1, 20_000, seed=0)
    assert drawn.changes.size == pytest.approx(2000, abs=5 * np.sqrt(1800))
    theta = drawn.theta[np.r_[0, drawn.changes]]
    assert theta.mean() == pytest.approx(0.25, abs=0.02)
    assert theta.std() == pytest.approx(np.sqrt(2 * 6 / (8 * 8 * 9)), abs=0.01)
    assert drawn.truth.mean() == pytest.approx(drawn.theta.mean(), abs=0.02)


@pytest.mark.parametrize(("hazard", "ticks"), [(0.0, 10), (1.0, 10), (0.1, 0)])
def test_an_impossible_draw_is_refused(hazard, ticks):
    with pytest.raises(ValueError, match=r"hazard must lie|ticks must be"):
        draw(np.array([False, True]), mf.Bernoulli(1, 1), hazard, ticks, seed=0)


# camvid_fence


def test_camvid_counts():
    frames = CAMVID._read()
    assert frames.network.shape == (334, 4)
    assert (frames.stream.sum(), (~frames.stream).sum()) == (171, 163)
    assert (frames.human[~frames.stream] > 0).sum() == 129
    stream = camvid_fence()
    assert stream.table.shape == (171, 4)
    assert stream.truth.sum() == 62
    assert stream.changes.size == 19
    assert [f.name for f in stream.fidelities] == [f"espnetv2-{w}" for w in ("0.5", "1.0", "1.5", "2.0")]
    assert [f.cost for f in stream.fidelities] == [0.224, 0.407, 0.642, 1.012]


def test_camvid_numbers_are_unchanged():
    right = (camvid_fence().table == camvid_fence().truth[:, None]).sum(axis=0)
    assert right.tolist() == [110, 134, 130, 127]
    agree = np.array([121, 119, 125, 163]) / 163
    assert [f.zeta for f in camvid_fence("accuracy").fidelities] == pytest.approx(agree)
    assert [f.zeta for f in camvid_fence("information").fidelities] == pytest.approx((2 * agree - 1) ** 2)


def test_camvid_floor_counts_only_larger_fences():
    assert camvid_fence(floor=0.01).truth.sum() == 42
    assert (camvid_fence(floor=0.01).truth <= camvid_fence().truth).all()


@pytest.mark.parametrize("zeta", ["accuracy", "information", "tpr"])
def test_camvid_learns_nothing_from_the_stream(monkeypatch, zeta):
    frames, before = CAMVID._read(), camvid_fence(zeta)
    # replace one half of the frames at a time: the other half must not change
    rng = np.random.default_rng(0)
    half = np.flatnonzero(frames.stream)[::2]
    human, network = frames.human.copy(), frames.network.copy()
    human[half], network[half] = rng.random(half.size), rng.random((half.size, 4))
    monkeypatch.setattr(CAMVID, "_read", lambda: CAMVID.Frames(frames.stream, human, network))
    after = camvid_fence(zeta)
    assert after.fidelities == before.fidelities
    assert (after.table[1::2] == before.table[1::2]).all()
    assert not (after.table[::2] == before.table[::2]).all()
    assert (after.hazard, repr(after.model)) == (before.hazard, repr(before.model))


def test_camvid_is_tuned_on_the_tuning_frames(monkeypatch):
    frames, before = CAMVID._read(), camvid_fence()
    network = frames.network.copy()
    network[~frames.stream] = np.random.default_rng(0).random(((~frames.stream).sum(), 4))
    monkeypatch.setattr(CAMVID, "_read", lambda: frames._replace(network=network))
    after = camvid_fence()
    assert after.fidelities[:3] != before.fidelities[:3]
    assert (after.table != before.table).any()


def test_camvid_hazard_is_that_of_the_tuning_sequence_at_one_frame_per_second():
    frames = CAMVID._read()
    # rows in file order: 0001TP, then the others
    names = [line.split(",")[0] for line in CAMVID.shipped("camvid_fence.csv").read_text().splitlines()[1:]]
    driven = frames.human[[name.startswith("0001TP_") for name in names]] > 0
    assert driven.size == 62
    assert camvid_fence().hazard == pytest.approx(np.abs(np.diff(driven.astype(int))).sum() / 61, rel=0.05)


# toycar


def test_toycar_counts():
    clips = TOYCAR._read()
    assert clips.score.shape == (821, 196)
    assert np.bincount(clips.machine).tolist() == [0, 82, 62, 62, 615]
    assert clips.anomalous.sum() == 356
    assert len(np.unique(clips.score, axis=0)) == 821  # no clip is in both halves


def test_toycar_costs_are_the_windows_times_the_autoencoder():
    widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
    macs = sum(a * b for a, b in pairwise(widths))
    assert [f.cost for f in toycar(1, seed=0).fidelities] == [macs, 4 * macs, 16 * macs, 196 * macs]


def test_toycar_is_determined_by_its_seed():
    one, same, other = toycar(2, seed=5), toycar(2, seed=5), toycar(2, seed=6)
    assert (one.table == same.table).all()
    assert (one.theta == same.theta).all()
    assert (one.truth != other.truth).any()
    assert one.fidelities == other.fidelities  # held out: no part of the draw


def test_toycar_length_and_hazard_are_as_requested():
    stream = toycar(1, seed=0, ticks=3000, hazard=0.1)
    assert stream.table.shape == (3000, 4)
    assert stream.hazard == 0.1
    assert stream.changes.size == pytest.approx(300, abs=5 * np.sqrt(270))


@pytest.mark.parametrize("machine", [1, 2, 3, 4])
@pytest.mark.parametrize("zeta", ["tpr", "information"])
def test_toycar_learns_nothing_from_the_clips_of_the_stream(monkeypatch, machine, zeta):
    clips, before = TOYCAR._read(), toycar(machine, seed=1, zeta=zeta)
    score = clips.score.copy()
    heard = np.zeros(821, bool)
    for kind in (False, True):
        heard[np.flatnonzero((clips.machine == machine) & (clips.anomalous == kind))[1::2]] = True
    score[heard] = 1e6
    monkeypatch.setattr(TOYCAR, "_read", lambda: clips._replace(score=score))
    after = toycar(machine, seed=1, zeta=zeta)
    assert after.fidelities == before.fidelities
    assert (after.table == 1.0).all()  # so the stream uses those clips only


@pytest.mark.parametrize(
    ("column", "windows"),
    [
        (0, [98]),
        (1, [24, 73, 122, 171]),
        (2, [6, 18, 30, 42, 55, 67, 79, 91, 104, 116, 128, 140, 153, 165, 177, 189]),
    ],
)
def test_toycar_reads_only_the_windows_it_pays_for(monkeypatch, column, windows):
    clips, before = TOYCAR._read(), toycar(4, seed=1)
    score = np.random.default_rng(0).random(clips.score.shape, dtype=np.float32)
    score[:, windows] = clips.score[:, windows]
    monkeypatch.setattr(TOYCAR, "_read", lambda: clips._replace(score=score))
    after = toycar(4, seed=1)
    same = (after.table == before.table).all(axis=0)
    assert same[column]
    assert not same[3]
    score[:, windows] = clips.score[::-1, windows]  # other clips' scores
    assert (toycar(4, seed=1).table[:, column] != before.table[:, column]).any()


def test_toycar_numbers_are_unchanged():
    found = [[round(f.zeta, 3) for f in toycar(m, seed=0).fidelities] for m in (1, 2, 3, 4)]
    assert found == [
        [0.75, 0.85, 0.9, 1.0],
        [0.8, 0.733, 0.933, 1.0],
        [0.6, 0.733, 0.933, 1.0],
        [0.768, 0.826, 0.899, 1.0],
    ]


@pytest.mark.parametrize("machine", [0, 5, "1"])
def test_toycar_has_four_machines(machine):
    with pytest.raises(ValueError, match="machine must be 1, 2, 3 or 4"):
        toycar(machine, seed=0)


# run_log


def test_run_log_equals_rivers_dataset(river):
    source = river.RunLog()
    stream = run_log()
    assert len(stream.table) == source.n_samples == 376
    assert stream.table[:, 1].tolist() == [y["Pace"] for _, y in source]
    assert {k: v.tolist() for k, v in stream.annotations.items()} == source.annotations
    assert len(stream.annotations) == 5
    assert stream.changes.tolist() == [60, 96, 114, 174, 204, 240, 258, 317]
    assert stream.truth is None


def test_run_log_increments_are_the_same_pace_without_its_smoothing(river):
    low, high = run_log().table.T
    assert low[0] == low.max() == 30.0
    # tick 22: 10.20521 m in five seconds, after the six seconds of tick 21
    assert low[22] == pytest.approx(5 / 60 / (10.20521 / 1609.344), rel=1e-4)
    assert low[21] == pytest.approx(6 / 60 / (7.38695 / 1609.344), rel=1e-4)
    edges = [1, *run_log().changes, 376]
    for a, b in pairwise(edges):
        assert low[a:b].mean() == pytest.approx(high[a:b].mean(), rel=0.12)
        assert low[a:b].var() > 3 * high[a:b].var()


def test_run_log_cost_is_the_window_that_matches_the_pace_best(river):
    log = RUN_LOG._read()
    t = np.arange(16, RUN_LOG.WARMUP)
    match = [
        np.corrcoef((log.seconds[t] - log.seconds[t - w]) / (log.distance[t] - log.distance[t - w]), log.pace[t])[
            0, 1
        ]
        for w in range(1, 16)
    ]
    assert [f.cost for f in run_log().fidelities] == [1, 1 + np.argmax(match)]


def test_run_log_learns_nothing_after_the_warm_up(river, monkeypatch):
    log, before = RUN_LOG._read(), run_log()
    pace, distance = log.pace.copy(), log.distance.copy()
    pace[before.warmup :] *= 1.7
    distance[before.warmup :] = distance[before.warmup - 1] + np.cumsum(np.arange(1.0, 1 + 376 - before.warmup))
    monkeypatch.setattr(RUN_LOG, "_read", lambda: log._replace(pace=pace, distance=distance))
    after = run_log()
    assert after.fidelities == before.fidelities
    assert repr(after.model) == repr(before.model)
    assert before.warmup <= before.changes[0]
    pace[10] += 5.0
    assert run_log().fidelities != before.fidelities


def test_run_log_finds_the_annotated_changes(river):
    stream = run_log()
    assert len(stream.changes) == 8
    for f in stream.fidelities:
        trace = mf.run(
            mf.Detector(stream.model, stream.fidelities, stream.hazard, policy=mf.Always(f.name)), stream.table
        )
        alarms = np.flatnonzero(trace.alarm)
        assert all(((alarms >= c) & (alarms <= c + 15)).any() for c in stream.changes), f.name


# digits


def test_digits_costs_are_the_weights(sklearn):
    assert [f.cost for f in digits(seed=0).fidelities] == [64 * 1 + 1, 64 * 128 + 128]


def test_digits_networks_read_parity(sklearn):
    validation, test = DIGITS._trained()
    assert (validation.odd.size, test.odd.size) == (450, 450)
    right = (test.network == test.odd[:, None]).mean(axis=0)
    assert 0.85 < right[0] < right[1]
    assert right[1] > 0.95


def test_digits_is_determined_by_its_seed_and_trains_once(sklearn):
    one, same, other = digits(seed=5), digits(seed=5), digits(seed=6)
    assert (one.table == same.table).all()
    assert (one.truth != other.truth).any()
    assert one.fidelities == other.fidelities
    assert DIGITS._trained() is DIGITS._trained()


def test_digits_zeta_is_the_validation_splits(sklearn, monkeypatch):
    validation, test = DIGITS._trained()
    q = (validation.network[:, 0] == validation.network[:, 1]).mean()
    assert digits(seed=0).fidelities[0].zeta == pytest.approx((2 * q - 1) ** 2)
    assert digits(seed=0, zeta="accuracy").fidelities[0].zeta == pytest.approx(q)
    before = digits(seed=0)
    monkeypatch.setattr(DIGITS, "_trained", lambda: (validation, test._replace(network=~test.network)))
    after = digits(seed=0)
    assert after.fidelities == before.fidelities
    assert (after.table == 1.0 - before.table).all()


# the extra


@pytest.mark.parametrize(("module", "make"), [("river", run_log), ("sklearn", lambda: DIGITS._trained.__wrapped__())])
def test_a_missing_wheel_names_the_extra(monkeypatch, module, make):
    for name in [n for n in sys.modules if n.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # Python's marker for a module that cannot be imported
    with pytest.raises(ImportError, match=rf"needs {module}: pip install 'mfbocd\[real\]'"):
        make()
