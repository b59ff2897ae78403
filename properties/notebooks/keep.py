"""The notebooks, run anew and kept with what they show: ``make keep-notebooks``.

Each runs in a kernel of its own. Of a figure its data is kept, which JupyterLab draws, and beside it an image for
those who have no plotly.js, such as GitHub; where the data is as before, so is the image.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from plotly.offline import get_plotlyjs
from selenium.webdriver import Chrome

from squall.properties.browser.conftest import PATIENCE_S, chromium
from squall.properties.support.paths import ROOT

FOLDER = ROOT / "notebooks"
FIGURE, IMAGE = "application/vnd.plotly.v1+json", "image/png"
#: pixels; a figure says its height, or has this
WIDTH, HEIGHT = 850, 450
_DRAW = """
const [figure, width, height, done] = arguments;
Plotly.toImage(figure, {format: 'png', width, height}).then(url => done(url.split(',')[1]), e => done({error: String(e)}));
"""


@contextmanager
def drawing() -> Iterator[Chrome]:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f"<script>{get_plotlyjs()}</script>", encoding="utf-8")
        browser = chromium(Path(folder) / "profile")
        try:
            browser.set_script_timeout(PATIENCE_S)
            browser.get(page.as_uri())
            yield browser
        finally:
            browser.quit()


def image(browser: Chrome, figure: dict[str, Any]) -> str:
    """A picture of it, in base64."""
    height = figure["layout"].get("height", HEIGHT)
    drawn = browser.execute_async_script(_DRAW, figure, WIDTH, height)
    if not isinstance(drawn, str):
        raise RuntimeError(f"a figure cannot be drawn: {drawn}")
    return drawn


def outputs(notebook: Any) -> Iterator[Any]:
    for cell in notebook.cells:
        yield from (output for output in cell.get("outputs", ()) if "data" in output)


def keep(path: Path, browser: Chrome) -> None:
    """Run the notebook, and write what it shows into it. Raises CellExecutionError."""
    notebook = nbformat.read(path, 4)
    metadata = dict(notebook.metadata)
    known = {
        json.dumps(each.data[FIGURE], sort_keys=True): each.data[IMAGE]
        for each in outputs(notebook)
        if IMAGE in each.data
    }
    nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    ).execute()
    notebook.metadata = nbformat.from_dict(metadata)  # without the version of Python
    for each in outputs(notebook):
        if FIGURE in each.data:
            figure = each.data[FIGURE]
            same = known.get(json.dumps(figure, sort_keys=True))
            each.data[IMAGE] = image(browser, figure) if same is None else same
    path.write_text(written(notebook), encoding="utf-8")


def written(notebook: Any) -> str:
    """The text of its file, with the data of each figure in one line."""
    figures = []
    for each in outputs(notebook):
        if FIGURE in each.data:
            figures.append(json.dumps(each.data[FIGURE], separators=(",", ":"), sort_keys=True))
            each.data[FIGURE] = f"figure {len(figures)}"
    text: str = nbformat.writes(notebook) + "\n"
    for number, figure in enumerate(figures, start=1):
        text = text.replace(f'"{FIGURE}": "figure {number}"', f'"{FIGURE}": {figure}')
    return text


def main() -> None:
    wanted = sys.argv[1:]
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"  # the data of figures, without plotly.js
    with drawing() as browser:
        for path in sorted(FOLDER.glob("*.ipynb")):
            if not wanted or path.name.startswith(tuple(wanted)):
                keep(path, browser)
                print(f"{path.name}: {path.stat().st_size / 1000:,.0f} kB", flush=True)


if __name__ == "__main__":
    main()
