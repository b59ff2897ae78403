"""Stories: they come to what they must, and those of the corpus notice what is not so."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from squall.model.checks.futures import FUTURES
from squall.model.events.run import Run
from squall.model.program.check import check_program
from squall.model.program.stories import (
    ALONE,
    AS_IT_SHOULD_BE,
    DRAWN,
    KINDS,
    RARE,
    SIZED,
    WIDE,
    Story,
    expected,
    port_only,
    stories_of,
)
from squall.real import tracing
from squall.sim.cluster import Cluster
from squall.sim.programs.stories.play import perform
from squall.sim.scenario import Scenario
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.corpus import corpus, corpus_for
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import judge, judge_in_time
from squall.sim.search.mutants.registry import MUTANTS

ALL = [scenario for scenario in corpus().values() if scenario.engine == "port"]
TORCH = [scenario for scenario in corpus().values() if scenario.engine == "torch"]
AT_HOME, AWAY = corpus()["stories-at-home"], corpus()["stories-away"]
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
                    seen.append(perform(Story(kind=kind, worker=to)))

            cluster.run(main, shutdown=False)
            cluster.settle()
            cluster.shutdown()
    finally:
        logging.disable(logging.NOTSET)
    return seen[0]


def test_a_wide_story_is_drawn_rarely_or_alone() -> None:
    assert {*DRAWN, *SIZED, *WIDE} == set(KINDS)
    assert not set(DRAWN) & {*SIZED, *WIDE}
    programs = [draw(seed).program for seed in range(1_500)]
    found: Counter[str] = Counter()
    for program in programs:
        assert program is not None
        kinds = [story.kind for _, _, step in program.steps for story in step.stories]
        found.update({*kinds} & {*WIDE})
        assert len(kinds) == 1 or not {*kinds} & {*ALONE}
    assert set(found) == {*RARE, *ALONE}
    assert max(found.values()) < len(programs) / 50
    for kind in WIDE:
        assert expected(Story(kind=kind, worker=1), 0) == AS_IT_SHOULD_BE


def test_a_story_has_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="there are two stories called 'timeout'"):
        stories_of(__name__)("timeout")(lambda to: "")


def test_programs_without_the_stories_are_refused() -> None:
    """Whoever draws or reads programs has imported what declares them."""
    code = """
from squall.model.program.stories import DRAWN
try:
    len(DRAWN)
except RuntimeError as error:
    print(error)
import squall.sim.programs.stories.play
print(DRAWN[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    refused, first = done.stdout.splitlines()
    assert refused.startswith("no stories are registered") and first == "timeout"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", [kind for kind in WIDE if kind not in _IN_A_PROGRAM])
def test_a_wide_story_is_as_it_should_be(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(kind, 3, 1, latency="constant:0.001") == AS_IT_SHOULD_BE
    assert told(kind, 3, 2, latency="lognormal:0.001:1.5", order="random") == AS_IT_SHOULD_BE
    assert told(kind, 1, 0, latency="0") == AS_IT_SHOULD_BE


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.note)
def test_the_corpus_has_every_story_once(scenario: Scenario) -> None:
    program = scenario.program
    assert program is not None
    check_program(program)
    stories = [(trainer, story) for trainer, _, step in program.steps for story in step.stories]
    assert sorted(story.kind for _, story in stories) == sorted([*DRAWN, *WIDE])
    at_home = sum(story.worker == program.trainers[t].worker for t, story in stories)
    assert (at_home > 0) == (scenario is AT_HOME)


def test_one_of_the_corpus_shuts_down_early() -> None:
    assert [scenario.world.shut_down_early for scenario in (AT_HOME, AWAY)] == [False, True]


def test_the_corpus_is_for_campaigns_on_the_port_without_faults() -> None:
    assert corpus_for(Settings()) == ALL
    assert corpus_for(Settings("rough")) == []
    assert corpus_for(Settings(engine="torch")) == TORCH


def test_the_compiled_engine_plays_every_story_that_it_can() -> None:
    played = {
        story.kind
        for scenario in TORCH
        if scenario.program is not None
        for _, _, step in scenario.program.steps
        for story in step.stories
    }
    assert played == set(WIDE) - set(port_only())
    assert all(len(why.split()) > 5 for why in port_only().values())


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.note)
def test_everything_holds_in_the_corpus(scenario: Scenario) -> None:
    with campaign_settings():
        assert judge(scenario).violations == ()


@pytest.mark.sampled(2)
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
def test_the_corpus_notices(name: str) -> None:
    with campaign_settings(), MUTANTS[name].apply():
        violations = judge(AWAY).violations
    assert "calls" in {violation.property for violation in violations}


def test_a_run_that_breaks_off_is_a_verdict() -> None:
    """An error that no check has foreseen is a failure of its scenario, not of the campaign."""
    with campaign_settings(), MUTANTS["exit-ends-the-thread"].apply():
        verdict = judge_in_time(AWAY)
    assert [violation.what for violation in verdict.violations] == ["the run broke off"]
    assert "SystemExit" in str(verdict.violations[0])


def test_a_call_that_outlives_its_connection_is_noticed() -> None:
    """Of two calls to a worker whose connection breaks, one ends then and the other later."""

    def events(later_s: float) -> Run:
        cut = ("cut", "links[0]", 2, 0, 2, "", 0, 0, "")
        return Run(
            [
                (0.0, 0, 1, tracing.CALL_STARTED, (1, 2, "PYTHON_CALL", 60.0, ())),
                (0.0, 0, 1, tracing.CALL_STARTED, (2, 2, "PYTHON_CALL", 60.0, ())),
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


def test_the_corpus_runs_to_its_end() -> None:
    with campaign_settings():
        run = play(AWAY)
    assert (
        run.outcomes.got is not None
        and len(run.outcomes.got.beside) == len(DRAWN) + len(WIDE)
        and not run.stuck
    )
