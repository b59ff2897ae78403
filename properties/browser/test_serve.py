"""``squall serve`` in a browser, under the policy that it sends: drawn, without a complaint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from squall.model.coverage.behaviour import pairs_of
from squall.model.coverage.growth import Seen
from squall.model.coverage.history import history_of
from squall.properties.browser.conftest import HEIGHT, WIDTH, Page, chromium
from squall.properties.browser.test_page import VIEWS
from squall.sim.names import PlotlyFrom
from squall.sim.scenario import Expected, Scenario, Script
from squall.sim.scenarios.file import name_of
from squall.sim.scenarios.store import Store, StorePlace
from squall.sim.search.draw import draw
from squall.sim.serve.server import Server

pytestmark = pytest.mark.sampled(6, of="pages in a browser")


@pytest.fixture
def plotly() -> PlotlyFrom:
    return "inline"


@pytest.fixture
def server(tmp_path: Path, plotly: PlotlyFrom) -> Iterator[Server]:
    place = StorePlace(tmp_path / "store")
    for seed in (1, 2):
        Store(place).keep(draw(seed), found_by="fuzz")
    server = Server(place, 0, plotly=plotly)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def own_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One that may ask this machine for pages."""
    found = chromium(tmp_path_factory.mktemp("chromium"))
    yield found
    found.quit()


#: where the text of a cell is
_TEXT = """
const text = document.createRange();
text.selectNodeContents(document.querySelector("td." + arguments[0]));
return text.getBoundingClientRect().toJSON();
"""


_BOX = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"


def test_failures_are_blocks_on_a_phone(own_browser: Chrome, server: Server) -> None:
    place = "/home/somebody/trainings/of/a/server/that_has_a_name.py:89"
    expected = Expected(outcome="error", property="script", what="a process raised ValueError")
    script = Script(path="/tmp/train.py", text="pass")
    kept = Scenario(work=script, expected=expected)
    text = f"rank 0: ValueError: no weights at {place}"
    Store(server.library.place).keep(kept, found_by="fuzz", text=text)
    page = Page(own_browser)
    for width in (390, WIDTH):
        own_browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False},
        )
        own_browser.get(server.url)
        message, where, date = (page.js(_TEXT, name) for name in ("bad", "place", "date"))
        assert max(each["right"] for each in (message, where, date)) <= width
        assert date["height"] < 30, "it stands in one line"
        assert width > 640 or message["bottom"] <= where["top"] < where["bottom"] <= date["top"]
    assert "server/<wbr>that_has_a_name.py:89" in own_browser.page_source
    own_browser.get(f"{server.url}run/{name_of(kept)}")
    shown = own_browser.find_element(By.TAG_NAME, "body").text
    assert f"ValueError: no weights at {place}" in shown
    assert "squall why" in shown and "says what decided it" in shown


def test_where_a_campaign_has_been_is_drawn_under_the_policy(
    own_browser: Chrome, server: Server
) -> None:
    page = Page(own_browser)
    folder = server.library.place.folder / "coverage"
    folder.mkdir()
    seen = Seen()
    for number in range(30):
        seen.add(sorted(pairs_of(map(str, range(number % 9)))), ["a crash during a pass"])
    history = history_of(seen, {"a crash during a pass": 30}, {"cover": 9, "seeds": 21}, "thirty")
    (folder / "17-0123abcd.json").write_text(history.model_dump_json(), encoding="utf-8")
    own_browser.get(server.url)
    own_browser.find_element(By.LINK_TEXT, "thirty").click()
    page.wait("window.squall && squall.ready")
    assert page.js("return document.querySelectorAll('#figure .main-svg').length") >= 1
    assert page.js("return document.getElementById('figure').clientHeight") > 300
    assert page.errors() == []
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    own_browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    own_browser.refresh()
    page.wait("window.squall && squall.ready")
    title, legend, plot = (
        page.js(_BOX, name) for name in (".gtitle", ".legend", ".cartesianlayer")
    )
    wide = page.js("return document.documentElement.scrollWidth")
    phone |= {"width": WIDTH, "height": HEIGHT, "mobile": False}
    own_browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    assert (
        wide <= 390
        and title["right"] <= 390
        and "<" not in page.js("return document.querySelector('.gtitle').textContent")
    )
    assert title["bottom"] <= legend["top"] and legend["bottom"] <= plot["top"] + 1


def test_the_list_is_no_wider_than_a_phone(own_browser: Chrome, server: Server) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    own_browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    own_browser.get(server.url)
    wide = Page(own_browser).js("return document.documentElement.scrollWidth")
    metrics |= {"width": WIDTH, "height": HEIGHT, "mobile": False}
    own_browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert wide <= 390


def press(page: Page) -> None:
    page.browser.find_element(By.TAG_NAME, "button").click()


def styled(page: Page) -> bool:
    """Whether the style sheet of the page holds."""
    font: str = page.js("return getComputedStyle(document.documentElement).fontFamily")
    return font.startswith("system-ui")


@pytest.mark.parametrize("plotly", ["inline", "file"])
def test_a_run_is_drawn_under_the_policy(own_browser: Chrome, server: Server) -> None:
    page = Page(own_browser)
    name = Store(server.library.place).failures()[0].name
    own_browser.get(server.url)
    assert styled(page)
    own_browser.find_element(By.LINK_TEXT, name).click()
    page.wait("document.querySelector('button')?.textContent === 'run'")
    press(page)
    page.wait("window.squall && squall.ready")
    assert own_browser.current_url == f"{server.url}run/{name}"
    for view in VIEWS:
        if view != "space_time":
            page.open(view)
        assert page.js("return document.querySelectorAll('#figure .main-svg').length") >= 1
    page.open("space_time")
    trace = page.js(
        "return document.getElementById('figure').data.findIndex("
        "t => t.mode === 'markers' && t.meta.events && t.x.length)"
    )
    page.hover(*page.pixel(trace, 0))
    texts = "[...document.querySelectorAll('.hoverlayer .hovertext tspan')]"
    assert page.js(f"return {texts}.some(text => text.style.fill)"), (
        "a text has the colours that its markup gives it"
    )
    bar = "getComputedStyle(document.querySelector('.js-plotly-plot .plotly svg.main-svg'))"
    assert page.js(f"return {bar}.position") == "absolute", "plotly's own rules hold"
    assert page.errors() == []


def test_two_runs_are_shown_side_by_side(own_browser: Chrome, server: Server) -> None:
    page = Page(own_browser)
    own_browser.get(server.url)
    for side, kept in zip("ab", Store(server.library.place).failures(), strict=True):
        own_browser.find_element(By.CSS_SELECTOR, f"[name={side}][value='{kept.name}']").click()
    press(page)
    page.wait("document.querySelectorAll('iframe').length === 2")
    page.wait("[...document.querySelectorAll('iframe')].every(f => f.contentWindow.squall?.ready)")
    assert "/compare?a=" in own_browser.current_url
    assert page.errors() == []


def test_what_a_page_brings_along_does_not_run(own_browser: Chrome, server: Server) -> None:
    page = Page(own_browser)
    own_browser.get(server.url)
    page.js(
        "const s = document.createElement('script'); s.textContent = 'window.injected = 1';"
        "document.body.append(s); document.body.setAttribute('onclick', 'window.injected = 1');"
    )
    own_browser.find_element(By.TAG_NAME, "body").click()
    assert page.js("return window.injected") is None
    assert any("Content Security Policy" in line for line in page.errors())
