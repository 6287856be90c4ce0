"""The live page in a real browser, against a real service."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from mfbocd.service import manage
from mfbocd.service.auth import add_token
from mfbocd.service.engine import Engine
from mfbocd.service.store.sqlite import SqliteStore

from ..parts import PATIENCE
from . import browser as chromium
from .browser import Visit
from .service import CONFIG, free_port, reading, serving

pytestmark = pytest.mark.slow

browser, visit = chromium.browser, chromium.visit  # fixtures

EVIL = "<img src=x onerror='window.hurt=1'><script>window.hurt=2</script>\"><b>bold</b>&amp;"
LIVE = "#connection[data-state=live]"


def tell(client: httpx.Client, streams: dict[str, int], ticks: int, headers: dict[str, str] | None = None) -> None:
    """Observe streams, each as the one of this number in `reading`."""
    for _ in range(ticks):
        chosen = client.post("/choose", json={"streams": list(streams)}, headers=headers).json()["results"]
        observations = [
            {
                **{name: choice[name] for name in ("stream", "tick", "fidelity")},
                "x": reading(streams[choice["stream"]], choice["tick"], choice["fidelity"]),
            }
            for choice in chosen
        ]
        answer = client.post("/observe", json={"observations": observations}, headers=headers)
        assert all(result["status"] == 200 for result in answer.json()["results"])


def make(client: httpx.Client, stream: str, name: str | None = None, **given: Any) -> None:
    body = {"id": stream, "name": name, **({} if "group" in given else {"config": CONFIG}), **given}
    assert client.post("/streams", json=body).status_code == 201


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Streams that are quiet, in alarm, of a group, never read, and one with a vile name."""
    with serving(tmp_path_factory.mktemp("page") / "mfbocd.db") as client:
        make(client, "pump", "Pump 7")
        make(client, "boiler", "Boiler")
        make(client, "evil", EVIL)
        make(client, "camera", "Camera")
        assert client.post("/groups", json={"id": "roof", "name": "Roof", "config": CONFIG}).status_code == 201
        make(client, "tile", "Tile", group="roof")
        tell(client, {"pump": 0}, 60)
        tell(client, {"boiler": 0, "evil": 1, "tile": 0}, 10)
        yield client


def ids(seen: Visit) -> list[str]:
    found: list[str] = seen.page.eval_on_selector_all("#streams tbody tr", "rows => rows.map(row => row.dataset.id)")
    return found


def shows(seen: Visit, *streams: str) -> None:
    """Wait until the list shows these streams in this order."""
    until(seen, "[...document.querySelectorAll('#streams tbody tr')].map(row => row.dataset.id)", list(streams))


def listed(visit: Callable[..., Visit], client: httpx.Client, width: int = 1200) -> Visit:
    seen = visit(str(client.base_url), width)
    seen.page.wait_for_selector("#streams tbody tr")
    seen.page.wait_for_selector(LIVE)
    return seen


def opened(visit: Callable[..., Visit], client: httpx.Client, stream: str, width: int = 1200) -> Visit:
    seen = visit(f"{client.base_url}/#/streams/{stream}", width)
    drawn(seen, client.get(f"/streams/{stream}").json()["tick"] - 1)
    return seen


def drawn(seen: Visit, tick: int) -> None:
    """Wait until every figure shows a tick."""
    last = f"[data-drawn='{tick}']" if tick >= 0 else "[data-drawn=none]"
    for figure in ("readings", "run-length", "change", "spend"):
        seen.page.wait_for_selector(f"#{figure}{last}")


def until(seen: Visit, script: str, wanted: Any) -> None:
    """Wait for a value; Playwright's own way to do so needs `eval`, which the policy refuses."""
    for _ in range(int(PATIENCE / 0.05)):
        found = seen.page.evaluate(script)
        if found == wanted:
            return
        seen.page.wait_for_timeout(50)
    assert found == wanted


def points(seen: Visit, figure: str, *names: str) -> list[float]:
    """Ticks of the traces of these names, in order."""
    found = seen.page.evaluate(
        "([id, names]) => document.getElementById(id).data.filter(t => names.includes(t.name)).flatMap(t => t.x)",
        [figure, list(names)],
    )
    return sorted(found)


def clean(seen: Visit, client: httpx.Client) -> None:
    """Nothing went wrong and nobody else was asked."""
    assert seen.said == []
    assert seen.asked
    assert [url for url in seen.asked if not url.startswith((f"{client.base_url}", "data:"))] == []


