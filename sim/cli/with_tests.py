"""What is with the tests, which are not installed: its commands are of use in a checkout of squall alone."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from squall.sim.cli.bad_input import BadInput


def part(package: str, module: str) -> Any:
    """A module of ``squall.properties``: types know nothing of it. Raises :class:`BadInput` where there are no tests."""
    place = f"squall.properties.{package}"
    if find_spec("squall.properties") is None or find_spec(place) is None:
        problem = "there are none here, they are in a checkout of squall"
        raise BadInput(package, "", problem)
    return import_module(f"{place}.{module}")
