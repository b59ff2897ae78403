"""Whether the folder that the environment names for the store can be one."""

from __future__ import annotations

import os
from pathlib import Path

from squall.sim.cli.bad_input import BadInput
from squall.sim.scenarios.store import FOLDER_VARIABLE


def check_store() -> None:
    """Raises :class:`BadInput` where nothing could be kept there."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return
    there = Path(named).absolute()
    while not there.exists() and not there.is_symlink():
        there = there.parent  # it is made when something is kept
    if not there.is_dir():
        problem = f"expected a folder for what is kept, but {str(there)!r} is a file"
        raise BadInput(FOLDER_VARIABLE, named, problem)
    if not os.access(there, os.W_OK | os.X_OK):
        problem = f"expected a folder that can be written, but {str(there)!r} cannot"
        raise BadInput(FOLDER_VARIABLE, named, problem)
