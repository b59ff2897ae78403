"""Autograd contexts of two and three workers in every order: releases, failures, several passes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from squall.model.program.program import Backward, Input, Leaf, Op, Program, Sleep, Step, Trainer
from squall.properties.support import explored_contexts as programs
from squall.sim.explore.execution import How
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.programs import ProgramSubject
from squall.sim.explore.search import Explored, explore
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.registry import MUTANTS

MESSAGE, UNORDERED, TASK = How("message"), How("message", ordered=False), How("task")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Callees log what their functions raise, here in thousands of executions."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def explored(workers: int, main: Any, how: How) -> Explored:
    with campaign_settings():
        found = explore(FunctionTarget(workers, main, check=programs.nothing_left), how)
    assert found.exhausted
    assert not found.found
    assert found.pruned == 0
    return found


def results(found: Explored) -> set[str]:
    """What the main functions returned, of all final states."""
    return {state.split("} (", 1)[0] + "}" for state in found.states}


@pytest.mark.parametrize(("how", "classes"), [(MESSAGE, 9), (UNORDERED, 247)])
def test_a_release_meets_each_message_of_a_pass(how: How, classes: int) -> None:
    """It is before the pass, or breaks it on either worker, or comes too late: then the gradient is
    right. Nothing is left of the context and the pass."""
    found = explored(2, programs.released_elsewhere, how)
    assert found.complete == classes
    assert results(found) <= {
        "{0: RuntimeError: Could not find autograd context with id: #}",
        "{0: 'RuntimeError: Error on Node #: Error on Node #: Could not find autograd context with "
        "id: #; KeyError: tensor([#.], requires_grad=True)'}",
        "{0: 'None; 2.0'}",
    }
    assert ("{0: 'None; 2.0'}" in results(found)) == (not how.ordered)


@pytest.mark.parametrize(
    ("workers", "how", "classes"),
    [(2, UNORDERED, 2), (2, TASK, 2), (3, UNORDERED, 12), (3, TASK, 12)],
)
def test_a_pass_fails_on_the_last_of_a_chain(workers: int, how: How, classes: int) -> None:
    found = explored(workers, programs.fails_on_the_last(workers), how)
    assert found.complete == classes
    way = "".join("Error on Node #: " for _ in range(workers))
    assert results(found) == {f"{{0: 'RuntimeError: {way}it fails; 0 gradients'}}"}


def test_a_pass_fails_on_one_of_two_workers() -> None:
    found = explored(3, programs.fails_on_one_of_two, MESSAGE)
    assert found.complete == 768
    assert results(found) == {"{0: 'RuntimeError: Error on Node #: Error on Node #: it fails'}"}


@pytest.mark.parametrize(("how", "classes"), [(UNORDERED, 2), (TASK, 18)])
def test_two_passes_add_up(how: How, classes: int) -> None:
    found = explored(2, programs.two_passes, how)
    assert found.complete == classes
    assert results(found) == {"{0: 4.0}"}


@pytest.mark.parametrize(
    ("workers", "parameters_on", "classes"),
    [(2, ("worker1", "worker1"), 2574), (3, ("worker2", "worker2"), 1008)],
)
def test_contexts_over_one_parameter_do_not_meet(
    workers: int, parameters_on: tuple[str, str], classes: int
) -> None:
    """Two trainers at once, each in a context of its own: each finds the gradients of its own pass."""
    main: dict[int, Callable[[], list[float]]] = {
        rank: programs.trainer(there, 2.0 + rank) for rank, there in enumerate(parameters_on)
    }
    found = explored(workers, main, MESSAGE)
    assert found.complete == classes
    assert results(found) == {"{0: (2.0), 1: (3.0)}"}


def test_a_node_that_outlasts_its_pass_is_found_out() -> None:
    """The first pass is given up while a hook on the other worker still waits, and another one is
    made. A port in which that hook's node then sent its gradient in the name of the pass that ran,
    which was a wrong gradient once, does not hold in any order."""
    asleep = Sleep(at="argument", seconds=(61.0, 12.0))
    op = Op(kind="total", inputs=(Input(back=1),), worker=0, call="sync", sleep=asleep)
    passes = Backward(roots=(1,), times=3, may_fail=True)
    trainer = Trainer(worker=1, steps=(Step(ops=(op,), backwards=(passes,)),))
    program = Program(workers=2, leaves=(Leaf(owner=1),), trainers=(trainer,))
    with campaign_settings():
        subject = ProgramSubject(Scenario(work=program))
        right = explore(subject, TASK)
        with MUTANTS["sent-in-the-name-of-the-running-pass"].apply():
            wrong = explore(subject, MESSAGE)
    assert right.exhausted and not right.found
    assert wrong.exhausted and wrong.failed == wrong.complete
    assert ("execution", "a node was run twice") in wrong.found
