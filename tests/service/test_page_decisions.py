"""The live page explains decisions and takes notes on alarms: in a real browser, narrow, dark and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from . import browser as chromium
from . import test_page
from .browser import Visit
from .test_page import clean, ids, listed, opened, points, shows, tell, until

pytestmark = pytest.mark.slow

browser, visit, shared = chromium.browser, chromium.visit, test_page.shared  # fixtures

NARROW = 375
FIGURES = {"readings", "run-length", "change", "gains", "share", "spend"}

CONTRAST = """
selectors => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = node => {
    for (; node; node = node.parentElement) {
      const found = parts(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
  };
  return selectors.map(selector => {
    const node = document.querySelector(selector);
    const [a, b] = [light(parts(getComputedStyle(node).color)), light(back(node))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
}
"""


def darken(seen: Visit) -> None:
    seen.page.emulate_media(color_scheme="dark")
    until(seen, "getComputedStyle(document.body).backgroundColor", "rgb(17, 21, 27)")


def steps_of(client: httpx.Client, stream: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.get(f"/streams/{stream}/trace").text.splitlines()]


def trace_of(seen: Visit, figure: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = seen.page.evaluate(
        "([id, name]) => { const t = document.getElementById(id).data.find(t => t.name === name);"
        " return { x: t.x, y: t.y, width: t.width }; }",
        [figure, name],
    )
    return found


def shown_number(seen: Visit, value: float) -> str:
    """As the page writes numbers below 1000."""
    text: str = seen.page.evaluate("v => v.toLocaleString('en', { maximumSignificantDigits: 4 })", value)
    return text


def test_the_next_reading_is_explained(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = opened(visit, shared, "boiler")
    costs = {"imu": 1.0, "gps": 40.0}
    for more in (0, 1):
        tell(shared, {"boiler": 0}, more)
        stream = shared.get("/streams/boiler").json()
        choice, tick = stream["next"], stream["tick"]
        start = f"Tick {tick} reads {choice['fidelity']}: its expected gain is"
        seen.page.wait_for_selector(f"#next-text:has-text('{start}')")
    nets = {name: choice["gains"][name] - choice["price"] * costs[name] for name in costs}
    assert max(nets, key=nets.__getitem__) == choice["fidelity"]
    for name in costs:
        row = seen.page.locator(f"#next tbody tr:has(th:has-text('{name}'))")
        values = (costs[name], choice["gains"][name], choice["price"] * costs[name], nets[name])
        assert row.locator("td").all_inner_texts() == [shown_number(seen, value) for value in values]
        assert ("next" in row.inner_text()) == (name == choice["fidelity"])
    assert shown_number(seen, nets[choice["fidelity"]]) in seen.page.locator("#next-text").inner_text()

    test_page.drawn(seen, tick - 1)
    steps = [*steps_of(shared, "boiler"), choice | {"tick": tick}]
    until(seen, "document.getElementById('gains').data[0].x.at(-1)", tick)
    for name, cost in costs.items():
        gain, least = trace_of(seen, "gains", f"gain of {name}"), trace_of(seen, "gains", f"price × cost of {name}")
        assert gain["x"] == least["x"] == [step["tick"] for step in steps]
        assert gain["y"] == [step["gains"][name] for step in steps]
        assert least["y"] == pytest.approx([step["price"] * cost for step in steps])
    read = [step["fidelity"] for step in steps[:-1]]
    gps, imu = trace_of(seen, "share", "gps"), trace_of(seen, "share", "imu")
    assert [a + b for a, b in zip(gps["y"], imu["y"], strict=True)] == pytest.approx([1.0] * len(gps["y"]))
    counted = sum(share * width for share, width in zip(gps["y"], gps["width"], strict=True))
    assert counted == pytest.approx(read.count("gps"))
    clean(seen, shared)


def test_every_figure_has_a_table(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = opened(visit, shared, "pump", NARROW)
    darken(seen)
    assert set(seen.page.eval_on_selector_all(".figure", "all => all.map(one => one.id)")) == FIGURES
    tables: dict[str, list[list[str]]] = {}
    seen.page.locator("#spans input").first.focus()
    while len(tables) < len(FIGURES):  # by keyboard
        seen.page.keyboard.press("Tab")
        if seen.page.evaluate("document.activeElement.localName") != "summary":
            continue
        seen.page.keyboard.press("Enter")
        figure = seen.page.evaluate("document.activeElement.parentElement.dataset.figure")
        body = seen.page.locator(f"#{figure} + details table tbody")
        body.wait_for()
        tables[figure] = [
            row.split("\t")
            for row in body.evaluate(
                "body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent).join('\\t'))"
            )
        ]
    assert set(tables) == FIGURES
    steps = steps_of(shared, "pump")[::-1][:50]
    alarms = shared.get("/streams/pump").json()["last_alarm"]
    for figure in FIGURES - {"share"}:
        assert [row[0] for row in tables[figure]] == [str(step["tick"]) for step in steps]
    assert [row[1:3] for row in tables["readings"]] == [[s["fidelity"], shown_number(seen, s["x"])] for s in steps]
    assert [row for row in tables["readings"] if row[4]] == [
        row for row in tables["readings"] if row[0] == str(alarms["tick"])
    ]
    assert [row[1] for row in tables["run-length"]] == [str(s["run_length"]) for s in steps]
    assert [bool(row[2]) for row in tables["change"]] == [s["alarm"] for s in steps]
    assert [row[3] for row in tables["gains"]] == [shown_number(seen, s["gains"]["gps"]) for s in steps]
    assert [row[1] for row in tables["spend"]] == [shown_number(seen, s["cost"]) for s in steps]
    assert all(sum(int(part[:-2]) for part in row[1:]) in (99, 100, 101) for row in tables["share"])
    assert seen.page.evaluate("document.documentElement.scrollWidth") == NARROW
    texts = ["#next-text", "#next td", ".data summary", ".data th", ".data td", "h2", ".note", ".badge"]
    assert min(seen.page.evaluate(CONTRAST, texts)) >= 4.5
    clean(seen, shared)


def test_an_alarm_is_acknowledged_by_keyboard(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    test_page.make(shared, "noted", "Noted")
    tell(shared, {"noted": 0}, 45)
    tick = shared.get("/streams/noted").json()["last_alarm"]["tick"]
    seen = opened(visit, shared, "noted", NARROW)
    darken(seen)
    press, focused = seen.page.keyboard.press, "document.activeElement.dataset.tick ?? document.activeElement.id"
    button = f"button[data-tick='{tick}']"
    seen.page.wait_for_selector(button)
    seen.page.locator("#spans input").first.focus()
    while seen.page.evaluate(focused) != str(tick):
        press("Tab")
    press("Enter")
    assert seen.page.evaluate(focused) == "note-text"
    seen.page.keyboard.type("never sent")
    press("Escape")
    until(seen, focused, str(tick))
    assert shared.get("/streams/noted/notes").json() == {"notes": []}

    # first a refusal, then a response that is lost after the note was stored: the same note is sent again
    answers = iter(["refused", "lost"])
    sent: list[str] = []

    def between(route: Any) -> None:
        sent.append(route.request.url)
        fate = next(answers, "")
        if fate == "refused":
            route.fulfill(status=403, json={"error": "token 'page' may only read", "expected": None})
        elif fate == "lost":
            assert route.fetch().status == 201
            route.abort()
        else:
            route.continue_()

    seen.page.route("**/streams/noted/notes/*", between)
    press("Enter")
    seen.page.keyboard.type("Pump <b>7</b> was serviced")
    press("Tab")
    seen.page.keyboard.type("Ann")
    for error in ("token 'page' may only read", "Failed to fetch"):
        press("Enter")
        seen.page.wait_for_selector(f'#note-error:has-text("{error}")')
    texts = ["#note-title", "#note-text", "#note-error", "#note-save", "#note-cancel", "dialog label"]
    assert min(seen.page.evaluate(CONTRAST, texts)) >= 4.5
    assert seen.page.locator("#note").bounding_box()["width"] < NARROW
    press("Enter")
    seen.page.wait_for_selector("#note-status:has-text('The alarm is acknowledged.')")
    assert len(set(sent)) == 1
    (note,) = shared.get("/streams/noted/notes").json()["notes"]
    wanted = {
        "acknowledged": True,
        "tick": tick,
        "author": "Ann",
        "text": "Pump <b>7</b> was serviced",
        "token": None,
    }
    assert {name: note[name] for name in wanted} == wanted
    until(seen, focused, str(tick))
    cell = seen.page.locator("#alarms tbody td").last
    assert "Pump <b>7</b> was serviced acknowledged by Ann, just now" in " ".join(cell.inner_text().split())
    assert cell.locator("b").count() == 0
    assert seen.page.locator("#facts .badge").inner_text() == "acknowledged"
    press("Enter")  # the button now adds comments
    assert not seen.page.locator("#note-comment").is_visible()
    press("Tab")
    press("Enter")
    seen.page.wait_for_selector("#note-error:has-text('A comment needs a text')")
    seen.page.fill("#note-text", "and tested")
    seen.page.locator("#note-save").click()
    until(seen, "document.querySelectorAll('.notes li').length", 2)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == NARROW

    overview = listed(visit, shared)
    assert overview.page.locator("tr[data-id=noted] .badge").inner_text() == "acknowledged"
    assert shared.delete("/streams/noted").status_code == 204


def test_groups_and_sparklines(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = listed(visit, shared, NARROW)
    darken(seen)
    for more in (0, 5):
        tell(shared, {"tile": 0}, more)
        group = shared.get("/groups/roof").json()
        price = shown_number(seen, group["price"])
        until(seen, "document.querySelector('[data-title=Price]').textContent", price)
    tile = shared.get("/streams/tile").json()
    part = round(100 * tile["spent"] / (group["budget"] * tile["tick"]))
    cells = seen.page.locator("#groups tbody td").all_text_contents()
    assert cells[:2] == ["Roof", "1"]
    assert cells[3] == shown_number(seen, group["budget"])
    assert f"{part}\N{NO-BREAK SPACE}%" in cells[4]

    means = [step["mean"] for step in steps_of(shared, "tile")]
    count = "document.querySelector('tr[data-id=tile] polyline').points.length"
    until(seen, count, len(means))
    line = seen.page.evaluate(
        "[...document.querySelector('tr[data-id=tile] polyline').points].map(point => [point.x, point.y])"
    )
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    low, high = min(means), max(means)
    assert [y for _, y in line] == pytest.approx([24 - 22 * (m - low) / (high - low) for m in means], abs=0.06)
    label = seen.page.locator("tr[data-id=tile] svg").get_attribute("aria-label")
    assert f"from {shown_number(seen, low)} to {shown_number(seen, high)}, no change" in label
    assert seen.page.locator("tr[data-id=pump] .spark-change").count() == 1
    assert seen.page.locator("tr[data-id=camera] svg").count() == 0  # never read

    everything = ids(seen)
    button = seen.page.get_by_role("button", name="Roof")
    button.focus()
    seen.page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    shows(seen, "tile")
    assert seen.page.evaluate("document.activeElement.dataset.group") == "roof"
    seen.page.keyboard.press("Enter")
    shows(seen, *everything)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == NARROW
    assert min(seen.page.evaluate(CONTRAST, ["#groups button", "#groups td", ".trend span", ".badge"])) >= 4.5
    clean(seen, shared)

    stream = opened(visit, shared, "tile")
    note = stream.page.locator("#spend-note").inner_text()
    assert f"group Roof may spend {shown_number(stream, group['budget'])} per round of 1 reading on average" in note
    assert points(stream, "gains", "gain of gps")[-1] == tile["tick"]
