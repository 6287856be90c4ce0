"""Figures show the contents of the trace."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.dates import date2num, num2date
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

import mfbocd as mf
from mfbocd.trace import plots
from mfbocd.trace.plots.style import fidelity_styles
from mfbocd.trace.plots.thin import extremes
from mfbocd.trace.plots.timeline import Timeline

pytestmark = pytest.mark.slow

FIDELITIES = [mf.Fidelity("imu", 0.2, 1), mf.Fidelity("gps", 1.0, 10)]
MODEL = mf.Gaussian(0, 9, 1)
TICKS = 240


@pytest.fixture(scope="module")
def stream() -> mf.simulate.Stream:
    return mf.simulate.gaussian(MODEL, FIDELITIES, hazard=1 / 60, ticks=TICKS, seed=5)


@pytest.fixture(scope="module")
def trace(stream: mf.simulate.Stream) -> mf.Trace:
    detector = mf.Detector(MODEL, FIDELITIES, hazard=1 / 60, policy=mf.Budget(4.0))
    mf.run(detector, np.zeros((3, 2)))
    return mf.run(detector, stream.table, detail=True)


@pytest.fixture
def axis() -> Axes:
    return Figure().subplots()


def line(axis: Axes, label: str) -> Line2D:
    found = [drawn for drawn in axis.lines if drawn.get_label() == label]
    assert len(found) == 1, f"{label!r} is none of {[drawn.get_label() for drawn in axis.lines]}"
    return found[0]


def points(axis: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    drawn = line(axis, label)
    return np.asarray(drawn.get_xdata()), np.asarray(drawn.get_ydata())


# --- panels --------------------------------------------------------------------------------------------------------


def test_every_reading_is_drawn_at_its_fidelity(axis: Axes, trace: mf.Trace) -> None:
    plots.data(axis, trace, unit="m")
    for j, name in enumerate(("imu", "gps")):
        x, y = points(axis, name)
        rows = np.flatnonzero(trace.choice == j)
        assert len(rows) > 20
        np.testing.assert_array_equal(x, rows + 3)
        np.testing.assert_array_equal(y, trace.x[rows])
    assert axis.get_ylabel() == "reading (m)"
    assert (line(axis, "imu").get_marker(), line(axis, "gps").get_marker()) == ("x", "o")


def test_a_prediction_is_drawn_at_the_tick_of_its_reading(axis: Axes, trace: mf.Trace) -> None:
    plots.data(axis, trace)
    x, y = points(axis, "predicted mean")
    np.testing.assert_array_equal(x, np.arange(TICKS) + 4)  # the prediction after tick t is for t + 1
    np.testing.assert_array_equal(y, trace.mean)


def test_the_band_is_the_detectors_interval(axis: Axes, stream: mf.simulate.Stream, trace: mf.Trace) -> None:
    plots.data(axis, trace)
    bands = [c for c in axis.collections if isinstance(c, PolyCollection) and c.get_label() == "90% band"]
    assert len(bands) == 1
    corners = bands[0].get_paths()[0].vertices
    detector = mf.Detector(MODEL, FIDELITIES, hazard=1 / 60, policy=mf.Budget(4.0))
    for row in np.zeros((3, 2)):
        detector.update(float(row[0]), detector.choose())
    for t, row in enumerate(stream.table):
        detector.update(float(row[trace.choice[t]]), FIDELITIES[trace.choice[t]])
        if t in (0, 100, 200):
            here = corners[corners[:, 0] == t + 4, 1]
            assert (here.min(), here.max()) == pytest.approx(detector.interval(0.9), rel=1e-9)


def test_missing_readings_are_ticks_on_the_edge_and_never_zeros(axis: Axes) -> None:
    readings = np.array([5.0, np.nan, 5.1, 5.2, np.nan, 4.9])
    trace = mf.run(mf.Detector(mf.Gaussian(5, 9, 1), missing="skip"), readings)
    plots.data(axis, trace)
    x, y = points(axis, "full")
    assert x.tolist() == [0, 2, 3, 5]
    assert y.min() > 4.0
    rug = line(axis, "no reading")
    assert list(rug.get_xdata()) == [1, 4]
    assert rug.get_transform() == axis.get_xaxis_transform()
    assert axis.get_ylim()[0] > 3.0


def test_a_tick_without_a_reading_is_not_drawn_as_one(axis: Axes) -> None:
    detector = mf.Detector(MODEL, FIDELITIES, missing="skip")
    trace = mf.Trace.of([detector.update(1.0, "imu"), detector.update(None)], detector)
    plots.data(axis, trace)
    assert [len(points(axis, name)[0]) for name in ("imu", "gps", "no reading")] == [1, 0, 1]


def test_binary_readings_are_drawn_in_two_rows(axis: Axes) -> None:
    table = np.random.default_rng(0).integers(0, 2, size=(60, 2)).astype(float)
    trace = mf.run(mf.Detector(mf.Bernoulli(1, 1), FIDELITIES, policy=mf.Random(), seed=1), table, detail=True)
    plots.data(axis, trace)
    heights = [set(points(axis, name)[1].round(9).tolist()) for name in ("imu", "gps")]
    assert heights == [{-0.06, 1.06}, {-0.12, 1.12}]
    assert (points(axis, "imu")[1] > 1.0).sum() == (trace.x[trace.choice == 0] == 1.0).sum()
    assert len(axis.collections) == len([c for c in axis.collections if c.get_label() != "90% band"])
    np.testing.assert_array_equal(points(axis, "predicted P(x = 1)")[1], trace.mean)


def test_changes_are_marked_with_their_intervals(axis: Axes, trace: mf.Trace) -> None:
    assert trace.detail is not None
    plots.changes(axis, trace, changes=[10, 20])
    x, y = points(axis, "alarm")
    assert x.tolist() == [c.tick for c in trace.changes]
    assert y.tolist() == [c.confidence for c in trace.changes]
    lines = next(c for c in axis.collections if isinstance(c, LineCollection))
    assert [segment[0, 0] for segment in lines.get_segments()] == [c.changed_at for c in trace.changes]
    bars = next(c for c in axis.collections if c.get_label() == "90% interval")
    spans = [(p.vertices[:, 0].min(), p.vertices[:, 0].max()) for p in bars.get_paths()]
    assert spans == [tuple(map(float, began)) for began in trace.detail.began]
    np.testing.assert_array_equal(points(axis, "P(recent change)")[1], trace.p_change)
    assert points(axis, "true change")[0].tolist() == [10, 20]


def test_a_regime_that_began_before_the_trace_is_drawn_at_its_edge(axis: Axes) -> None:
    detector = mf.Detector(MODEL, hazard=0.01)
    readings = [0.0] * 20 + [8.0]
    mf.run(detector, readings)
    trace = mf.run(detector, [8.0, 8.1, 7.9])
    late = replace(trace, alarm=np.array([True, False, False]), changed_at=np.array([20, -1, -1]))
    plots.changes(axis, late)
    lines = next(c for c in axis.collections if isinstance(c, LineCollection))
    assert lines.get_segments()[0][0, 0] == 21


def test_heat_map_is_the_posterior(axis: Axes, trace: mf.Trace) -> None:
    assert trace.detail is not None
    plots.run_length(axis, trace)
    mesh = next(c for c in axis.collections if isinstance(c, QuadMesh))
    drawn = np.asarray(mesh.get_array())
    np.testing.assert_array_equal(drawn, trace.detail.weight.T)
    np.testing.assert_allclose(drawn.sum(axis=0), 1.0, rtol=1e-12)
    corners = mesh.get_coordinates()
    assert corners[0, [0, -1], 0].tolist() == [3, TICKS + 3]
    assert corners[[0, -1], 0, 1].tolist() == [0, trace.detail.length[-1]]
    assert (mesh.norm.vmin, mesh.norm.vmax) == (1e-4, 1.0)
    assert mesh.norm(1e-2) == pytest.approx(0.5)  # a log scale
    np.testing.assert_array_equal(points(axis, "most probable")[1], trace.run_length + 0.5)
    top = axis.get_ylim()[1]
    assert trace.run_length.max() < top <= trace.detail.length[-1]


def test_the_spend_curve_ends_at_the_total(axis: Axes, trace: mf.Trace) -> None:
    plots.spend(axis, trace, budget=4.0, cost_unit="$")
    spent = next(drawn for drawn in axis.lines if drawn.get_label().startswith("spent"))
    assert spent.get_ydata()[-1] == pytest.approx(trace.spent)
    assert spent.get_ydata()[0] == trace.cost[0]
    budget = next(drawn for drawn in axis.lines if drawn.get_label().startswith("budget"))
    assert budget.get_ydata()[-1] == 4.0 * TICKS
    always = next(drawn for drawn in axis.lines if drawn.get_label().startswith("always gps"))
    assert always.get_ydata()[-1] == 10 * TICKS
    assert axis.get_ylabel() == r"spent (\$)"


def test_a_cost_function_has_no_line_for_always_reading(axis: Axes) -> None:
    fidelities = [mf.Fidelity("near", 0.2, lambda raw: 1.0), mf.Fidelity("far", 1.0, 10)]
    trace = mf.run(mf.Detector(MODEL, fidelities, policy=mf.Net(0.01)), np.zeros((20, 2)), raws=[None] * 20)
    plots.spend(axis, trace)
    assert [drawn.get_label().split()[0] for drawn in axis.lines] == ["spent:"]


def test_gains_are_drawn_by_fidelity(axis: Axes, trace: mf.Trace) -> None:
    assert trace.detail is not None
    plots.gains(axis, trace)
    for j, name in enumerate(("imu", "gps")):
        np.testing.assert_array_equal(points(axis, name)[1], trace.detail.gains[:, j])
    assert axis.get_ylabel() == "gain (nats)"
    assert axis.get_yscale() == "log"


def test_a_skip_has_no_gain_to_draw(axis: Axes) -> None:
    fidelities = [mf.Fidelity("skip", 0, 0), mf.Fidelity("gps", 1.0, 10)]
    detector = mf.Detector(MODEL, fidelities, policy=mf.Net(0.01, gain="variance"), missing="skip")
    trace = mf.run(detector, np.zeros((10, 2)), detail=True)
    plots.gains(axis, trace)
    assert [len(points(axis, name)[0]) for name in ("skip", "gps")] == [0, 10]
    assert axis.get_ylabel() == "gain (variance)"


@pytest.mark.parametrize("panel", [plots.gains, plots.run_length])
def test_panels_that_need_detail_raise_without_it(axis: Axes, panel) -> None:  # type: ignore[no-untyped-def]
    trace = mf.run(mf.Detector(MODEL), [0.0, 1.0])
    with pytest.raises(ValueError, match="needs a trace with detail"):
        panel(axis, trace)


# --- the figure ----------------------------------------------------------------------------------------------------


def test_the_standard_figure(trace: mf.Trace, stream: mf.simulate.Stream) -> None:
    picture = trace.plot(unit="m", cost_unit="mJ", budget=4.0, truth=stream.theta, changes=stream.changes + 3)
    labels = [axis.get_ylabel() for axis in picture.axes]
    assert labels == ["reading (m)", "run length (ticks)", "probability", "spent (mJ)", "gain (nats)"]
    assert picture.axes[-1].get_xlabel() == "tick"
    np.testing.assert_array_equal(points(picture.axes[0], "truth")[1], stream.theta)
    low, high = picture.axes[0].get_xlim()
    assert low < 3
    assert high > TICKS + 3


def test_panels_without_data_are_left_out(trace: mf.Trace) -> None:
    def labels(picture: Figure) -> list[str]:
        return [axis.get_ylabel() for axis in picture.axes]

    assert labels(plots.figure(replace(trace, detail=None))) == ["reading", "probability", "spent"]
    one = mf.run(mf.Detector(MODEL), [0.0, 1.0, 2.0], detail=True)
    assert labels(one.plot()) == ["reading", "run length (ticks)", "probability"]
    assert labels(one.plot(budget=1.0)) == ["reading", "run length (ticks)", "probability", "spent"]


@pytest.mark.parametrize("ticks", [1, 2])
def test_the_shortest_streams_can_be_drawn(ticks: int) -> None:
    trace = mf.run(mf.Detector(MODEL, FIDELITIES), np.zeros((ticks, 2)), detail=True)
    picture = trace.plot()
    FigureCanvasAgg(picture).draw()
    for axis in picture.axes:
        assert axis.lines or axis.collections or axis.images, axis.get_ylabel()
        low, high = axis.get_xlim()
        assert low < 0 <= ticks - 1 < high


def _texts(picture: Figure) -> list[Text]:
    return [t for t in picture.findobj(Text) if t.get_visible() and t.get_text().strip()]


def test_it_is_legible_600_pixels_wide_and_nothing_is_cut(trace: mf.Trace, stream: mf.simulate.Stream) -> None:
    picture = trace.plot(unit="m", cost_unit="mJ", budget=4.0, truth=stream.theta, changes=stream.changes + 3)
    picture.set_dpi(600 / picture.get_figwidth())
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    texts = _texts(picture)
    assert len(texts) > 30
    for text in texts:
        assert text.get_fontsize() * picture.dpi / 72 >= 10, text
    width, height = canvas.get_width_height()
    for axis in picture.axes:
        legend = axis.get_legend()
        assert legend is not None
        box = legend.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
        assert box.y0 >= axis.get_window_extent().y1 - 1  # above the data, not covering it
        assert axis.get_window_extent().width > 0.7 * width


def test_colours_differ_in_greyscale_and_markers_differ(trace: mf.Trace) -> None:
    shown = fidelity_styles(trace)
    grey = [np.dot(to_rgb(f.colour), (0.299, 0.587, 0.114)) for f in shown]
    assert abs(grey[0] - grey[1]) > 0.2
    many = replace(trace, fidelities=tuple("abcdef"), costs=(6.0, 5.0, 4.0, 3.0, 2.0, 1.0))
    assert len({f.marker for f in fidelity_styles(many)}) == 6
    assert len({f.colour for f in fidelity_styles(many)}) == 6
    assert [f.marker for f in fidelity_styles(many)][::5] == [
        "o",
        "x",
    ]  # the most expensive is the disc, whatever its position


def test_a_long_stream_is_thinned_and_the_label_says_so() -> None:
    rng = np.random.default_rng(0)
    readings = rng.normal(size=100_000)
    readings[54_321] = 40.0
    trace = mf.run(mf.Detector(mf.Gaussian(0, 1600, 1), alarm=None, prune=mf.TopK(5)), readings)
    picture = trace.plot(xlabel="second")
    x, y = points(picture.axes[0], "full")
    assert len(x) == 2000
    np.testing.assert_array_equal(y, readings[x])
    assert 54_321 in x
    stretches = readings.reshape(1000, 100)
    np.testing.assert_array_equal(np.sort(y), np.sort(np.concatenate([stretches.min(1), stretches.max(1)])))
    label = "second\n(points and lines: the lowest and highest of every 100 ticks)"
    assert picture.axes[-1].get_xlabel() == label


@pytest.mark.parametrize("ticks", [0, 1, 2000, 2001, 12_345])
def test_thinning_keeps_extremes_and_omits_missing_values(ticks: int) -> None:
    values = np.random.default_rng(1).normal(size=ticks)
    values[::3] = np.nan
    rows = extremes(values)
    assert np.isfinite(values[rows]).all()
    assert (np.diff(rows) > 0).all()
    assert len(rows) <= 2000
    if ticks <= 2000:
        assert rows.tolist() == np.flatnonzero(np.isfinite(values)).tolist()
    else:
        assert {int(np.nanargmin(values)), int(np.nanargmax(values))} <= set(rows.tolist())


# --- time ----------------------------------------------------------------------------------------------------------


def test_times_may_be_datetimes(trace: mf.Trace) -> None:
    start = datetime(2024, 2, 28, 23, 59)
    time = [start + timedelta(seconds=10 * t) for t in range(TICKS)]
    picture = trace.plot(time=time, xlabel="time of day")
    FigureCanvasAgg(picture).draw()
    x, _ = points(picture.axes[0], "gps")
    assert x.astype("datetime64[s]").tolist() == [time[t] for t in np.flatnonzero(trace.choice == 1)]
    left, right = (num2date(v).replace(tzinfo=None) for v in picture.axes[0].get_xlim())
    assert left < time[0] < time[-1] < right
    mesh = next(c for c in picture.axes[1].collections if isinstance(c, QuadMesh))
    assert mesh.get_coordinates()[0, 0, 0] == date2num(start)


def test_times_with_a_zone_are_shown_in_it(trace: mf.Trace) -> None:
    zone = timezone(timedelta(hours=2))
    time = [datetime(2024, 1, 1, 12, tzinfo=zone) + timedelta(minutes=t) for t in range(TICKS)]
    timeline = Timeline(trace, time)
    assert timeline.labels([3]) == ["2024-01-01 12:00:00+02:00"]
    assert timeline.labels([4]) == [str(time[1])]
    assert str(timeline.at[0]) == "2024-01-01T12:00:00.000000"
    assert timeline.axis_label() == "time (UTC+02:00)"


def test_times_may_be_numbers(trace: mf.Trace) -> None:
    picture = trace.plot(time=np.arange(TICKS) * 0.5, xlabel="s")
    x, _ = points(picture.axes[0], "gps")
    np.testing.assert_array_equal(x, 0.5 * np.flatnonzero(trace.choice == 1))
    assert points(picture.axes[0], "predicted mean")[0][-1] == 0.5 * TICKS
    large = trace.plot(time=123_456_789 + np.arange(TICKS))  # too small for Unix seconds of our time
    FigureCanvasAgg(large).draw()
    assert all(text.get_text().startswith("12345") for text in large.axes[-1].get_xticklabels())


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ([1.0], "time must have 2 entries, one per tick, not 1"),
        ([1.0, 0.5], r"time must not decrease, but time\[1\] is 0.5 after 1.0"),
        ([1.0, np.nan], r"time\[1\] must be a finite number or a datetime, not nan"),
        (["a", "b"], "time must be numbers or datetimes, not 'a'"),
    ],
)
def test_bad_times_are_named(time, message: str) -> None:  # type: ignore[no-untyped-def]
    trace = mf.run(mf.Detector(MODEL), [0.0, 1.0])
    with pytest.raises((ValueError, TypeError), match=message):
        trace.plot(time=time)


def test_other_errors_name_what_is_wrong(trace: mf.Trace) -> None:
    with pytest.raises(ValueError, match=f"truth must have {TICKS} entries, one per tick, not shape"):
        trace.plot(truth=[1.0])
    with pytest.raises(ValueError, match="trace must have at least one tick"):
        mf.Trace.of([], FIDELITIES).plot()


def test_names_are_shown_verbatim() -> None:
    fidelities = [mf.Fidelity("_low$x^", 0.2, 1), mf.Fidelity("a very long name " * 5, 1.0, 10)]
    trace = mf.run(mf.Detector(MODEL, fidelities), np.zeros((5, 2)), detail=True)
    picture = trace.plot(unit="$a^", cost_unit="$/$", xlabel="$^{")
    FigureCanvasAgg(picture).draw()
    legend = picture.axes[-1].get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown[0].endswith(r"_low\$x^")
    assert len(shown[1]) == 28
    assert picture.axes[0].get_window_extent().width > 0.6 * picture.bbox.width


# --- global state -------------------------------------------------------------------------------------------------


def test_drawing_leaves_no_global_state_and_needs_the_extra() -> None:
    code = (
        "import sys, mfbocd as mf\n"
        "trace = mf.run(mf.Detector(mf.Gaussian()), [0.0, 1.0], detail=True)\n"
        "trace.plot().savefig('/dev/null', format='png')\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
        "for name in [m for m in sys.modules if m.split('.')[0] == 'matplotlib']: sys.modules[name] = None\n"
        "try: trace.plot()\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "plots need matplotlib: pip install 'mfbocd[plot]'"]


def test_a_notebook_shows_the_picture_even_without_pyplot(trace: mf.Trace) -> None:
    shown = trace.plot()._repr_png_()  # type: ignore[attr-defined]
    assert shown.startswith(b"\x89PNG")
    assert len(shown) > 10_000
