"""How likely a failure still is: the tail of a run drawn anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from squall.model.events.digest import digest_of
from squall.sim import pictures
from squall.sim.pictures.odds import Odds, Point, TailSeed
from squall.sim.scenario import Expected, Scenario
from squall.sim.search.draw import draw
from squall.sim.search.replay_with_mutant import again, planted


def scenario(seed: int, mutant: str | None = None) -> Scenario:
    return replace(draw(seed), expected=Expected(mutant=mutant))


def measure(saved: Scenario, **options: Any) -> Odds:
    """With the bug planted that the scenario names."""
    with planted(saved.expected.mutant):
        return pictures.measure(saved, **options)


def with_latency(start: int = 0) -> tuple[Scenario, list[object]]:
    """A scenario whose messages take different times, and its events."""
    for seed in range(start, start + 100):
        saved = scenario(seed)
        if saved.world.latency.startswith(("lognormal", "uniform")):
            records = list(again(saved).records)
            if len(records) > 200:
                return saved, records
    raise AssertionError("no seed has random latencies")


def test_a_run_with_another_tail_shares_its_beginning() -> None:
    saved, base = with_latency()
    for at in (0, 60, 150):
        other = list(again(saved, watcher=TailSeed(at, tail=1)).records)
        assert other[:at] == base[:at]
        assert other != base, "what comes after is drawn anew"
    beyond = again(saved, watcher=TailSeed(len(base) + 1, tail=1)).records
    assert digest_of(list(beyond)) == digest_of(base)  # type: ignore[arg-type]


def test_a_tail_is_as_repeatable_as_a_run() -> None:
    saved, _ = with_latency(50)
    one, second = (again(saved, watcher=TailSeed(40, tail=3)).digest for _ in range(2))
    other = again(saved, watcher=TailSeed(40, tail=4)).digest
    assert one == second != other


def test_a_bug_that_is_always_there_is_certain_from_the_start() -> None:
    for seed in range(100):
        saved = scenario(seed, mutant="release-only-here")
        if again(saved).violations:
            break
    else:
        raise AssertionError("the planted bug was never seen")
    calls: list[tuple[int, int]] = []
    found = measure(saved, points=3, times=2, on_run=lambda *at: calls.append(at))
    assert calls[-1] == (6, 6)
    assert found.points[-1].share == 1.0
    assert found.points[0].event == 0 and found.points[-1].event == len(found.run)
    figure = pictures.odds(found)
    line = next(trace for trace in figure.data if trace.name == "share of runs that fail")
    assert list(line.y) == [point.share for point in found.points]


def test_the_jump_is_between_the_points_where_it_rises_most() -> None:
    run = pictures.recording([])
    points = [Point(0, 1, 10), Point(50, 2, 10), Point(100, 9, 10), Point(150, 10, 10)]
    odds = Odds(run, ("p", "w"), points)
    assert odds.jump == (points[1], points[2])
    assert Odds(run, ("p", "w"), [Point(0, 10, 10), Point(9, 10, 10)]).jump is None


def test_the_interval_holds_the_share_and_shrinks_with_runs() -> None:
    low, high = Point(0, 3, 10).interval()
    assert 0 < low < 0.3 < high < 1
    many = Point(0, 300, 1000).interval()
    assert many[1] - many[0] < high - low
    assert Point(0, 0, 10).interval()[0] == 0.0
    assert Point(0, 10, 10).interval()[1] == 1.0


@pytest.mark.deep("plays hundreds of runs")
def test_a_bug_that_needs_luck_grows_certain_on_the_way() -> None:
    for seed in range(1000):
        saved = scenario(seed, mutant="accepted-before-known")
        if saved.world.latency.startswith(("lognormal", "uniform")) and again(saved).violations:
            found = measure(saved, points=3, times=5)
            if found.points[0].share < 1.0:
                break
    else:
        raise AssertionError("the planted bug never depended on luck")
    assert found.points[-1].share == 1.0
    assert found.jump is not None
    before, after = found.jump
    assert before.share < after.share
    assert f"between events {before.event:,} and" in pictures.odds(found).layout.title.text


def test_an_interrupt_keeps_the_points_so_far() -> None:
    saved = next(
        found
        for found in (scenario(seed, mutant="release-only-here") for seed in range(100))
        if again(found).violations
    )

    def interrupt(done: int, of: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    found = measure(saved, points=3, times=1, on_run=lambda *at: None)
    stopped = measure(saved, points=4, times=2, on_run=interrupt)
    assert not found.interrupted and len(found.points) == 3
    assert stopped.interrupted and [p.event for p in stopped.points] == [len(stopped.run)]
    assert "interrupted" in pictures.odds(stopped).layout.title.text


def test_what_does_not_fail_has_no_odds() -> None:
    for seed in range(100):
        saved = scenario(seed)
        if not again(saved).violations:
            break
    with pytest.raises(ValueError, match="does not fail"):
        measure(saved)
    with pytest.raises(ValueError, match="points: expected 2 or more, got 1"):
        measure(saved, points=1)
