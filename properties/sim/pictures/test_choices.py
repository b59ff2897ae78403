"""The picture of an exploration: what is drawn is what could go next, and what went."""

from __future__ import annotations

import pytest

from squall.properties.support import explored as programs
from squall.sim import pictures
from squall.sim.explore.execution import How
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.search import Explored, explore
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.choice_tree import ChoiceTree

UNORDERED = How("message", ordered=False)


def grown(
    how: How = UNORDERED, *, calls: int = 2, reduced: bool = True
) -> tuple[ChoiceTree, Explored]:
    tree = ChoiceTree()
    story = FunctionTarget(2, programs.calls(calls))
    with campaign_settings():
        explored = explore(lambda chooser: story(tree.watching(chooser)), how, reduced=reduced)
    return tree.over(), explored


def test_each_execution_is_a_path() -> None:
    tree, explored = grown()
    assert explored.complete == 4
    ends = [choice for choice in tree.root.walk() if choice.ended]
    assert len(ends) == 4 and all(choice.ended == 1 and not choice.enabled for choice in ends)


def test_the_first_choice_is_between_both_calls() -> None:
    tree, _ = grown()
    first = next(choice for choice in tree.root.walk() if len(choice.enabled) > 1)
    assert [words for _, words in first.enabled] == ["call of a Python function 0→1"] * 2


@pytest.mark.parametrize("reduced", [True, False])
def test_what_was_never_tried_is_grey(reduced: bool) -> None:
    tree, explored = grown(reduced=reduced)
    left_out = sum(choice.left_out for choice in tree.root.walk())
    assert (left_out > 0) == reduced
    figure = pictures.choices(tree)
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines"}
    choices = [choice for choice in tree.root.walk() if len(choice.enabled) > 1]
    assert list(lines["left out"].x).count(None) == left_out
    assert list(lines["tried"].x).count(None) == sum(len(choice.tried) for choice in choices)
    assert f"{explored.executions} executions, {left_out} branches left out" in (
        figure.layout.title.text
    )


def test_rows_do_not_meet() -> None:
    """No two ends of branches of one choice have the same place."""
    tree, _ = grown(How("task", ordered=False))
    figure = pictures.choices(tree)
    places = [place for trace in figure.data[1::2] for place in zip(trace.x, trace.y, strict=True)]
    assert len(set(places)) == len(places) > 20


def test_a_program_without_a_choice_has_an_empty_picture() -> None:
    tree, explored = grown(calls=1)
    assert explored.complete == 1
    figure = pictures.choices(tree)
    assert figure.layout.annotations[0].text == "there was never a choice"