def test_alarms_come_first(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = listed(visit, shared)
    assert ids(seen) == ["pump", "evil", "boiler", "tile", "camera"]
    row = seen.page.locator("tr[data-id=pump]")
    stream = shared.get("/streams/pump").json()
    text = row.inner_text()
    for part in ("Pump 7", "alarm", f"tick {stream['last_alarm']['changed_at']}", "60", f"{stream['spent']:,.0f}"):
        assert part in text
    assert f"{stream['spent'] / (60 * stream['budget']):.0%}".replace("%", "\N{NO-BREAK SPACE}%") in text
    states = seen.page.eval_on_selector_all(".badge", "all => all.map(one => one.textContent)")
    assert states == ["alarm", "quiet", "quiet", "quiet", "never read"]
    assert "of group Roof" in seen.page.locator("tr[data-id=tile]").inner_text()
    seen.page.wait_for_function("document.title == '(1) mfbocd'")
    clean(seen, shared)


def test_sorting_says_what_it_did(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = listed(visit, shared)
    names = seen.page.get_by_role("columnheader", name="Stream")
    names.get_by_role("button").click()
    assert names.get_attribute("aria-sort") == "ascending"
    shows(seen, "evil", "boiler", "camera", "pump", "tile")
    names.get_by_role("button").click()
    assert names.get_attribute("aria-sort") == "descending"
    shows(seen, "tile", "pump", "camera", "boiler", "evil")
    seen.page.get_by_role("columnheader", name="Tick").get_by_role("button").click()
    assert names.get_attribute("aria-sort") == "none"
    shows(seen, "pump", "evil", "boiler", "tile", "camera")
    clean(seen, shared)


def test_a_vile_name_is_only_text(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    make(shared, "worse", EVIL)
    tell(shared, {"worse": 1}, 10)
    seen = listed(visit, shared)
    dialogs: list[str] = []
    seen.page.on("dialog", lambda asked: (dialogs.append(asked.message), asked.dismiss()))
    assert seen.page.locator("tr[data-id=worse] a").inner_text() == EVIL
    seen.page.locator("tr[data-id=worse] a").click()
    drawn(seen, 9)
    assert seen.page.locator("#name").inner_text() == EVIL
    tell(shared, {"worse": 1}, 40)  # its name is announced as well
    seen.page.wait_for_selector("#announced:visible")
    assert EVIL in seen.page.locator("#announced").inner_text()
    seen.page.wait_for_function("start => document.title.startsWith(start)", arg=f"(1) {EVIL}")
    assert seen.page.locator("main img, main script, main b, #announced img, #announced b").count() == 0
    assert seen.page.evaluate("window.hurt") is None
    assert dialogs == []
    clean(seen, shared)
    assert shared.delete("/streams/worse").status_code == 204


def test_a_vile_fidelity_is_only_text_in_a_figure(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    name = "<a href='javascript:window.hurt=3'>x</a>"
    config = {"model": {"kind": "bernoulli"}, "fidelity": [{"name": name, "zeta": 1, "cost": 1}]}
    make(shared, "vile", config=config)
    shared.post("/streams/vile/observe", json={"tick": 0, "fidelity": name, "x": 1})
    seen = opened(visit, shared, "vile")
    assert name in seen.page.locator("#readings .legend").text_content()
    assert seen.page.locator("#readings a").count() == 0
    clean(seen, shared)
    assert shared.delete("/streams/vile").status_code == 204


def test_the_policy_has_no_exceptions(shared: httpx.Client) -> None:
    answer = shared.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    rules = dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    for name in ("page.js", "page.css", "icon.svg", "plotly.min.js"):
        assert shared.get(f"/static/{name}").status_code == 200
    assert shared.get("/static/app.py").status_code == 404
    assert shared.get("/static/..%2fapp.py").status_code == 404


def test_points_and_an_alarm_appear_live(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    make(shared, "live", "Live one")
    tell(shared, {"live": 0}, 39)
    seen = opened(visit, shared, "live")
    assert points(seen, "readings", "imu", "gps") == list(range(39))
    assert points(seen, "readings", "change found") == []
    assert seen.page.locator("#no-alarms").is_visible()
    assert not seen.page.locator("#announced").is_visible()
    tell(shared, {"live": 0}, 5)
    drawn(seen, 43)
    steps = [json.loads(line) for line in shared.get("/streams/live/trace").text.splitlines()]
    (alarm,) = [step for step in steps if step["alarm"]]
    for name in ("imu", "gps"):
        assert points(seen, "readings", name) == [step["tick"] for step in steps if step["fidelity"] == name]
    assert points(seen, "change", "P(recent change)") == list(range(44))
    assert points(seen, "change", "alarm") == [alarm["tick"]]
    found = seen.page.evaluate("document.getElementById('readings').data.find(t => t.name === 'change found').x")
    assert found[:2] == [alarm["changed_at"]] * 2
    announced = seen.page.locator("#announced")
    assert f"Live one changed at tick {alarm['changed_at']}" in announced.inner_text()
    assert announced.get_attribute("role") == "alert"
    (change,) = shared.get("/streams/live/changes").json()["changes"]
    seen.page.wait_for_selector("#last-change:not([hidden])")
    assert seen.page.locator("#last-change").inner_text() == f"Last change: {change['text']}."
    (row,) = seen.page.locator("#alarms tbody tr").all()
    assert f"tick {alarm['changed_at']}" in row.inner_text()
    for which in ("before", "after"):
        shown = "v => [v.mean, v.low, v.high].map(x => x.toLocaleString('en', { maximumSignificantDigits: 4 }))"
        mean, low, high = seen.page.evaluate(shown, change[which])
        assert f"{mean} {low} to {high}" in row.inner_text().replace("\n", " ").replace("\t", " ").replace("  ", " ")
    spent = seen.page.evaluate("document.getElementById('spend').data.map(t => t.y.at(-1))")
    stream = shared.get("/streams/live").json()
    assert spent == pytest.approx([stream["spent"], 44 * stream["budget"]])
    clean(seen, shared)
    assert shared.delete("/streams/live").status_code == 204


def test_the_heat_map_is_the_posterior(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = opened(visit, shared, "pump")
    heat = seen.page.evaluate(
        "(() => { const t = document.getElementById('run-length').data[0]; return [t.x, t.y, t.z]; })()"
    )
    steps = [json.loads(line) for line in shared.get("/streams/pump/trace").text.splitlines()]
    assert heat[0] == list(range(60))
    for i, step in enumerate(steps):
        likely = {round(heat[1][j]): 10 ** row[i] for j, row in enumerate(heat[2]) if row[i] is not None}
        assert likely == pytest.approx({length: weight for length, weight in step["posterior"]})
    clean(seen, shared)


def test_the_list_is_live(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = listed(visit, shared)
    make(shared, "new", "Newcomer")
    tell(shared, {"new": 0}, 1)
    seen.page.wait_for_selector("tr[data-id=new]")
    tell(shared, {"new": 0}, 44)
    seen.page.wait_for_selector("tr[data-id=new][data-state=alarm]")
    assert "Newcomer changed at tick" in seen.page.locator("#announced").inner_text()
    seen.page.wait_for_selector("#streams tbody tr:first-child[data-id=new]")
    assert shared.delete("/streams/new").status_code == 204
    seen.page.wait_for_selector("tr[data-id=new]", state="detached")
    clean(seen, shared)


def test_back_and_forward(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = listed(visit, shared)
    seen.page.locator("tr[data-id=pump] a").click()
    drawn(seen, 59)
    assert seen.page.evaluate("document.activeElement.id") == "name"
    seen.page.go_back()
    seen.page.wait_for_selector("#streams tbody tr")
    seen.page.go_forward()
    drawn(seen, 59)
    seen.page.goto(f"{shared.base_url}/#/streams/nobody")
    seen.page.wait_for_selector("h1:has-text('There is no such stream')")


def test_by_keyboard_alone(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = listed(visit, shared)
    press = seen.page.keyboard.press
    press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    press("Enter")
    assert seen.page.evaluate("document.activeElement.id") == "main"
    press("/")
    assert seen.page.evaluate("document.activeElement.id") == "search"
    seen.page.keyboard.type("o")
    assert seen.page.locator("#search").input_value() == "o"  # and no slash
    shows(seen, "evil", "boiler")
    press("ArrowDown")
    press("ArrowDown")
    assert seen.page.evaluate("document.activeElement.closest('tr').rowIndex") == 2
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert seen.page.evaluate(outline) == "solid"
    press("ArrowUp")
    press("ArrowUp")
    assert seen.page.evaluate("document.activeElement.id") == "search"
    seen.page.keyboard.press("Control+a")
    seen.page.keyboard.type("boil")
    shows(seen, "boiler")
    press("ArrowDown")
    press("Enter")
    drawn(seen, 9)
    reached = set()
    for _ in range(12):
        press("Tab")
        reached.add(seen.page.evaluate("document.activeElement.dataset.format ?? document.activeElement.name"))
    assert {"span", "csv", "jsonl", "parquet"} <= reached
    clean(seen, shared)


def test_downloads(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    seen = opened(visit, shared, "pump")
    with seen.page.expect_download() as found:
        seen.page.get_by_role("link", name="CSV").click()
    assert found.value.suggested_filename == "pump.csv"
    rows = list(csv.DictReader(Path(found.value.path()).read_text().splitlines()))
    assert [int(row["tick"]) for row in rows] == list(range(60))


@pytest.mark.parametrize("width", [375, 1200])
def test_nothing_is_wider_than_the_window(shared: httpx.Client, visit: Callable[..., Visit], width: int) -> None:
    wide = "document.documentElement.scrollWidth"
    seen = listed(visit, shared, width)
    assert seen.page.evaluate(wide) == width
    seen.page.goto(f"{shared.base_url}/#/streams/pump")
    drawn(seen, 59)
    assert seen.page.evaluate(wide) == width
    for figure in seen.page.locator(".figure .main-svg:first-child").all():
        assert width * 0.75 < figure.bounding_box()["width"] < width
    clean(seen, shared)


def test_readings_of_several_numbers_and_none(shared: httpx.Client, visit: Callable[..., Visit]) -> None:
    model = {"kind": "multivariate_gaussian", "mean": [0, 5], "var": 4, "noise_var": 1}
    made = shared.post("/streams", json={"id": "pair", "config": {"model": model}})
    assert made.status_code == 201, made.text
    for tick, x in enumerate([[0.5, 5.5], None, [1.0, 6.0]]):
        observation = {"tick": tick, "fidelity": "full", "x": x}
        assert shared.post("/streams/pair/observe", json=observation).status_code == 200
    seen = opened(visit, shared, "pair")
    shown = "document.getElementById('readings').data.find(t => t.name === 'full').y"
    assert seen.page.evaluate(shown) == [0.5, 1.0]
    assert points(seen, "readings", "no reading") == [1]
    seen.page.select_option("#part", "1")
    until(seen, shown, [5.5, 6.0])
    clean(seen, shared)
    assert shared.delete("/streams/pair").status_code == 204


def test_a_token_is_requested_and_stored_in_the_tab(tmp_path: Path, visit: Callable[..., Visit]) -> None:
    path = tmp_path / "mfbocd.db"
    store = SqliteStore(path, exclusive=True)
    secrets = [add_token(store, "page", "read"), add_token(store, "device", "write")]
    store.close()
    headers = {"Authorization": f"Bearer {secrets[1]}"}
    with serving(path, tokens=True) as client:
        client.post("/streams", json={"id": "a", "config": CONFIG}, headers=headers)
        tell(client, {"a": 0}, 3, headers)
        seen = visit(str(client.base_url))
        seen.page.wait_for_selector("#token")
        seen.page.fill("#token", "mfb_wrong")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector("text=not valid")
        seen.page.fill("#token", secrets[0])
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector("tr[data-id=a]")
        seen.page.reload()
        seen.page.locator("tr[data-id=a] a").click()
        drawn(seen, 2)
        tell(client, {"a": 0}, 1, headers)
        drawn(seen, 3)
        with seen.page.expect_download() as found:
            seen.page.get_by_role("link", name="JSON Lines").click()
        assert len(Path(found.value.path()).read_text().splitlines()) == 4
        assert seen.page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        assert not [url for url in seen.asked if secrets[0] in url]


def test_a_thousand_streams(tmp_path: Path, visit: Callable[..., Visit]) -> None:
    store = SqliteStore(tmp_path / "mfbocd.db")
    facts: dict[str, Any] = {"group": None, "observers": {}, "available": {}, "max_streams": 1003}
    single = {"model": {"kind": "bernoulli"}}
    for i in range(1003):
        name = f"Sensor {i} of the field"
        manage.add_stream(Engine(store), stream=f"s{i:04}", name=name, config=single, **facts)
    store.close()
    with serving(tmp_path / "mfbocd.db") as client:
        observations = [{"stream": f"s{i:04}", "tick": 0, "fidelity": "full", "x": i % 2} for i in range(1000)]
        client.post("/observe", json={"observations": observations})
        seen = listed(visit, client)
        totals = seen.page.locator("#totals").inner_text()
        assert [word for word in totals.split() if word[0].isdigit()] == ["1,003", "0", "3", "1,000"]
        assert len(ids(seen)) == 50
        place = "document.getElementById('place').textContent"
        until(seen, place, "1 to 50 of 1003")
        seen.page.get_by_role("button", name="Next").click()
        until(seen, place, "51 to 100 of 1003")
        seen.page.fill("#search", "sensor 777 ")
        shows(seen, "s0777")
        assert seen.page.locator("#count").inner_text() == "1 of 1003"
        for tick in range(1, 4):
            client.post("/observe", json={"observations": [one | {"tick": tick} for one in observations]})
        until(seen, "document.querySelector('tr[data-id=s0777] [data-column=tick]').textContent", "4")
        until(seen, "document.querySelector('#totals [data-state=spent] dd').textContent", "4,000")
        seen.page.fill("#search", "")
        name = seen.page.get_by_role("columnheader", name="Stream").get_by_role("button")
        name.click()
        by_name = sorted(range(1003), key=lambda i: f"sensor {i} of")
        shows(seen, *(f"s{i:04}" for i in by_name[:50]))
        mean = seen.page.get_by_role("columnheader", name="Mean").get_by_role("button")
        mean.click()
        shows(seen, *[f"s{i:04}" for i in by_name if i % 2 and i < 1000][:50])
        mean.click()
        shows(seen, *[f"s{i:04}" for i in by_name if i % 2 == 0 and i < 1000][:50])
        watching = [url for url in seen.asked if "/events" in url]
        assert watching == [f"{client.base_url}/events"]
        lists = [url for url in seen.asked if "/streams?" in url]
        assert {parse_qs(urlsplit(url).query)["limit"][0] for url in lists} == {"50"}  # never more than it shows
        clean(seen, client)


@contextmanager
def process(db: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`mfbocd serve`, as an operator starts it; killed at the end, if it has not been."""
    command = [sys.executable, "-m", "mfbocd.cli", "serve", "-q", "--db", str(db), "--port", str(port)]
    with subprocess.Popen(command) as served:
        try:
            deadline = time.monotonic() + PATIENCE
            with httpx.Client() as client:  # one: a new one reads the certificates of all authorities
                while True:
                    try:
                        client.get(f"http://127.0.0.1:{port}/healthz").raise_for_status()
                        break
                    except httpx.TransportError:
                        assert served.poll() is None, "the service ended before it began"
                        assert time.monotonic() < deadline, "the service did not begin"
                        time.sleep(0.1)
            yield served
        finally:
            served.send_signal(signal.SIGKILL)


def test_it_reconnects_after_the_service_was_killed(tmp_path: Path, visit: Callable[..., Visit]) -> None:
    db, port = tmp_path / "mfbocd.db", free_port()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
        with process(db, port):
            make(client, "a")
            make(client, "b")
            tell(client, {"a": 0, "b": 0}, 30)
            stream, overview = opened(visit, client, "a"), listed(visit, client)
        for seen in (stream, overview):
            seen.page.wait_for_selector("#connection[data-state=reconnecting]")
            assert "reconnecting" in seen.page.locator("#connection").inner_text()
        # Nobody can get through while this happens: the page has to catch up with it.
        meanwhile = free_port()
        with (
            httpx.Client(base_url=f"http://127.0.0.1:{meanwhile}", timeout=PATIENCE) as hidden,
            process(db, meanwhile),
        ):
            tell(hidden, {"a": 0, "b": 0}, 20)
            alarm = hidden.get("/streams/a").json()["last_alarm"]["tick"]
            note = hidden.put("/streams/a/notes/n", json={"tick": alarm, "acknowledged": True})
            assert note.status_code == 201
        with process(db, port):
            for seen in (stream, overview):
                seen.page.wait_for_selector(LIVE)
            drawn(stream, 49)
            assert points(stream, "readings", "imu", "gps") == list(range(50))  # no gap, nothing twice
            assert stream.page.locator("#alarms tbody tr").count() == 1
            assert "a changed at tick" in stream.page.locator("#announced").inner_text()
            overview.page.wait_for_selector("tr[data-id=b][data-state=alarm]")
            overview.page.wait_for_selector("tr[data-id=a][data-state=acknowledged]")
            assert client.get("/streams/a/notes").json() == {"notes": [note.json()]}
            tell(client, {"a": 0}, 1)
            drawn(stream, 50)
            assert points(stream, "change", "P(recent change)") == list(range(51))
            after = [url for url in stream.asked if "/events" in url]
            assert len(after) >= 2
