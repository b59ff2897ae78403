"""Scenarios that campaigns run first, by name: they reach situations that random programs seldom
do.

Each is a file beside this module, as :mod:`squall.sim.scenarios.file` reads it, for the engine that
it names.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.sim.scenario import Scenario
    from squall.sim.search.draw import Settings


def names() -> list[str]:
    """The names of all of them, in their order; none of them is read."""
    found = sorted(file.name for file in files(__name__).iterdir())
    return [name.removesuffix(".json") for name in found if name.endswith(".json")]


@cache
def corpus() -> dict[str, Scenario]:
    """All of them, in the order of their names; each has its name as its note."""
    from squall.sim.scenarios.file import load_scenario

    found = {}
    for name in names():
        text = (files(__name__) / f"{name}.json").read_text(encoding="utf-8")
        found[name] = replace(load_scenario(text), note=name)
    return found


def corpus_for(settings: Settings) -> list[Scenario]:
    """Those that a campaign with these settings runs first: none of trainings, none under faults, nor on the
    stand-in device, where not all that they do can be done."""
    if (
        settings.groups
        or settings.profile is not None
        or settings.plan
        or settings.device == "stand-in"
    ):
        return []
    return [
        scenario.in_world(device=settings.device)
        for scenario in corpus().values()
        if scenario.engine == settings.engine
    ]
