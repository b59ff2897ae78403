"""A headless Chromium, without a network, and pages opened in it from disk.

Needs Chromium and its driver (Debian: ``apt-get install chromium chromium-driver``); without
them every test here fails and says so.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

WIDTH, HEIGHT = 1400, 900
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-unsafe-swiftshader",
)
#: real seconds that anything may take on a busy machine
PATIENCE_S = 120.0


def chromium(profile: Path) -> Chrome:
    """A browser of its own, with an empty profile. Raises RuntimeError if there is none here."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)  # fmt: skip
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        raise RuntimeError(
            "these tests need Chromium and its driver: apt-get install chromium chromium-driver"
        )
    options = ChromeOptions()
    options.binary_location = browser
    for flag in (*_FLAGS, f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = Chrome(options=options, service=Service(driver))
    found.set_page_load_timeout(PATIENCE_S)
    found.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False},
    )
    return found


class Page:
    """A timeline that is open in the browser."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def js(self, code: str, *arguments: Any) -> Any:
        return self.browser.execute_script(code, *arguments)

    def wait(self, condition: str, *arguments: Any) -> None:
        """Until the JavaScript expression ``condition`` holds."""
        end = time.monotonic() + PATIENCE_S
        while not self.js(f"return !!({condition})", *arguments):
            problem = self.js("return document.getElementById('problem')?.textContent || ''")
            assert not problem, problem
            assert time.monotonic() < end, f"{condition} never held"
            time.sleep(0.02)

    def open(self, view: str) -> None:
        """Switch to a view and wait until it is drawn."""
        drawn = self.js("return squall.drawn")
        self.browser.find_element(By.CSS_SELECTOR, f'[data-view="{view}"]').click()
        self.settle(drawn, view)

    def settle(self, drawn: int, view: str) -> None:
        self.wait(
            "squall.drawn > arguments[0] && document.getElementById('figure').dataset.state === "
            "'drawn' && document.getElementById('figure').dataset.view === arguments[1]",
            drawn,
            view,
        )

    def pixel(self, trace: int, point: int) -> tuple[float, float]:
        """Where a point of a trace is in the window."""
        x, y = self.js(
            """
            const f = document.getElementById('figure'), l = f._fullLayout, t = f.data[arguments[0]];
            const box = f.querySelector('.nsewdrag').getBoundingClientRect();
            return [box.left + l.xaxis.d2p(t.x[arguments[1]]), box.top + l.yaxis.d2p(t.y[arguments[1]])];
            """,
            trace,
            point,
        )
        return float(x), float(y)

    def move(self, x: float, y: float) -> None:
        self._mouse("mouseMoved", x - 3, y)
        self._mouse("mouseMoved", x, y)

    def hover(self, x: float, y: float) -> None:
        """Point at something until plotly, which looks only every so often, tells what it is."""
        end = time.monotonic() + PATIENCE_S
        while not self.js("return document.querySelector('.hoverlayer .hovertext') !== null"):
            assert time.monotonic() < end, f"nothing is at {x:.0f}, {y:.0f}"
            self.move(x, y)
            time.sleep(0.06)

    def click(self, x: float, y: float, *, on_data: bool = True) -> None:
        if on_data:
            self.hover(x, y)
        else:
            self.move(x, y)
        self._mouse("mousePressed", x, y, button="left", clickCount=1)
        self._mouse("mouseReleased", x, y, button="left", clickCount=1)

    def _mouse(self, type: str, x: float, y: float, **more: Any) -> None:
        self.browser.execute_cdp_cmd(
            "Input.dispatchMouseEvent", {"type": type, "x": x, "y": y, **more}
        )

    def errors(self) -> list[str]:
        """What the browser complained of since this was last asked."""
        log: list[dict[str, Any]] = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        # Software WebGL, which is what a machine without a graphics card has, warns of itself.
        return [e["message"] for e in log if e["level"] in ("SEVERE", "WARNING") and "GL Driver" not in e["message"] and "WebGL" not in e["message"]]  # fmt: skip


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    found = chromium(tmp_path_factory.mktemp("chromium"))
    found.execute_cdp_cmd("Network.enable", {})
    found.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    yield found
    found.quit()


@pytest.fixture
def visit(browser: Chrome, tmp_path: Path) -> Callable[..., Page]:
    """Opens the HTML of a page from disk, without a network, and waits until it is ready."""

    def open(html: str, hash: str = "") -> Page:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        browser.get("about:blank")
        browser.get_log("browser")  # type: ignore[no-untyped-call]
        browser.get(path.as_uri() + hash)
        page = Page(browser)
        page.wait("window.squall && squall.ready")
        return page

    return open
