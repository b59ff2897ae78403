"""Scenarios that campaigns run first, by name: they reach situations that random programs seldom
do.

Each is a file beside this module, as :mod:`squall.sim.scenarios.file` reads it, for the engine that
it names.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files

from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import load_scenario
from squall.sim.search.draw import Settings


@cache
def corpus() -> dict[str, Scenario]:
    """All of them, in the order of their names; each has its name as its note."""
    found = {}
    for file in sorted(files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json"):
            name = file.name.removesuffix(".json")
            found[name] = replace(load_scenario(file.read_text(encoding="utf-8")), note=name)
    return found


def corpus_for(settings: Settings) -> list[Scenario]:
    """Those that a campaign with these settings runs first: none under faults, nor on the
    stand-in device, where not all that they do can be done."""
    if settings.profile is not None or settings.plan or settings.device == "stand-in":
        return []
    return [
        scenario.in_world(device=settings.device)
        for scenario in corpus().values()
        if scenario.engine == settings.engine
    ]
