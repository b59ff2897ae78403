"""Stories that are drawn with numbers: each comes to what it must with any of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.model.program.check import ProgramError
from squall.model.program.program import Input, Leaf, Op, Program, Step, Trainer
from squall.model.program.stories import (
    SIZED,
    Story,
    expected,
    numbers_of,
    port_only,
    ranges_of,
)
from squall.sim.names import EngineName
from squall.sim.scenario import Scenario
from squall.sim.search.judge import judge, play


def _scenario(*stories: Story, workers: int = 3, engine: EngineName = "port") -> Scenario:
    op = Op(kind="total", inputs=(Input(1),), worker=workers - 1, call="sync")
    trainer = Trainer(worker=0, steps=(Step(ops=(op,), stories=stories),))
    leaves = (Leaf(owner=0, shape=(2,)),)
    program = Program(workers=workers, leaves=leaves, trainers=(trainer,))
    return Scenario(work=program, seed=2, engine=engine)


def _corners(kind: str) -> list[tuple[int, ...]]:
    """Every number at its least and at its greatest, and each alone at its greatest."""
    spans = list(ranges_of(kind).values())
    least = [lo for lo, _ in spans]
    found = [tuple(least), tuple(hi for _, hi in spans)]
    for at, (_, hi) in enumerate(spans):
        found.append((*least[:at], hi, *least[at + 1 :]))
    return found


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("kind", SIZED)
def test_it_comes_to_what_it_must(kind: str, workers: int) -> None:
    corners = _corners(kind)
    for to in range(min(workers, 2)):
        for numbers in corners if workers == 2 else corners[:2]:  # to save the others time
            verdict = judge(
                _scenario(Story(kind=kind, worker=to, numbers=numbers), workers=workers)
            )
            assert not verdict.violations, (to, numbers, verdict.violations)


@pytest.mark.parametrize("kind", SIZED)
def test_several_at_once(kind: str) -> None:
    stories = [
        Story(kind=kind, worker=to, numbers=each) for to, each in enumerate(_corners(kind)[:3])
    ]
    assert not judge(_scenario(*stories, *stories)).violations


@pytest.mark.parametrize("kind", [kind for kind in SIZED if kind not in port_only()])
def test_it_is_the_same_on_the_compiled_engine(kind: str) -> None:
    for to, numbers in enumerate(_corners(kind)[:2]):
        story = Story(kind=kind, worker=to, numbers=numbers)
        run = play(_scenario(story, engine="torch"))
        assert run.got is not None
        assert run.got.stories[0, 0, 0] == expected(story, 0)


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
    program = _scenario().program
    assert program is not None
    step = replace(
        program.trainers[0].steps[0],
        stories=(Story(kind="exchange", worker=0, numbers=numbers),),
    )
    with pytest.raises(ProgramError, match=text):
        replace(program, trainers=(replace(program.trainers[0], steps=(step,)),))
