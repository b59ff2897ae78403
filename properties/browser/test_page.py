"""A timeline in a browser: drawn, hovered over, clicked, searched, and all of it offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import squall
from squall.model.events.run import Violation
from squall.properties.browser.conftest import HEIGHT, WIDTH, Page
from squall.properties.support.paths import ROOT
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.properties.support.timeline_runs import confirmation, hanging, large, training
from squall.sim import pictures
from squall.sim.pictures.odds import Odds, Point
from squall.sim.pictures.palette import DARK, PAPER
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import Settings, draw

pytestmark = pytest.mark.sampled(6, of="pages in a browser")

VIEWS = ("space_time", "calls", "work", "graph", "rrefs", "contexts", "futures", "waits")
Visit = Callable[..., Page]


@cache
def step() -> str:
    return pictures.page(training(latency="lognormal:0.002:0.4"))


# -- every view -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["training", "confirmation", "hanging", "storm", "nothing"])
def test_every_view_is_drawn_without_complaints(visit: Visit, which: str) -> None:
    runs = {
        "training": lambda: training(steps=2),
        "confirmation": confirmation,
        "hanging": hanging,
        "storm": lambda: pictures.recording(replay(draw(5, Settings("storm")))),
        "nothing": lambda: pictures.recording([]),
    }
    page = visit(pictures.page(runs[which]()))
    for view in VIEWS:
        if view != "space_time":
            page.open(view)
        assert page.js("return document.querySelectorAll('#figure .main-svg').length") >= 1
        for clock in ("order", "time"):
            button = page.browser.find_element(By.CSS_SELECTOR, f'[data-clock="{clock}"]')
            if button.is_enabled():
                drawn = page.js("return squall.drawn")
                button.click()
                page.settle(drawn, view)
    assert page.errors() == []


def emulate(page: Page, width: int, height: int, scheme: str) -> None:
    """Another window, and what its owner wants pages to look like."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture
def emulated(browser: Chrome) -> Iterator[Callable[..., None]]:
    page = Page(browser)
    yield lambda *how: emulate(page, *how)
    emulate(page, WIDTH, HEIGHT, "light")


def test_pictures_are_dark_on_a_dark_page_and_follow_it(
    visit: Visit, emulated: Callable[..., None]
) -> None:
    emulated(WIDTH, HEIGHT, "dark")
    page = visit(step())
    paper = "document.getElementById('figure')._fullLayout.paper_bgcolor"
    assert page.js(f"return {paper}") == DARK[PAPER]
    behind = page.js("return getComputedStyle(document.documentElement).backgroundColor")
    assert behind == "rgb({}, {}, {})".format(*bytes.fromhex(DARK[PAPER][1:]))
    emulated(WIDTH, HEIGHT, "light")
    page.wait(f"{paper} === '{PAPER}'")


def test_no_view_is_wider_than_a_phone(visit: Visit, emulated: Callable[..., None]) -> None:
    emulated(390, 844, "light")
    page = visit(step())
    for view in VIEWS:
        if view != "space_time":
            page.open(view)
        assert page.js("return document.documentElement.scrollWidth") <= 390, view


NAMES = """
    const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
    const room = box(document.querySelector('#figure .nsewdrag'));
    const labels = [...document.querySelectorAll('#figure text.label')];
    return [room, labels.filter(e => e.style.visibility === 'visible').map(box), labels.length];
"""


@pytest.mark.parametrize("width", [390, WIDTH])
def test_names_of_arrows_do_not_lie_over_each_other(
    visit: Visit, emulated: Callable[..., None], width: int
) -> None:
    emulated(width, HEIGHT, "light")
    page = visit(pictures.page(training(steps=4, latency="lognormal:0.002:0.4")))
    room, seen, every = page.js(NAMES)
    assert 1 < len(seen) < every
    for n, one in enumerate(seen):
        assert one[0] >= room[0] and one[2] <= room[2] + 1
        for other in seen[:n]:
            apart = one[2] <= other[0] or other[2] <= one[0]
            assert apart or one[3] <= other[1] + 2 or other[3] <= one[1] + 2
    assert page.errors() == []


def test_marks_are_where_the_clock_says(visit: Visit) -> None:
    run = training(latency="lognormal:0.002:0.4")
    page = visit(step())
    heads = "document.getElementById('figure').data.filter(t => t.mode === 'markers' && t.meta.events && t.legendgroup === 'gradient')[0]"  # fmt: skip
    arrived = [f.arrived for f in pictures.flows_of(run) if f.kind.name == "gradient"]
    assert page.js(f"return Array.from({heads}.x)") == pytest.approx(
        [run.time_s(n) for n in arrived]
    )
    page.browser.find_element(By.CSS_SELECTOR, '[data-clock="order"]').click()
    page.wait(
        "squall.clock === 'order' && document.getElementById('figure').dataset.state === 'drawn'"
    )
    assert page.js(f"return Array.from({heads}.x)") == arrived


