"""Runs are paths of the model of contexts and passes: which of its steps they take, and which errors
in its rules they refute."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from typing import NamedTuple

import pytest

from squall.model.checks.protocol import replayed
from squall.model.protocol.passes.number_set import Numbers
from squall.model.protocol.passes.replay import Replay
from squall.model.protocol.passes.state import Context, ContextStage, Gradients, Progress
from squall.model.protocol.passes.table import RULES
from squall.properties.model.protocol.passes.explore import (
    Situation,
    explore,
    folded,
    situation,
    successors,
)
from squall.properties.model.protocol.passes.planted import TOO_STRICT
from squall.properties.model.protocol.passes.world import World, initial
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw, settings_of
from squall.sim.world.garbage import settle

_LOST = "it changes no table, and has no event"

#: why no event tells of a rule
SILENT = {
    **{name: _LOST for name in RULES if name.startswith("lose_")},
    "reply": "no event tells it from a call: read as one",
    "call_fails": "whether the call was lost or late is not told: read as call_is_late",
    "gradients_time_out": "whether they were lost or late is not told: read as gradients_are_late",
    "repeat_cleanup": "whether the last copy was lost is not told: read as double_cleanup",
}


def why_unreached(step: Situation) -> str | None:
    """Why no run has to take a step; None: some run has to."""
    rule, stage, part, other, at = step
    if rule in SILENT:
        return SILENT[rule]
    if rule == "arrives" and stage is ContextStage.RELEASED:
        return "a message that is taken up without its context has no event"
    if part is Progress.FAILING and rule != "part_gives_up":
        return "the part of a worker ends in the instant in which it fails"
    if part is Progress.RUNNING and rule in _FORWARD:
        return "programs of campaigns wait for a pass before they go on in its context"
    if part is Progress.DONE and at in (Gradients.UNDER_WAY, Gradients.TAKEN_UP):
        return "gradients come to a part that is done: of a message that left after it had begun"
    if at is Gradients.TAKEN_UP and (
        stage is ContextStage.RELEASED or rule == "gradients_are_late"
    ):
        return "something happens in the instant between two steps of a handler"
    under_a_pass = part is Progress.RUNNING or rule not in ("cleanup_arrives", "part_gives_up")
    if stage is ContextStage.RELEASED and under_a_pass:
        return "a context is released under a pass: by another thread, or since the pass failed"
    over = part is Progress.FAILED or part is Progress.FOLLOWED
    if other or (over and at is not None):
        return "a pass fails, and its gradients come late, perhaps to the next one"
    return _RARE.get(rule)


_FORWARD = {"call", "call_without_tensors", "arrives", "take_back", "call_is_late", "release"}
_RARE = {
    "part_answers": "a pass fails, and the next one comes to a worker while answers to the first come",
    "part_is_cut_off": "a pass fails, and the next one comes to a worker at work on the first",
    "release_early": "a context is released by another thread, or by a worker that did not make it",
}


@cache
def steps_of_the_model() -> frozenset[Situation]:
    """All steps in small worlds, with careful programs and others."""
    found: set[Situation] = set()
    for world in (World(2, 1, 1, 2, 2, False), World(2, 1, 2, 1, 1, False), World(2, 1, 2, 2, 1)):
        first = folded(initial(world))
        seen = {first.key()}
        level = [first]
        for state in level:  # grows while it is walked
            for step, reached in successors(world, state):
                context = state.contexts[step.context]
                shape = RULES[step.rule].shape
                found.add(situation(step.rule, shape, context, step.arguments))
                one = folded(reached)
                key = one.key()
                if key not in seen:
                    seen.add(key)
                    level.append(one)
    return frozenset(found)


class Played(NamedTuple):
    """What came of the runs."""

    #: how often each step was taken
    taken: Counter[Situation]
    #: by what is wrong with the model, the first run that refutes it: profile of faults, and seed
    refuted: dict[str, tuple[str, int]]


class Counted(Replay):
    """Counts where each step is taken."""

    def __init__(self, taken: Counter[Situation]) -> None:
        super().__init__()
        self._taken = taken

    def _try(self, name: str, context: Context, *arguments: int | Numbers) -> bool:
        before = situation(name, RULES[name].shape, context, arguments)
        done = super()._try(name, context, *arguments)
        self._taken[before] += done
        return done


@pytest.fixture(scope="module")
def played() -> Played:
    taken: Counter[Situation] = Counter()
    refuted: dict[str, tuple[str, int]] = {}
    with campaign_settings():
        for seed, profile in product(range(150), ("", "rough", "storm")):
            settle()
            run = play(draw(seed, settings_of(profile)))
            replay = Counted(taken)
            assert list(replayed(run, replay)) == [], f"{profile} {seed}"
            for what, rules in TOO_STRICT.items():
                if what not in refuted and list(replayed(run, Replay(rules))):
                    refuted[what] = (profile, seed)
    return Played(+taken, refuted)


@pytest.mark.deep("plays runs for 20 s; those of references are played in quick")
def test_runs_take_no_step_that_the_model_does_not(played: Played) -> None:
    assert set(played.taken) <= steps_of_the_model()


@pytest.mark.deep("plays runs for 20 s; those of references are played in quick")
def test_each_rule_is_taken_by_some_run_or_has_no_event(played: Played) -> None:
    assert set(RULES) - {step.rule for step in played.taken} - set(_RARE) == set(SILENT)


@pytest.mark.deep("plays runs for 20 s; those of references are played in quick")
def test_each_step_is_taken_by_some_run_or_the_reason_is_known(played: Played) -> None:
    unreached = steps_of_the_model() - set(played.taken)
    unexplained = sorted(str(step) for step in unreached if why_unreached(step) is None)
    assert unexplained == []


@pytest.mark.deep("plays runs for 20 s; those of references are played in quick")
@pytest.mark.parametrize("what", TOO_STRICT)
def test_a_model_that_allows_too_little_is_refuted_by_a_run(what: str, played: Played) -> None:
    assert what in played.refuted


def test_of_most_of_them_no_invariant_would_have_told() -> None:
    worlds = World(2, 1, 2, 1, 0), World(2, 1, 1, 2, 1)
    silent = [
        what
        for what, rules in TOO_STRICT.items()
        if all(explore(world, rules).breach is None for world in worlds)
    ]
    assert len(TOO_STRICT) >= 15
    assert len(silent) >= 10
