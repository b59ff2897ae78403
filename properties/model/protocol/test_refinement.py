"""Runs of the port are paths of the model; which of its steps they take, and which errors in it they
find."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from squall.properties.model.protocol.arrays import OneFork, steps_of_fork, successors
from squall.properties.model.protocol.explore import explore
from squall.properties.model.protocol.explore import folded as one_folded
from squall.properties.model.protocol.layout import Frontier, Layout, folded
from squall.properties.model.protocol.paths import replayed
from squall.properties.model.protocol.planted import TOO_STRICT
from squall.properties.model.protocol.replay import Replay
from squall.properties.model.protocol.rules import RULES
from squall.properties.model.protocol.state import Known, Stage, Value, World, initial
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw, settings_of
from squall.sim.world.garbage import settle

#: a step: the rule, the stage of the fork, what the owner knows of it, and what there is of the value
Transition = tuple[str, Stage, Known, Value]

_COPY = "a copy that comes late changes no table, and has no event"
_SILENT = "it changes no table, and has no event"
_GUESSED = "events do not tell whether something is still under way: read as creation_is_late"
_AFTER_FAILURE = "its value failed, or is gone for a user who was told so"
_AS_HOME = "CHILD_ACCEPTED and FORK_DELETED do not tell it from a fork that came home: read as that"

#: why no event tells of a rule
SILENT = {
    **{name: _SILENT for name in RULES if name.startswith(("lose_", "double_", "repeat_"))},
    "fetch": _SILENT,
    "fetch_times_out": _SILENT,
    "let_go": _SILENT,
    "creation_times_out": _GUESSED,
}
#: by what it takes: steps that none of some hundred runs took, or one or two did
RARE = {
    "every attempt to introduce a user fails, six of them, or all are late": """
        request_is_late PENDING UNKNOWN ABSENT    request_is_late PENDING UNKNOWN TOLD
        request_is_late PENDING UNKNOWN PRESENT   request_is_late PENDING KNOWN ABSENT
        request_is_late PENDING KNOWN TOLD        request_is_late PENDING KNOWN PRESENT
        accept_arrives CONFIRMED UNKNOWN ABSENT   accept_arrives CONFIRMED UNKNOWN TOLD
        accept_arrives CONFIRMED UNKNOWN PRESENT  accept_arrives DELETED UNKNOWN ABSENT
        accept_arrives DELETED UNKNOWN TOLD       accept_arrives DELETED UNKNOWN PRESENT
    """,
    "a user comes and goes before its parent hears that it came, and the creation is still to come": """
        accept_arrives DELETED KNOWN ABSENT       accept_arrives DELETED KNOWN TOLD
        accept_arrives OVER GONE ABSENT           accept_arrives OVER GONE TOLD
    """,
    "a creation comes, or fails, after its creator gave it up": """
        creation_begins CONFIRMED UNKNOWN ABSENT  creation_begins CONFIRMED UNKNOWN TOLD
        creation_begins DELETED UNKNOWN ABSENT    creation_begins DELETED UNKNOWN TOLD
        creation_ends CONFIRMED UNKNOWN ABSENT    creation_ends CONFIRMED UNKNOWN TOLD
        creation_ends DELETED UNKNOWN ABSENT      creation_ends DELETED UNKNOWN TOLD
        creation_ends OVER GONE ABSENT            creation_ends OVER GONE TOLD
        creation_fails CONFIRMED UNKNOWN ABSENT   creation_fails CONFIRMED UNKNOWN TOLD
        creation_fails DELETED UNKNOWN ABSENT     creation_fails DELETED UNKNOWN TOLD
        creation_fails OVER GONE ABSENT           creation_fails OVER GONE TOLD
    """,
    "a creation fails whose reference has come home before, or is given up then": """
        creation_fails PENDING UNKNOWN TOLD       drop CONFIRMED UNKNOWN TOLD
        delete_arrives DELETED UNKNOWN TOLD
    """,
    "the owner shares its object of a creation that failed": """
        creation_is_late PENDING UNKNOWN PRESENT  reply_arrives PENDING UNKNOWN PRESENT
        drop CONFIRMED UNKNOWN PRESENT            delete_arrives DELETED UNKNOWN PRESENT
        creation_ends OVER GONE PRESENT           creation_fails OVER GONE PRESENT
    """,
}


def why_unreached(step: Transition) -> str | None:
    """Why no run has to take a step; None: some run has to."""
    rule, stage, known, value = step
    if rule in SILENT:
        return SILENT[rule]
    if rule == "fetch_arrives":  # but for one that comes before the value, whose user is not told
        return _SILENT
    if rule == "take_back" and value is not Value.ABSENT:
        return _AS_HOME
    if rule == "request_arrives" and (known is not Known.UNKNOWN or stage is not Stage.PENDING):
        return _COPY
    if rule in ("delete_arrives", "creation_begins") and stage is Stage.OVER:
        return _COPY
    if value is Value.FREED or value is Value.FAILED:
        return _AFTER_FAILURE
    words = f"{rule} {stage.name} {known.name} {value.name}"
    return next((why for why, steps in RARE.items() if words in " ".join(steps.split())), None)


@cache
def steps_of_the_model() -> frozenset[Transition]:
    """All steps about a fork in small worlds with faults."""
    found: set[Transition] = set()
    for world in (World(2, 1, 2, 2, 1), World(2, 1, 3, 1, 0)):
        layout = Layout(world)
        level = np.array([layout.number(one_folded(initial(world)))], np.uint64)
        seen = level
        while len(level):
            frontier = Frontier(layout, level)
            for fork in range(world.forks):
                each = OneFork(frontier, 0, fork)
                state = np.stack([each["stage"], each["known"], each.of("value")])
                for rule, mask, _ in steps_of_fork(each, True):
                    for stage, known, value in np.unique(state[:, mask], axis=1).T:
                        found.add((rule, Stage(stage), Known(known), Value(value)))
            reached = [words for _, _, words in successors(frontier)]
            after = np.unique(np.concatenate(reached)) if reached else level[:0]
            level = np.setdiff1d(folded(layout, after), seen)
            seen = np.union1d(seen, level)
    return frozenset(step for step in found if step[1] is not Stage.UNUSED)


class Played(NamedTuple):
    """What came of the runs."""

    #: how often each step was taken
    taken: Counter[Transition]
    #: by what is wrong with the model, the first run that refutes it: profile of faults, and seed
    refuted: dict[str, tuple[str, int]]


@pytest.fixture(scope="module")
def played() -> Played:
    taken: Counter[Transition] = Counter()
    refuted: dict[str, tuple[str, int]] = {}
    with campaign_settings():
        for profile, seed in product(("", "rough", "storm"), range(150)):
            settle()
            run = play(draw(seed, settings_of(profile)))
            replay = Replay()
            replay.taken = taken
            assert list(replayed(run, replay)) == [], f"{profile} {seed}"
            for what, rules in TOO_STRICT.items():
                if what not in refuted and list(replayed(run, Replay(rules))):
                    refuted[what] = (profile, seed)
    return Played(taken, refuted)


def test_runs_take_no_step_that_the_model_does_not(played: Played) -> None:
    about_forks = {step for step in played.taken if step[1] is not Stage.UNUSED}
    assert about_forks <= steps_of_the_model()


def test_each_rule_is_taken_by_some_run_or_has_no_event(played: Played) -> None:
    assert set(RULES) - {step[0] for step in played.taken} == set(SILENT)


def test_what_is_listed_as_rare_is_a_step_of_the_model() -> None:
    words = [steps.split() for steps in RARE.values()]
    listed = {" ".join(each[at : at + 4]) for each in words for at in range(0, len(each), 4)}
    steps = {
        f"{r} {stage.name} {known.name} {v.name}" for r, stage, known, v in steps_of_the_model()
    }
    assert listed <= steps


def test_each_step_is_taken_by_some_run_or_the_reason_is_known(played: Played) -> None:
    unreached = steps_of_the_model() - set(played.taken)
    unexplained = sorted(str(step) for step in unreached if why_unreached(step) is None)
    assert unexplained == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", TOO_STRICT)
def test_a_model_that_allows_too_little_is_refuted_by_a_run(what: str, played: Played) -> None:
    assert what in played.refuted
    # Nothing else would have told.
    assert explore(World(2, 1, 2, 1, 1), TOO_STRICT[what]).breach is None
