"""The report page, as text and in a real browser."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import mfbocd as mf
from mfbocd.inputs.times import Times
from mfbocd.report import page, write
from mfbocd.report.figures import MOST_SHAPES

from ..service import browser as chromium
from ..service.browser import Visit

pytestmark = pytest.mark.slow

browser, visit = chromium.browser, chromium.visit  # fixtures

MALICIOUS = "</script><script>window.hurt=1</script><img src=x onerror='window.hurt=2'>"
FIDELITIES = [mf.Fidelity("imu", 0.2, 1), mf.Fidelity("gps", 1.0, 10)]
MODEL = mf.Gaussian(0, 9, 1)


def traced(names: tuple[str, str] = ("imu", "gps"), ticks: int = 240, detail: bool = True) -> mf.Trace:
    fidelities = [mf.Fidelity(names[0], 0.2, 1), mf.Fidelity(names[1], 1.0, 10)]
    stream = mf.simulate.gaussian(MODEL, fidelities, hazard=1 / 60, ticks=ticks, seed=5)
    return mf.run(mf.Detector(MODEL, fidelities, hazard=1 / 60, policy=mf.Budget(4.0)), stream.table, detail=detail)


@pytest.fixture(scope="module")
def trace() -> mf.Trace:
    return traced()


def words(html: str) -> str:
    """The page without its scripts, styles and tags."""
    text = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))).replace("\N{NO-BREAK SPACE}", " ")


def alarms_of(html: str) -> list[dict[str, str]]:
    link = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', html)
    assert link is not None
    return list(csv.DictReader(io.StringIO(unquote(link[1]))))


def figure_of(html: str, name: str) -> Any:
    """The data and layout of a figure."""
    found = re.search(f'data-figure="{name}">([^<]*)<', html)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_the_summary_is_that_of_the_trace(trace: mf.Trace) -> None:
    assert trace.detail is not None
    text = words(page(trace, title="Pump 7", unit="V", cost_unit="mJ", budget=4.0))
    assert len(trace.changes) >= 2
    assert f"{len(trace.changes)} changes were found in 240 ticks" in text
    assert f"The readings cost {trace.spent:g} mJ." in text or f"The readings cost {trace.spent:,.0f} mJ." in text
    assert "Reading gps at every tick would have cost 2,400 mJ" in text
    assert f"{1 - trace.spent / 2400:.0%} saved" in text
    assert f"{trace.spent / 960:.0%} of the budget spent" in text
    for change, (low, high) in zip(trace.changes, trace.detail.began, strict=True):
        interval = f" 90% between {low} and {high}" if low != high else ""
        sure = "> 99.9%" if change.confidence > 0.999 else f"{change.confidence:.1%}"
        later = f"{change.delay} ticks later" if change.delay > 1 else "1 tick later" if change.delay else "at once"
        before, after = (re.sub(r"[()]", "", str(level)) for level in (change.before, change.after))
        assert f" {change.changed_at}{interval} {before} {after} {sure} {later} {change.tick} " in text
    for change in trace.changes[:5]:
        assert f" {change.describe('V', str(change.changed_at))} " in text
    assert f"imu {(trace.choice == 0).sum()}" in text


def test_alarms_can_be_downloaded(trace: mf.Trace) -> None:
    assert trace.detail is not None
    rows = alarms_of(page(trace))
    assert [int(row["alarm_tick"]) for row in rows] == [c.tick for c in trace.changes]
    assert [int(row["changed_at"]) for row in rows] == [c.changed_at for c in trace.changes]
    assert [(int(row["earliest"]), int(row["latest"])) for row in rows] == [tuple(b) for b in trace.detail.began]
    assert [row["before_low"] for row in rows] == [f"{c.before.low:.6g}" for c in trace.changes]
    assert [row["after"] for row in rows] == [f"{c.after.mean:.6g}" for c in trace.changes]
    np.testing.assert_allclose(
        [float(row["confidence"]) for row in rows], [c.confidence for c in trace.changes], 1e-5
    )


def test_times_appear_in_the_text_and_in_the_download(trace: mf.Trace) -> None:
    start = datetime(2024, 2, 28, 23, 59, 30)
    time = [start + timedelta(seconds=5 * t) for t in range(len(trace))]
    html = page(trace, time=time)
    change = trace.changes[0]
    assert f"{time[change.changed_at]}" in words(html)
    assert "from 2024-02-28 23:59:30 to 2024-02-29 00:19:25" in words(html)
    assert alarms_of(html)[0]["alarm_time"] == str(time[change.tick])


def test_times_are_shown_as_they_were_written(trace: mf.Trace) -> None:
    zoned = [f"2025-03-01T{8 + t // 60:02d}:{t % 60:02d}+02:00" for t in range(240)]
    change = trace.changes[0]
    html = page(trace, time=zoned, xlabel="logged")
    assert f" {zoned[change.changed_at]} " in words(html)
    assert "from 2025-03-01T08:00+02:00 to 2025-03-01T11:59+02:00" in words(html)
    assert alarms_of(html)[0]["changed_at_time"] == zoned[change.changed_at]
    assert figure_of(html, "data")["layout"]["xaxis"]["title"]["text"] == "logged (UTC+02:00)"
    assert figure_of(html, "data")["layout"]["xaxis"]["range"][1].startswith("2025-03-01T12:02")
    unix = [1740817200 + 60 * t for t in range(240)]
    html = page(trace, time=unix)
    assert "from 1740817200 (2025-03-01 08:20:00 UTC) to 1740831540 (2025-03-01 12:19:00 UTC)" in words(html)
    assert alarms_of(html)[0]["alarm_time"] == str(unix[change.tick])
    assert f" {unix[change.changed_at]} 2025-03-01 " in words(html)  # the table has the date too
    assert "e+09" not in words(html)
    names = [f"run {t}" for t in range(240)]
    html = page(trace, time=Times.of(names))
    assert f" run {change.changed_at} " in words(html)
    assert "Times such as run 0 cannot be drawn: the figures show ticks." in words(html)
    back = page(trace, time=Times.of(unix[::-1]))
    assert "The times are not sorted: the figures show ticks." in words(back)
    assert f" {unix[-1 - change.changed_at]} 2025-03-01 " in words(back)
    assert figure_of(html, "data")["layout"]["xaxis"]["title"]["text"] == "tick"


def test_a_long_trace_is_counted_in_full_and_drawn_with_its_extremes() -> None:
    x = np.tile(np.repeat([0.0, 8.0], 30), 400)
    x[[7, 23_456]] = [-40.0, 50.0]
    trace = mf.run(mf.Detector(mf.Gaussian(0, 25, 1), hazard=1 / 30), x)
    assert len(trace.changes) > MOST_SHAPES
    html = page(trace)
    assert f"{len(trace.changes)} changes were found in 24,000 ticks" in words(html)
    assert "the lowest and highest value of every 24 ticks; counts and tables cover every tick" in words(html)
    assert len(alarms_of(html)) == len(trace.changes)
    readings = figure_of(html, "data")["data"][0]
    drawn = [value for value, _ in readings["customdata"]]
    assert len(drawn) <= 2000
    assert (min(drawn), max(drawn)) == (-40.0, 50.0)
    lines = [one for one in figure_of(html, "data")["data"] if one["name"] == "change found"]
    assert len(lines) == 1
    assert "shapes" not in figure_of(html, "data")["layout"]


def test_one_fidelity_has_no_costs_and_names_its_column() -> None:
    detector = mf.Detector(MODEL, mf.Fidelity("voltage", 1.0, 1.0), hazard=1 / 60)
    trace = mf.run(detector, [0.1, -0.3, 0.2, 6.0, 6.1, 5.8])
    html = page(trace, unit="V")
    assert "spent" not in words(html)
    assert "cost" not in words(html)
    assert trace.changes[0].describe("V", "3") in words(html)
    assert "last change, at 3" in words(html)
    assert figure_of(html, "data")["layout"]["yaxis"]["title"]["text"] == "voltage (V)"
    assert "spent" in words(page(trace, budget=1.0))


def test_several_streams_are_one_report(trace: mf.Trace) -> None:
    other = traced(detail=False)
    html = page({"inlet": trace, "<outlet>": other}, config_text={"inlet": "first", "<outlet>": "second"})
    assert [unescape(name) for name in re.findall('<h2 class="stream">(.*?)</h2>', html)] == ["inlet", "<outlet>"]
    ids = re.findall(r'<div id="([\w-]+)" class="plotly-graph-div"', html)
    assert ids == ["data", "changes", "run-length", "spend", "gains", "s1-data", "s1-changes", "s1-spend"]
    assert words(html).index("first") < words(html).index("second")
    assert len(re.findall('id="plotly"', html)) == 1
    with pytest.raises(ValueError, match="at least one trace"):
        page({})


def test_the_script_can_be_shared(tmp_path: Path, trace: mf.Trace) -> None:
    whole = write(tmp_path / "whole.html", trace).stat().st_size
    assert whole < 2_500_000
    small = [write(tmp_path / f"{name}.html", trace, script="shared") for name in "ab"]
    assert all(path.stat().st_size < 400_000 for path in small)
    (script,) = tmp_path.glob("*.js")
    assert f'src="{script.name}"' in small[0].read_text()


def test_unknown_values_are_left_out() -> None:
    fidelities = [mf.Fidelity("near", 0.2, lambda raw: 1.0), mf.Fidelity("far", 1.0, 10)]
    detector = mf.Detector(MODEL, fidelities, policy=mf.Net(0.01))
    trace = mf.run(detector, np.zeros((20, 2)), raws=[None] * 20)
    text = words(page(trace))
    assert "is not known, because costs depend on the input" in text
    assert "saved" not in text
    assert "No change was found in 20 ticks" in text
    assert "Download" not in text
    assert f"{1 - trace.spent / 400:.0%} saved" in words(page(trace, all_high=400.0))
    expensive = words(page(trace, all_high=5.0))
    assert f"would have cost 5: {trace.spent / 5 - 1:.0%} more." in expensive
    assert f"{trace.spent / 5 - 1:.0%} more than that" in expensive


def test_a_trace_without_detail_has_the_available_figures() -> None:
    plain = traced(detail=False)
    html = page(plain)
    assert re.findall(r'<div id="([\w-]+)" class="plotly-graph-div"', html) == ["data", "changes", "spend"]
    assert "% between " not in words(html)
    one = mf.run(mf.Detector(MODEL, missing="skip"), [0.0, np.nan, 1.0], detail=True)
    html = page(one)
    assert re.findall(r'<div id="([\w-]+)" class="plotly-graph-div"', html) == ["data", "changes", "run-length"]
    assert "At 1 of the ticks there was no reading" in words(html)


def test_user_input_is_escaped(trace: mf.Trace) -> None:
    html = page(
        traced((MALICIOUS, "b&b")),
        title=MALICIOUS,
        config_text=MALICIOUS,
        unit=MALICIOUS,
        cost_unit=MALICIOUS,
        xlabel=MALICIOUS,
    )
    assert "<script>window.hurt" not in html
    assert "<img" not in html.replace(page(trace), "")
    assert html.count("<script") == page(trace).count("<script")
    assert "b&amp;b" in html


def test_errors_name_what_is_wrong(trace: mf.Trace) -> None:
    with pytest.raises(ValueError, match="time must have 240 entries, one per tick, not 3"):
        page(trace, time=[1, 2, 3])
    with pytest.raises(ValueError, match="truth must have 240 entries, one per tick, not 1"):
        page(trace, truth=[1.0])
    with pytest.raises(ValueError, match="trace must have at least one tick"):
        page(mf.Trace.of([], FIDELITIES))


def test_without_plotly_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['plotly'] = None; import mfbocd as mf\n"
        "trace = mf.run(mf.Detector(mf.Gaussian()), [0.0])\n"
        "try: mf.report.page(trace)\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "a report needs plotly: pip install 'mfbocd[report]'"


# --- in a browser --------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path, visit: Callable[..., Visit], trace: mf.Trace) -> Visit:
    path = write(tmp_path / "report.html", trace, unit="m", budget=4.0, config_text="[model]", changes=[100])
    seen = visit(path)
    seen.page.wait_for_selector("html[data-ready=yes]")
    return seen


def test_the_page_renders_without_requests(opened: Visit, trace: mf.Trace) -> None:
    page = opened.page
    assert page.locator(".plotly-graph-div .main-svg").count() >= 5
    for j, name in enumerate(trace.fidelities):
        drawn = page.evaluate(
            """name => { const all = [...document.querySelectorAll('#data .scatterlayer .trace')];
            const i = document.getElementById('data').data.filter(t => t.type == 'scatter')
                .findIndex(t => t.name == name);
            return all.find(g => g.__data__[0].trace.index === i)?.querySelectorAll('path.point').length }""",
            name,
        )
        assert drawn == (trace.choice == j).sum()
    assert page.evaluate("document.querySelectorAll('#run-length .heatmaplayer image').length") == 1
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_hovering_over_a_point_shows_it(opened: Visit, trace: mf.Trace) -> None:
    page = opened.page
    fired = int(np.flatnonzero(trace.alarm)[0])
    place = page.evaluate(
        """([x, y]) => { const plot = document.getElementById('changes'); plot.scrollIntoView({block: 'center'});
        const box = plot.getBoundingClientRect(), full = plot._fullLayout;
        return [box.x + full.xaxis._offset + full.xaxis.d2p(x), box.y + full.yaxis._offset + full.yaxis.d2p(y)] }""",
        [fired, float(trace.confidence[fired])],
    )
    page.mouse.move(*place)
    page.wait_for_selector("#changes .hoverlayer .hovertext")
    shown_gains = page.text_content("#changes .hoverlayer")
    assert f"alarm at {fired}" in shown_gains
    assert f"changed at {trace.changed_at[fired]}" in shown_gains
    assert opened.said == []


def test_a_zoom_applies_to_all_figures(opened: Visit) -> None:
    page = opened.page
    ranges = "[...document.querySelectorAll('.plotly-graph-div')].map(p => p._fullLayout.xaxis.range.map(Math.round))"
    before = page.evaluate(ranges)
    assert len({tuple(r) for r in before}) == 1
    page.evaluate("document.getElementById('data').scrollIntoView({block: 'center'})")
    box = page.locator("#data .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    page.wait_for_function(f"new Set(({ranges}).map(String)).size == 1 && ({ranges})[1][0] > {before[0][0] + 20}")
    zoomed = page.evaluate(ranges)[0]
    span = before[0][1] - before[0][0]
    assert zoomed[1] - zoomed[0] == pytest.approx(span / 2, abs=0.05 * span)
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function(f"String({ranges}) == '{','.join(str(v) for r in before for v in r)}'")
    assert opened.said == []


def test_alarms_download_from_the_page(opened: Visit, trace: mf.Trace, tmp_path: Path) -> None:
    with opened.page.expect_download() as started:
        opened.page.click("text=Download the alarms")
    saved = tmp_path / "saved.csv"
    started.value.save_as(saved)
    assert started.value.suggested_filename == "alarms.csv"
    assert len(saved.read_text().splitlines()) == 1 + len(trace.changes)


def test_it_fits_a_phone(tmp_path: Path, visit: Callable[..., Visit], trace: mf.Trace) -> None:
    seen = visit(write(tmp_path / "report.html", trace, title="x" * 200), width=390)
    seen.page.wait_for_selector("html[data-ready=yes]")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert seen.page.evaluate("document.getElementById('data').getBoundingClientRect().width") > 300
    assert seen.said == []


def test_the_toolbar_is_beside_the_legend(tmp_path: Path, visit: Callable[..., Visit], trace: mf.Trace) -> None:
    path = write(tmp_path / "report.html", trace, unit="m", changes=[100], truth=np.zeros(240))
    for width in (1200, 390):
        page = visit(path, width=width).page
        page.wait_for_selector("html[data-ready=yes]")
        boxes = page.evaluate(
            """[...document.querySelectorAll('.plotly-graph-div')].map(p => [
            p.querySelector('.modebar').getBoundingClientRect().left,
            Math.max(...[...p.querySelectorAll('.legend, .nsewdrag')].map(e => e.getBoundingClientRect().right))])"""
        )
        assert len(boxes) == 5
        assert all(toolbar >= others for toolbar, others in boxes)


def test_dark_mode_and_a_shared_script(tmp_path: Path, visit: Callable[..., Visit], trace: mf.Trace) -> None:
    seen = visit(write(tmp_path / "report.html", trace, script="shared"))
    page = seen.page
    page.wait_for_selector("html[data-ready=yes]")
    colours = """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
        document.querySelector('#data .main-svg').style.background,
        document.getElementById('data')._fullLayout.font.color]"""
    light = page.evaluate(colours)
    assert light == ["rgb(245, 246, 248)", "rgb(29, 36, 48)", "rgb(255, 255, 255)", "#222222"]
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-scheme=dark]")
    assert page.evaluate(colours) == ["rgb(18, 21, 26)", "rgb(228, 232, 238)", "rgb(27, 32, 41)", "#e4e8ee"]
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html[data-scheme=light]")
    assert page.evaluate(colours) == light
    assert seen.said == []


def test_malicious_names_are_shown_and_not_executed(tmp_path: Path, visit: Callable[..., Visit]) -> None:
    malicious = traced((MALICIOUS, "<b>gps</b>"))
    seen = visit(
        write(
            tmp_path / "evil.html",
            malicious,
            title=MALICIOUS,
            config_text=MALICIOUS,
            unit=MALICIOUS,
            xlabel=MALICIOUS,
        )
    )
    seen.page.wait_for_selector("html[data-ready=yes]")
    assert seen.page.evaluate("window.hurt") is None
    assert seen.page.inner_text("h1") == MALICIOUS
    assert seen.page.title() == MALICIOUS
    for figure in ("data", "gains"):
        read = "id => [...document.querySelectorAll(`#${id} .legendtext`)].map(t => t.textContent)"
        legend = seen.page.evaluate(read, figure)
        assert "<b>gps</b>" in legend
        assert any(name.startswith("</script><script>") for name in legend)
    assert seen.said == []
    assert [url for url in seen.asked if not url.startswith(("file:", "data:", "blob:"))] == []