def test_the_odds_of_a_failure_follow_the_clock(visit: Visit) -> None:
    run = training(latency="lognormal:0.002:0.4")
    half = len(run) // 2
    points = [Point(0, 2, 8), Point(half, 7, 8), Point(len(run), 8, 8)]
    page = visit(pictures.page(run, found=Odds(run, ("rrefs", "a leak"), points)))
    page.open("odds")
    times = [run.time_s(0), run.time_s(half), run.time_s(run.last)]
    data = "document.getElementById('figure').data"
    band, line = (page.js(f"return Array.from({data}[{n}].x)") for n in (0, 1))
    assert line == pytest.approx(times)
    assert band == pytest.approx([*times, *reversed(times)])
    (jump,) = page.js("return document.getElementById('figure').layout.shapes")
    assert (jump["x0"], jump["x1"]) == pytest.approx((times[0], times[1]))
    assert "rises most" in page.browser.find_element(By.ID, "notes").text
    assert page.errors() == []


def test_nothing_is_asked_for_from_anywhere(visit: Visit) -> None:
    page = visit(step())
    for view in VIEWS[1:]:
        page.open(view)
    names = page.js("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in names if not name.startswith(("data:", "blob:", "file:"))] == []
    # That such a request would have been seen: here is one.
    page.js(
        "const i = new Image(); i.onerror = () => { window.failed = true; }; i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i)"
    )
    page.wait("window.failed")
    names = page.js("return performance.getEntriesByType('resource').map(e => e.name)")
    assert "http://127.0.0.1:9/x.png" in names


FAILING = """
    import os
    import torch.distributed.rpc as rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    for step in range(9 * (1 - rank)):
        seen = rpc.rpc_sync("w1", abs, args=(step,))
        assert seen < 5, f"too many: {seen}"
    rpc.shutdown()
"""


def test_a_page_opens_on_the_failure(visit: Visit, tmp_path: Path) -> None:
    failed = pictures.recording(run_file(write(tmp_path, FAILING), workers=2, stderr=StringIO()))
    page = visit(pictures.page(failed))
    assert page.js("return [squall.view, squall.chosen]") == ["space_time", failed.failure]
    shown = page.browser.find_element(By.ID, "chosen").text
    assert f"#{failed.failure} " in shown and "w0 raised AssertionError: too many: 5" in shown
    assert "assert seen < 5" in page.browser.find_element(By.CSS_SELECTOR, ".violations pre").text
    assert visit(pictures.page(hanging())).js("return squall.view") == "waits"
    stuck = pictures.recording(
        run_file(write(tmp_path, "import threading\nthreading.Event().wait()\n"), workers=2)
    )
    hang = stuck.run.hang()
    assert hang is not None
    for opened in (visit(pictures.page(failed)), visit(pictures.page(stuck))):
        rows = opened.browser.find_element(By.ID, "rows").rect
        assert rows["y"] + rows["height"] / 2 <= opened.js("return window.innerHeight")
    assert page.js("return squall.view") == "waits"
    assert page.js("return document.querySelector('header').innerText").count(hang.cause) == 1


def test_events_are_in_sight_below_a_view_of_many_rows(visit: Visit) -> None:
    run = squall.run(ROOT / "examples" / "pipeline.py", workers=None, seed=0, stdout=StringIO())
    page = visit(run.timeline().html)
    page.open("work")
    emulate(page, WIDTH, HEIGHT, "light")
    rows = page.browser.find_element(By.ID, "rows").rect
    assert rows["y"] + rows["height"] <= HEIGHT
    notes = page.browser.find_element(By.ID, "notes").text
    assert notes.startswith("rows 1 to 8 of ")
    named = page.js(
        "return [...document.querySelectorAll('#figure .bartext')].map(e => e.textContent)"
    )
    assert any(name.startswith("forward") for name in named), "there is room for names of functions"


@pytest.mark.parametrize("seed", [5, 12])
def test_where_faults_end_is_written_within_the_picture(visit: Visit, seed: int) -> None:
    page = visit(pictures.page(pictures.recording(replay(draw(seed, Settings("rough"))))))
    emulate(page, WIDTH, 600, "light")  # as low as a picture gets
    page.open("calls")
    page.open("space_time")
    (left, top, right, bottom), *labels = page.js(
        "const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom] };"
        "return [box(document.querySelector('#figure .nsewdrag')), ...[...document.querySelectorAll('#figure text')]"
        ".filter(e => e.textContent === 'faults healed').map(box)]"
    )
    assert labels
    for label in labels:
        assert left <= label[0] < label[2] <= right and top <= label[1] < label[3] <= bottom


# -- hovering and clicking ------------------------------------------------------------------------


def heads_of(page: Page, kind: str) -> int:
    return int(page.js("return document.getElementById('figure').data.findIndex(t => t.mode === 'markers' && t.meta && t.meta.events && t.legendgroup === arguments[0])", kind))  # fmt: skip


def test_hovering_over_a_message_tells_of_it(visit: Visit) -> None:
    page = visit(step())
    page.hover(*page.pixel(heads_of(page, "gradient"), 0))
    said = page.js("return document.querySelector('.hoverlayer').textContent")
    for words in ("message with gradients", "from", "bytes", "arrived after", "set off by"):
        assert words in said


def test_clicking_a_message_lights_up_its_past_and_future(visit: Visit) -> None:
    run = training(latency="lognormal:0.002:0.4")
    page = visit(step())
    flow = [f for f in pictures.flows_of(run) if f.kind.name == "gradient"][2]
    past, future = pictures.cone(run, flow)
    assert past and future
    page.click(*page.pixel(heads_of(page, "gradient"), 2))
    page.wait("squall.cone")
    assert page.js("return squall.cone") == {
        "message": flow.number,
        "past": len(past),
        "future": len(future),
    }
    names = page.js("return document.getElementById('figure').data.slice(-3).map(t => t.name)")
    assert names == [f"its past ({len(past)})", f"its future ({len(future)})", "the message (1)"]
    dimmed = page.js(
        "return document.getElementById('figure').data.slice(0, -3).map(t => t.opacity)"
    )
    assert max(dimmed) < 0.2
    chosen = page.browser.find_element(By.CSS_SELECTOR, "#tall .chosen-row")
    assert chosen.get_attribute("data-event") == str(flow.arrived)
    page.browser.find_element(By.ID, "clear").click()
    page.wait("squall.cone === null && squall.chosen === -1")
    opacities = page.js("return document.getElementById('figure').data.map(t => t.opacity)")
    assert min(opacities) > 0.5
    assert page.errors() == []


def test_clicking_a_bar_finds_its_event_in_the_table(visit: Visit) -> None:
    page = visit(step())
    page.open("futures")
    box = page.js(
        "const b = document.querySelector('#figure .bars .point path').getBoundingClientRect();"
        "return [b.left + b.width / 2, b.top + b.height / 2]"
    )
    page.click(*box)
    page.wait("squall.chosen >= 0")
    row = page.browser.find_element(By.CSS_SELECTOR, "#tall .chosen-row")
    assert "call started" in row.text


# -- the call tree --------------------------------------------------------------------------------


def branches(page: Page) -> list[str]:
    return [
        text.replace("▾", "").replace("▸", "").partition("\n")[0].strip()
        for text in page.js(
            "return [...document.querySelectorAll('.tall .branch .what')].map(e => e.innerText)"
        )
    ]


def test_a_call_is_seen_with_what_it_led_to(visit: Visit) -> None:
    run = training(latency="lognormal:0.002:0.4")
    page = visit(step())
    page.open("calls")
    which = page.browser.find_element(By.ID, "which")
    options = which.find_elements(By.TAG_NAME, "option")
    (call,) = [each for each in options if each.text.startswith("passed_on at 0.")]
    assert "led to" in call.text
    call.click()
    page.wait("document.querySelector('.tall .branch').textContent.includes('passed_on')")
    assert branches(page) == ["passed_on", "scaled"]
    outer, inner = page.js(
        "return [...document.querySelectorAll('.tall i:not(.handled)')].map(bar => {"
        "const {left, right} = bar.getBoundingClientRect(); return [left, right]; })"
    )
    assert outer[0] < inner[0] < inner[1] < outer[1]
    # A click on a row selects the call, as a click on its message does.
    page.browser.find_elements(By.CSS_SELECTOR, ".tall .branch")[1].click()
    page.wait("squall.chosen >= 0")
    (made,) = [c for c in pictures.calls_of(run) if run.called.function(c.worker, c.id) == "scaled"]
    assert made.request is not None
    assert page.js("return [squall.chosen, squall.message]") == [made.started, made.request.number]
    assert "scaled" in page.browser.find_element(By.CSS_SELECTOR, ".branch.chosen-row").text
    page.open("space_time")
    assert page.js("return squall.cone.message") == made.request.number
    # An event that is chosen elsewhere brings its call along.
    page.js("location.hash = '#event=' + arguments[0]", last_of_pass(run))
    page.wait("squall.chosen === arguments[0]", last_of_pass(run))
    page.open("calls")
    assert branches(page)[0] == "backward"
    page.browser.find_element(By.CSS_SELECTOR, ".branch .fold").click()
    page.wait("document.querySelectorAll('.tall .branch').length === 1")
    assert page.errors() == []


def last_of_pass(run: pictures.Recording) -> int:
    return pictures.passes(run)[0].root.ended


# -- the graph ------------------------------------------------------------------------------------


def counts(page: Page) -> list[str]:
    return list(page.js("return Array.from(document.getElementById('figure').data[2].text)"))


def colors(page: Page) -> list[str]:
    return list(
        page.js("return Array.from(document.getElementById('figure').data[2].marker.color)")
    )


def test_the_slider_changes_the_graph(visit: Visit) -> None:
    page = visit(step())
    page.open("graph")
    before, painted = counts(page), colors(page)
    assert any(before)
    rail = page.js(
        "const b = document.querySelector('#figure .slider-rail-touch-rect').getBoundingClientRect();"
        "return [b.left, b.top + b.height / 2, b.width]"
    )
    page.click(rail[0] + rail[2] / 2, rail[1], on_data=False)
    page.wait("document.getElementById('figure').layout.sliders[0].active > 0")
    page.wait("JSON.stringify(Array.from(document.getElementById('figure').data[2].text)) !== arguments[0]", _json(before))  # fmt: skip
    middle = counts(page)
    assert sum(map(bool, middle)) < sum(map(bool, before)) and any(middle)
    assert colors(page) != painted
    page.click(rail[0] + rail[2] - 1, rail[1], on_data=False)
    page.wait("Array.from(document.getElementById('figure').data[2].text).every(t => t === '')")
    assert page.errors() == []


def _json(values: list[str]) -> str:
    import json

    return json.dumps(values, separators=(",", ":"))


def test_another_pass_can_be_picked(visit: Visit) -> None:
    page = visit(pictures.page(training(steps=3)))
    page.open("graph")
    options = page.browser.find_elements(By.CSS_SELECTOR, "#which option")
    assert len(options) == 3
    drawn = page.js("return squall.drawn")
    options[2].click()
    page.settle(drawn, "graph")
    assert "pass 2 in the 3rd context of worker0" in page.browser.find_element(By.ID, "notes").text


# -- the table and the summary --------------------------------------------------------------------


def test_the_table_finds_events(visit: Visit) -> None:
    run = training(latency="lognormal:0.002:0.4")
    page = visit(step())
    box = page.browser.find_element(By.ID, "search")
    box.send_keys("worker1 NODE_executed")
    expected = [
        number for number, record in enumerate(run.records)
        if record[1] == 1 and record[3].name == "node_executed"
    ]  # fmt: skip
    page.wait(
        "document.getElementById('found').textContent.startsWith(arguments[0])",
        f"{len(expected)} of",
    )
    rows = page.browser.find_elements(By.CSS_SELECTOR, "#tall .row")
    assert [int(row.get_attribute("data-event") or -1) for row in rows] == expected[: len(rows)]
    rows[-1].click()
    page.wait("squall.chosen === arguments[0]", expected[len(rows) - 1])
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("no such thing")
    page.wait("document.getElementById('found').textContent.startsWith('0 of')")
    assert page.errors() == []


def test_a_violation_leads_to_its_event(visit: Visit) -> None:
    run = training()
    cited = len(run) - 20
    broken = pictures.recording(
        run, outcome="violated: passes",
        violations=(Violation("passes", "it ended early", "later", "now", 0, 0.1, (cited,)),),
    )  # fmt: skip
    page = visit(pictures.page(broken))
    page.browser.find_element(By.CSS_SELECTOR, ".violations a").click()
    page.wait("squall.chosen === arguments[0]", cited)
    row = page.browser.find_element(By.CSS_SELECTOR, "#tall .chosen-row")
    assert "cited" in (row.get_attribute("class") or "")
    shapes = page.js("return document.getElementById('figure').layout.shapes.slice(-1)[0].x0")
    assert shapes in (cited, run.time_s(cited))


def test_an_address_can_name_an_event(visit: Visit) -> None:
    page = visit(step(), "#event=42&from")
    assert page.js("return [squall.chosen, squall.clock]") == [42, "order"]
    assert page.js("return document.getElementById('figure').layout.xaxis.range")[0] == 32


def test_the_command_can_be_copied(visit: Visit) -> None:
    page = visit(step())
    button = page.browser.find_element(By.ID, "copy")
    button.click()
    page.wait("document.getElementById('copy').textContent === 'copied'")


# -- large runs -----------------------------------------------------------------------------------


def test_a_hundred_thousand_events_can_be_looked_at(visit: Visit) -> None:
    run = large(64, 16)
    assert len(run) >= 100_000
    page = visit(pictures.page(run))
    assert "WebGL" in page.browser.find_element(By.ID, "notes").text
    for view in VIEWS[1:]:
        page.open(view)
    page.browser.find_element(By.ID, "search").send_keys("worker63 gradient_accumulated")
    page.wait("document.getElementById('found').textContent.startsWith('16 of')")
    assert page.errors() == []
