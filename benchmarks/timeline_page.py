"""How long a timeline of a hundred thousand events takes: to make, and in a browser.

What a busy machine makes late is left out: the browser's own seconds of work are counted, from the
start of loading until the page is ready. Needs Chromium and its driver.

    python -m benchmarks.timeline_page
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from squall.properties.browser.conftest import Page, chromium
from squall.properties.support.timeline_runs import large
from squall.sim import pictures


def _work_s(page: Page) -> float:
    metrics = page.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def measure() -> dict[str, float]:
    """Events, megabytes, and seconds of work for the page and for the browser."""
    run = large(64, 16)
    began = time.process_time()
    html = pictures.page(run)
    made_s = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        page = Page(chromium(Path(folder) / "profile"))
        try:
            page.browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            before_s = _work_s(page)
            page.browser.get(path.as_uri())
            page.wait("window.squall && squall.ready")
            worked_s = _work_s(page) - before_s
        finally:
            page.browser.quit()
    return {"events": len(run), "megabytes": len(html) / 1e6, "made_s": made_s, "ready_s": worked_s}


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:12} {value:12,.2f}")
