"""The code in docs/library.md runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from squall.properties.support.paths import DOCS

TIMEOUT_S = 240
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def code_of(page: str) -> str:
    return "\n".join(_CODE.findall((DOCS / page).read_text(encoding="utf-8")))


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "SQUALL_STORE": ".squall"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_about_the_library(tmp_path: Path) -> None:
    (tmp_path / "trial.py").write_text(code_of("library.md"), encoding="utf-8")
    run(tmp_path, "trial.py")
