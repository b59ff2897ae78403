"""Whether a kind of failure shows in a scenario, and a smaller scenario in which it still does."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from squall.model.events.place import place_of
from squall.model.events.run import Run, Violation
from squall.sim.campaigns.known import KnownKey
from squall.sim.campaigns.parts.diff import DIFFERENCE, differences
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.again import again, planted
from squall.sim.search.shrink.shrinker import NotFailingError, Shrinker

#: real seconds for one run
RUN_S = 60.0


class Shown(NamedTuple):
    """A kind shows at ``place``. ``events``: of the run; 0 where two engines differ."""

    place: str
    events: int


def shown(scenario: Scenario, key: KnownKey) -> Shown | None:
    """None if the kind does not show. For the main thread."""
    if key[0] == DIFFERENCE:
        with campaign_settings(), planted(scenario.expected.mutant):
            places = [place for _, place in _differing(scenario, key)]
        return Shown(places[0], 0) if places else None
    plain = Expected(mutant=scenario.expected.mutant)
    if key[0] == "determinism":  # which a replay only looks at where it is to be expected
        plain = replace(plain, property=key[0])
    run = again(replace(scenario, expected=plain), seconds=RUN_S)
    places = [place_of(run, each) for each in _of_kind(run, key)]
    return Shown(places[0], len(run.records)) if places else None


def made_small(scenario: Scenario, key: KnownKey, place: str, seconds: float) -> Scenario | None:
    """The smallest that ``seconds`` have found in which the kind shows at that place; the time is
    that of this process, if all work is done in it. None if it does not show any more."""
    alone = ENGINES[scenario.engine].in_this_process and key[0] != DIFFERENCE
    expected = replace(scenario.expected, property=key[0], what=key[1])
    shrinker = Shrinker(
        replace(scenario, expected=expected),
        seconds=seconds,
        clock=time.process_time if alone else time.monotonic,
        place=place,
        wrong=partial(_differ, (*key[:2], place)) if key[0] == DIFFERENCE else None,
    )
    try:
        return shrinker.run()
    except NotFailingError:
        return None


def _of_kind(run: Run, key: KnownKey) -> Iterable[Violation]:
    property, what, place = key
    for each in run.violations:
        if (each.property, each.what) == (property, what) and (
            place is None or place_of(run, each) == place
        ):
            yield each


def _differing(scenario: Scenario, key: KnownKey) -> list[tuple[Violation, str]]:
    """Those of a kind in which the engines differ in that scenario."""
    _, what, place = key
    return [
        (violation, at)
        for violation, at in differences(scenario)
        if violation.what == what and place in (None, at)
    ]


def _differ(key: KnownKey, scenario: Scenario) -> list[Violation]:
    """What is wrong with a scenario, where that is a difference of a kind."""
    return [violation for violation, _ in _differing(scenario, key)]
