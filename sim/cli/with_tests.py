"""What is with the tests, which are not installed: its commands are of use in a checkout of squall alone."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from squall.sim.cli.bad_input import BadInput


def part(package: str, module: str) -> Any:
    """A module of a package of the tests: types know nothing of it. Raises :class:`BadInput` where there are none."""
    if find_spec(package) is None:
        problem = "there are none here, they are in a checkout of squall"
        raise BadInput(package.rpartition(".")[2], "", problem)
    return import_module(f"{package}.{module}")
