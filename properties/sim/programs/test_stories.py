"""Stories and rounds of them: they come to what they must, and notice what is not so."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import pytest

from squall.model.checks.futures import FUTURES
from squall.model.events.run import Run
from squall.model.generate.rounds import (
    AT_HOME,
    AWAY,
    EVERY,
    draw_round,
    is_round,
    shuts_down_early,
)
from squall.model.program.check import check_program
from squall.model.program.stories import AS_IT_SHOULD_BE, DRAWN, KINDS, WIDE, Story, expected
from squall.real import tracing
from squall.sim.cluster import Cluster
from squall.sim.programs.stories.play import STORIES, perform
from squall.sim.search.judge import (
    Given,
    campaign_settings,
    judge,
    judge_in_time,
    play,
    scenario_of,
)
from squall.sim.search.mutants.clean_process import CleanProcess
from squall.sim.search.mutants.planted import MUTANTS

#: those that need a program's host
_IN_A_PROGRAM = {"left behind", "after the end", "callback at the end"}


def told(kind: str, workers: int, to: int, **options: object) -> object:
    """What comes of a story of worker 0 that is about worker ``to``."""
    seen: list[object] = []
    logging.disable(logging.CRITICAL)  # what callees say of errors that are meant
    try:
        with Cluster(workers, seed=5, **options) as cluster:

            def main(rank: int) -> None:
                if rank == 0:
                    seen.append(perform(Story(kind=kind, worker=to)))  # type: ignore[arg-type]

            cluster.run(main, shutdown=False)
            cluster.settle()
            cluster.shutdown()
    finally:
        logging.disable(logging.NOTSET)
    return seen[0]


def test_every_story_has_a_scene_and_a_line() -> None:
    assert set(STORIES) == set(KINDS)
    assert {*DRAWN, *WIDE} == set(KINDS) and not set(DRAWN) & set(WIDE)
    for kind in WIDE:
        assert expected(Story(kind=kind, worker=1), 0) == AS_IT_SHOULD_BE


@pytest.mark.parametrize("kind", [kind for kind in WIDE if kind not in _IN_A_PROGRAM])
def test_a_wide_story_is_as_it_should_be(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(kind, 3, 1, latency="constant:0.001") == AS_IT_SHOULD_BE
    assert told(kind, 3, 2, latency="lognormal:0.001:1.5", order="random") == AS_IT_SHOULD_BE
    assert told(kind, 1, 0, latency="0") == AS_IT_SHOULD_BE


def test_a_round_has_every_story_once() -> None:
    for seed in (AWAY, AT_HOME, EVERY + AWAY):
        program = scenario_of(seed).program
        check_program(program)
        stories = [(trainer, story) for trainer, _, step in program.steps for story in step.stories]
        assert sorted(story.kind for _, story in stories) == sorted(KINDS)
        at_home = sum(story.worker == program.trainers[t].worker for t, story in stories)
        assert (at_home == 0) == (seed % EVERY == AWAY)
    assert scenario_of(AWAY).shut_down_early and shuts_down_early(AWAY)
    assert not is_round(AWAY + 1)


def test_rounds_are_for_campaigns_on_the_port_without_faults() -> None:
    kinds = {
        story.kind
        for given in (Given(engine="torch"), Given("rough"))
        for _, _, step in scenario_of(AWAY, given).program.steps
        for story in step.stories
    }
    assert not kinds & set(WIDE)


def test_everything_holds_in_rounds() -> None:
    with campaign_settings():
        for seed in (AWAY, AT_HOME, EVERY + AWAY, EVERY + AT_HOME):
            assert judge(seed).violations == ()


@pytest.mark.parametrize(
    "name",
    [
        "fetched-after-delete",
        "forked-after-delete",
        "followers-not-waited-for",
        "vectors-as-roots",
        "hook-may-change-the-size",
        "profile-of-others",
    ],
)
def test_a_round_notices(name: str) -> None:
    with campaign_settings(), MUTANTS[name].apply():
        violations = judge(AWAY).violations
    assert "calls" in {violation.property for violation in violations}


def test_a_round_that_breaks_off_is_a_verdict() -> None:
    """An error that no check has foreseen is a failure of its seed, not of the campaign."""
    with campaign_settings(), MUTANTS["exit-ends-the-thread"].apply():
        verdict = judge_in_time(AWAY)
    assert [violation.what for violation in verdict.violations] == ["the run broke off"]
    assert "SystemExit" in str(verdict.violations[0])


def test_a_witness_knows_nothing_of_the_bug() -> None:
    with (
        CleanProcess() as clean_process,
        campaign_settings(),
        MUTANTS["profile-of-others"].apply(),
    ):
        assert not judge(AWAY).ok
        assert clean_process.holds("", AWAY)


def test_a_call_that_outlives_its_connection_is_noticed() -> None:
    """Of two calls to a worker whose connection breaks, one ends then and the other later."""

    def events(later_s: float) -> Run:
        cut = ("cut", "links[0]", 2, 0, 2, "", 0, 0, "")
        return Run(
            [
                (0.0, 0, 1, tracing.CALL_STARTED, (1, 2, "PYTHON_CALL", 60.0)),
                (0.0, 0, 1, tracing.CALL_STARTED, (2, 2, "PYTHON_CALL", 60.0)),
                (1.0, -1, 0, tracing.FAULT_INJECTED, cut),
                (1.0, 0, 1, tracing.CALL_ENDED, (1, 2, "error")),
                (later_s, 0, 1, tracing.CALL_ENDED, (2, 2, "error")),
            ]
        )

    found: Callable[[float], set[str]] = lambda later_s: {  # noqa: E731
        violation.what for violation in FUTURES.check(events(later_s))
    }
    assert "a call outlived its connection" not in found(1.0)
    assert "a call outlived its connection" in found(2.0)


def test_the_same_seed_gives_the_same_round() -> None:
    assert draw_round(random.Random(AWAY), AWAY) == draw_round(random.Random(AWAY), AWAY)


def test_a_round_runs_to_its_end() -> None:
    with campaign_settings():
        run = play(scenario_of(AWAY))
    assert run.got is not None and len(run.got.stories) == len(KINDS) and not run.stuck
