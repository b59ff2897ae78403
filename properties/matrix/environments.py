"""Virtual environments for other Pythons and torches, in the ignored folder ``.matrix/``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from squall.properties.matrix.rows import Row
from squall.properties.support.paths import ROOT

FOLDER = ROOT / ".matrix"


class MissingError(Exception):
    """An environment that cannot be had here; the text says why."""


def python_of(row: Row) -> Path:
    """The interpreter of a row's environment, which is made if it is not there.

    The environment that this runs in serves rows that want its versions. Raises :class:`MissingError`.
    """
    import torch

    ours = ".".join(map(str, sys.version_info[:2])), torch.__version__.partition("+")[0]
    if (row.python, row.torch) == ours:
        return Path(sys.executable)
    folder = FOLDER / f"python{row.python}-torch{row.torch}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _call([str(interpreter(row.python)), "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    _call([*pip, f"torch=={row.torch}"])
    # What that torch asks for decides over what is pinned for another one.
    pins = folder / "constraints.txt"
    asked = {"torch", *_call([str(python), "-c", _ASKED_BY_TORCH]).split()}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins.write_text(
        "\n".join(line for line in lines if line.partition("==")[0] not in asked), encoding="utf-8"
    )
    _call([*pip, "-c", str(pins), "setuptools>=77.0.3"])
    _call([*pip, "-c", str(pins), "--no-build-isolation", "-e", f"{ROOT}[dev]"])
    (folder / "complete").touch()
    return python


def interpreter(version: str) -> Path:
    """A Python of that version: on the path, or of pyenv. Raises :class:`MissingError`."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return Path(sys._base_executable)  # type: ignore[attr-defined]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [
        path / "bin" / "python"
        for path in sorted(pyenv.glob(f"versions/{version}.*"))
        if re.fullmatch(r"[\d.]+", path.name)
    ]
    if on_path := shutil.which(f"python{version}"):
        found.append(Path(on_path))
    for path in reversed(found):
        if subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0:
            return path
    raise MissingError(f"there is no Python {version} here")


_ASKED_BY_TORCH = """
import importlib.metadata, re
for line in importlib.metadata.requires("torch") or ():
    print(re.match(r"[\\w.-]+", line)[0].lower().replace("_", "-"))
"""


def _call(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MissingError(f"{' '.join(command)}: {said[-1] if said else 'it failed'}")
    return done.stdout
