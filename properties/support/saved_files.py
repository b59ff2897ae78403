"""The scenario files that are played again, as properties/deep.toml names them: the corpus and the findings."""

from __future__ import annotations

import tomllib
from functools import cache

import pytest

from squall.properties.support.paths import PROPERTIES
from squall.sim.campaigns.parts.saved import Saved, saved_in
from squall.sim.names import EngineName
from squall.sim.scenarios.file import load_scenario

PLAYED = PROPERTIES / "deep.toml"


@cache
def saved_files() -> Saved:
    """The part of the campaign."""
    said = tomllib.loads(PLAYED.read_text(encoding="utf-8"))["parts"]["saved"]
    return saved_in("saved", PROPERTIES, said["files"], said["varies"])


def numbers_of(engine: EngineName) -> list[object]:
    """Its files that are of an engine, for pytest to go through."""
    part = saved_files()
    return [
        pytest.param(
            number, id=part.files[number].removeprefix("properties/").removesuffix(".json")
        )
        for number in part.seeds
        if load_scenario(part.folder / part.files[number]).engine == engine
    ]
