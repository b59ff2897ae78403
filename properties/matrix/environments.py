"""Virtual environments for other Pythons and torches, in the ignored folder ``.matrix/``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from squall.properties.matrix.rows import PYTHON, TORCH, Row
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
    pins = folder / "constraints.txt"
    # The torch of the row instead of the one that is pinned, and whatever that one brings along.
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins.write_text("\n".join(line for line in lines if not line.startswith("torch==")))
    _call([*pip, "-c", str(pins), f"torch=={row.torch}"])
    _call([*pip, "-c", str(pins), "setuptools"])
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


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MissingError(f"{' '.join(command)}: {said[-1] if said else 'it failed'}")


def is_default(row: Row) -> bool:
    """Whether it runs with the versions that constraints.txt pins."""
    return (row.python, row.torch) == (PYTHON, TORCH)
