"""The pictures of the documentation, made anew: ``make pictures``.

Each is what the browser shows of a timeline at 1400 x 900, after the clicks that are listed here.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import squall
from squall.properties.browser.conftest import Page, chromium
from squall.properties.support.commands import typed
from squall.properties.support.markdown import blocks
from squall.properties.support.paths import ROOT
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import Settings, draw

DOCS = ROOT / "docs"


def made(folder: Path, *words: str) -> str:
    """The page that ``squall timeline`` makes in a folder."""
    code, said = typed(["squall", "timeline", "-o", "page.html", *words], folder)
    assert code == 0, said
    return (folder / "page.html").read_text(encoding="utf-8")


def example(folder: Path, name: str, *args: str) -> str:
    """The page of a run of an example."""
    options = ("--workers", "4", "--seed", "7", *(("--", *args) if args else ()))
    return made(folder, f"examples/{name}", *options)


def failing(folder: Path) -> str:
    """A storm that ends well but has a crash in it: the first seed with one."""
    for seed in range(500):
        run = replay(draw(seed, Settings("storm")))
        kinds = [r[4][0] for r in run.records if r[3].name == "fault_injected"]
        if {"crash", "restart"} <= set(kinds) and 300 < len(run.records) < 1200:
            return made(folder, str(seed), "--faults", "storm")
    raise SystemExit("no seed crashes and restarts a worker")


def shown_in(page: str, title: str, folder: Path) -> Path:
    """A file that a page of the documentation shows."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (source,) = (block.text for block in blocks(text) if block.title == title)
    path = folder / title
    path.write_text(source, encoding="utf-8")
    return path


def both_runs(folder: Path) -> str:
    """What decided the race of docs/why.md."""
    found = squall.fuzz(shown_in("why.md", "samples_seen.py", folder), workers=3).finding
    assert found is not None and found.why is not None
    return found.why.timeline().html


def own_test(folder: Path) -> str:
    """The failing test of the tutorial, as small as it was made there."""
    shown_in("tutorial.md", "test_weights.py", folder)
    typed(["pytest", "-q", "test_weights.py"], folder)
    (kept,) = (folder / ".squall" / "scenarios").glob("*.json")
    return made(folder, str(kept.relative_to(folder)))


def step(folder: Path) -> str:
    """The page of docs/what-if.md."""
    costs = "--ranks 4 --link latency=1ms,bandwidth=1e9 --compute Sequential=10ms,backward=20ms"
    words = ["examples/pipeline_1f1b.py", *costs.split(), "-o", "step.html"]
    code, said = typed(["squall", "what-if", *words], folder)
    assert code == 0, said
    return (folder / "step.html").read_text(encoding="utf-8")


def click_message(page: Page, kind: str, nth: int) -> None:
    """Choose the nth message of a kind of those that the window shows."""
    trace, shown = page.js(
        "const f = document.getElementById('figure'), [low, high] = f._fullLayout.xaxis.range;"
        "const trace = f.data.findIndex(t => t.mode === 'markers' && t.meta && t.meta.events && "
        "t.legendgroup === arguments[0]), axis = f._fullLayout.xaxis;"
        "const shown = [...f.data[trace].x.keys()].filter(n => axis.d2l(f.data[trace].x[n]) > low"
        " && axis.d2l(f.data[trace].x[n]) < high);"
        "return [trace, shown];",
        kind,
    )
    page.click(*page.pixel(trace, shown[nth]))
    page.wait("squall.chosen >= 0 && squall.cone")
    page.move(4, 4)


def overtaken(page: Page) -> None:
    """The arrival of the call that comes too late is chosen."""
    clock("order")(page)
    page.browser.find_element(By.ID, "search").send_keys("message delivered load")
    page.wait("/^[12] of/.test(document.getElementById('found').textContent)")
    page.browser.find_element(By.CSS_SELECTOR, "#tall .row").click()  # the second one is the answer
    page.wait("squall.chosen >= 0 && squall.cone")
    page.browser.find_element(By.ID, "search").clear()
    page.browser.find_element(By.ID, "search").send_keys(" ", Keys.BACKSPACE)
    page.move(4, 4)


def half_way(page: Page) -> None:
    rail = page.js(
        "const b = document.querySelector('#figure .slider-rail-touch-rect').getBoundingClientRect();"
        "return [b.left, b.top + b.height / 2, b.width]"
    )
    page.click(rail[0] + rail[2] * 0.55, rail[1], on_data=False)
    page.wait("document.getElementById('figure').layout.sliders[0].active > 0")


def nothing(page: Page) -> None:
    """No click."""


def clock(name: str) -> Callable[[Page], None]:
    def choose(page: Page) -> None:
        button = page.browser.find_element(By.CSS_SELECTOR, f'[data-clock="{name}"]')
        if page.js("return squall.clock") != name:
            drawn, view = page.js("return squall.drawn"), page.js("return squall.view")
            button.click()
            page.settle(drawn, view)
        page.move(4, 4)

    return choose


def take(
    browser: Chrome, html: str, shots: list[tuple[str, str | None, Callable[[Page], None]]]
) -> None:
    """``shots``: the name of each picture, the view if the page has several, and what is clicked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        browser.get(path.as_uri())
        page = Page(browser)
        page.wait("window.squall && squall.ready")
        for name, view, act in shots:
            if view is not None and page.js("return squall.view") != view:
                page.browser.execute_script("document.getElementById('clear').click()")
                page.open(view)
            act(page)
            time.sleep(0.6)
            shot = browser.execute_cdp_cmd(
                "Page.captureScreenshot", {"format": "webp", "quality": 82}
            )
            (DOCS / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))
            print(DOCS / f"{name}.webp", file=sys.stderr)


def main() -> None:
    with tempfile.TemporaryDirectory() as profile, contextlib.ExitStack() as stack:
        browser = chromium(Path(profile))
        stack.callback(browser.quit)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shutil.copytree(ROOT / "examples", folder / "examples")
        take(
            browser,
            example(folder, "parameter_server.py", "--steps", "2"),
            [
                ("timeline-space-time", "space_time", lambda p: click_message(p, "gradient", 1)),
                ("timeline-work", "work", clock("order")),
                ("timeline-graph", "graph", half_way),
            ],
        )
        take(browser, example(folder, "rref_sharing.py"), [("timeline-rrefs", "rrefs", nothing)])
        take(browser, own_test(folder), [("failing-run", "space_time", overtaken)])
        take(browser, both_runs(folder), [("why-two-runs", None, nothing)])
        take(browser, step(folder), [("what-if", None, nothing)])
        take(browser, failing(folder), [("timeline-faults", "space_time", clock("order"))])


if __name__ == "__main__":
    main()
