"""Stories that are drawn with numbers: each comes to what it must with any of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from squall.model.program.check import ProgramError
from squall.model.program.stories import SIZED, Story, numbers_of, port_only
from squall.sim.campaigns.parts.stories import scenarios, sized, verdict
from squall.sim.names import ENGINE_NAMES
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings


@pytest.fixture(scope="module", autouse=True)
def _settings() -> Iterator[None]:
    with campaign_settings():
        yield


# Hundreds: make test-deep takes all of them, as parts of its campaign.
@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "scenario",
    [each for engine in ENGINE_NAMES for each in scenarios(engine)],
    ids=lambda scenario: f"{scenario.engine}: {scenario.note}",
)
def test_it_comes_to_what_it_must(scenario: Scenario, request: pytest.FixtureRequest) -> None:
    if scenario.engine == "torch":
        request.getfixturevalue("compiled_engine")
    assert verdict(scenario, Settings(engine=scenario.engine)).violations == ()


def test_no_kind_is_missing() -> None:
    for engine, kinds in (("port", set(SIZED)), ("torch", set(SIZED) - set(port_only()))):
        told = {
            story.kind
            for scenario in scenarios(engine)
            if scenario.program is not None
            for story in scenario.program.trainers[0].steps[0].stories
        }
        assert told == kinds


def test_what_rules_predict_is_not_wrong(compiled_engine: None) -> None:
    """A call that outlives its context locks freed memory there (docs/findings.md)."""
    kind = "tensor of a released context"
    scenario = sized(Story(kind=kind, worker=0), engine="torch")
    found = verdict(scenario, Settings(engine="torch"))
    assert found.ok and found.events


def test_numbers_that_are_missing_are_the_least() -> None:
    assert numbers_of(Story(kind="exchange", worker=0, numbers=(3,))) == {
        "others": 3,
        "rounds": 1,
        "late": 0,
        "wait": 0,
    }


@pytest.mark.parametrize(
    ("numbers", "text"), [((0, 9), "rounds is 9, not 1 to 3"), ((0,) * 5, "has no more than 4")]
)
def test_numbers_are_within_their_ranges(numbers: tuple[int, ...], text: str) -> None:
    program = sized().program
    assert program is not None
    step = replace(
        program.trainers[0].steps[0],
        stories=(Story(kind="exchange", worker=0, numbers=numbers),),
    )
    with pytest.raises(ProgramError, match=text):
        replace(program, trainers=(replace(program.trainers[0], steps=(step,)),))
