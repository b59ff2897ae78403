"""The strip above a picture: the whole run, and the part of it that is shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from squall.properties.browser.conftest import HEIGHT, PATIENCE_S, WIDTH, Page
from squall.properties.support.timeline_runs import training
from squall.sim import pictures
from squall.sim.pictures.critical import steps_of
from squall.sim.pictures.page_payload import WHOLE_MOST, opening
from squall.sim.pictures.plotly_js import write_plotly
from squall.sim.pictures.recording import Recording

pytestmark = pytest.mark.sampled(6, of="pages in a browser")

Visit = Callable[..., Page]


@cache
def long() -> Recording:
    return training(steps=6, latency="lognormal:0.002:0.4")


@cache
def html() -> str:
    return pictures.page(long())


def shown(page: Page) -> tuple[float, float]:
    """The events between which the picture shows the run."""
    first, last = page.js("return squall.window")
    return float(first), float(last)


def axis(page: Page) -> tuple[float, float]:
    low, high = page.js("return document.getElementById('figure')._fullLayout.xaxis.range")
    return float(low), float(high)


def test_a_long_run_opens_on_its_first_step(visit: Visit) -> None:
    run = long()
    assert len(run) > WHOLE_MOST
    page = visit(html())
    _, first, last = min(steps_of(run), key=lambda step: step[1])
    assert shown(page) == tuple(opening(run)) == (first, last)
    low, high = axis(page)
    if page.js("return squall.clock") == "time":
        assert low <= run.time_s(first) and run.time_s(last) <= high < run.ended_s
    else:
        assert low <= first and last <= high < run.last
    strip = page.browser.find_element(By.ID, "strip")
    assert strip.is_displayed()
    assert f"events {first} to {last}" in str(strip.get_attribute("aria-valuetext"))
    assert page.errors() == []


def test_a_short_run_opens_whole(visit: Visit) -> None:
    run = training()
    assert len(run) <= WHOLE_MOST
    assert shown(visit(pictures.page(run))) == (0, run.last)


@pytest.mark.parametrize("clock", ["time", "order"])
def test_the_part_that_is_shown_moves_by_keys_and_by_the_mouse(visit: Visit, clock: str) -> None:
    page = visit(html())
    drawn = page.js("return squall.drawn")
    page.browser.find_element(By.CSS_SELECTOR, f'[data-clock="{clock}"]').click()
    page.settle(drawn, "space_time")
    strip = page.browser.find_element(By.ID, "strip")
    before = shown(page)
    strip.send_keys(Keys.ARROW_RIGHT)
    page.wait("squall.window[0] > arguments[0]", before[0])
    strip.send_keys(Keys.END)
    page.wait("squall.window[1] >= arguments[0]", long().last - 1)
    strip.send_keys(Keys.HOME)
    page.wait("squall.window[0] <= 1")
    # Another part, drawn with the mouse: the right half of the strip.
    width = strip.size["width"]
    ActionChains(page.browser).move_to_element_with_offset(
        strip, 5, 0
    ).click_and_hold().move_by_offset(width // 2 - 8, 0).release().perform()
    page.wait("squall.window[0] > 1")
    assert shown(page)[1] > 0.9 * long().last
    ActionChains(page.browser).double_click(strip).perform()
    page.wait("squall.window[0] === 0 && squall.window[1] === arguments[0]", long().last)
    low, high = axis(page)
    assert (low, high) != (0, 1) and high >= (long().ended_s if clock == "time" else long().last)
    assert page.errors() == []


def test_an_event_outside_the_part_that_is_shown_is_brought_in(visit: Visit) -> None:
    page = visit(html(), f"#event={long().last}")
    first, last = shown(page)
    assert first < long().last <= last and first > 0


def test_the_part_that_is_shown_stays_from_view_to_view(visit: Visit) -> None:
    page = visit(html())
    before = shown(page)
    page.open("work")
    assert shown(page) == before
    page.open("graph")
    assert not page.browser.find_element(By.ID, "strip").is_displayed(), "it has no axis of time"
    page.open("contexts")
    assert shown(page) == before
    assert page.browser.find_element(By.ID, "strip").is_displayed()


def test_a_long_command_is_seen_whole(visit: Visit) -> None:
    words = "squall run " + " ".join(f"--option-{n} value-{n}" for n in range(30))
    page = visit(pictures.page(pictures.recording(training().records, replay=words)))
    box = page.browser.find_element(By.ID, "replay")
    assert box.text == words
    sizes = page.js(
        "const c = document.getElementById('replay');"
        "return [c.scrollWidth - c.clientWidth, document.documentElement.scrollWidth]"
    )
    assert sizes[0] <= 1 and sizes[1] <= WIDTH
    assert page.js("return getComputedStyle(document.getElementById('replay')).overflowY") == "auto"


def test_a_page_says_what_its_words_mean(visit: Visit) -> None:
    page = visit(pictures.page(training()))
    summary = page.browser.find_elements(By.CSS_SELECTOR, "summary")[-1]
    assert summary.text == "what the words mean"
    summary.click()
    assert "fork 10 of worker2" in page.browser.find_element(By.CSS_SELECTOR, ".words").text
    page.open("work")
    assert "waiting for messages" in page.browser.find_element(By.ID, "notes").text


def test_a_page_takes_plotly_from_a_file_beside_it(browser: Chrome, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(pictures.page(training(), plotly="file"), encoding="utf-8")
    browser.get(file.as_uri())
    page = Page(browser)
    end = time.monotonic() + PATIENCE_S
    while not (told := browser.find_element(By.ID, "problem").text):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert "plotly.js did not load" in told and "in the folder of this page" in told
    write_plotly(tmp_path)
    browser.get_log("browser")
    browser.refresh()
    page.wait("window.squall && squall.ready")
    assert page.errors() == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (3840, 2160)])
def test_a_phone_and_a_wide_screen_show_the_page(visit: Visit, width: int, height: int) -> None:
    page = visit(html())

    def resize(width: int, height: int) -> None:
        page.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    resize(width, height)
    try:
        # The figure and the strip hear of the new size one after the other, each from the browser.
        for drawn in ("#figure .main-svg", "#strip canvas"):
            page.wait(
                "document.querySelector(arguments[0]).clientWidth <= arguments[1] &&"
                " document.querySelector(arguments[0]).clientWidth > arguments[1] * 0.85",
                drawn,
                width,
            )
        assert page.js("return document.documentElement.scrollWidth") <= width
        assert page.js("return document.getElementById('figure').clientHeight") >= 400
        assert page.errors() == []
    finally:
        resize(WIDTH, HEIGHT)
