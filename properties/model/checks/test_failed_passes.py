"""Passes that fail while others follow in the same context, and user code that outlasts its pass."""

from __future__ import annotations

import pytest

from squall.model.checks.registry import check
from squall.model.events.run import Run
from squall.model.one_process.interpreter import interpret
from squall.model.program.program import (
    Backward,
    Call,
    Input,
    Leaf,
    LeafSleep,
    LeafSleepAt,
    Op,
    Program,
    Sleep,
    SleepAt,
    Step,
    Trainer,
)
from squall.sim.programs.run import run_program
from squall.sim.search.mutants.registry import MUTANTS


def two_passes(*, sleep: Sleep | None = None, leaf: LeafSleep | None = None) -> Program:
    """A product on worker 1 and two passes: of a hundred times the root, then of the root."""
    ops = (
        Op(kind="mul", inputs=(Input(2), Input(1)), worker=1, call="sync", sleep=sleep),
        Op(kind="total", inputs=(Input(1),), worker=0),
    )
    backwards = (
        Backward(roots=(1,), retain_graph=True, factor=100, may_fail=True),
        Backward(roots=(1,), may_fail=True),
    )
    leaves = (Leaf(owner=0, shape=(2,), seed=1), Leaf(owner=1, shape=(2,), seed=2, sleep=leaf))
    return Program(
        workers=2,
        leaves=leaves,
        trainers=(Trainer(worker=0, steps=(Step(ops=ops, backwards=backwards),)),),
    )


def judged(program: Program) -> Run:
    run = run_program(program, rpc_timeout_s=5.0)
    run.outcomes.expected = interpret(program)
    return run


AT: tuple[SleepAt, ...] = ("argument", "result", "backward", "node_pre", "node_post")
LEAF_AT: tuple[LeafSleepAt, ...] = ("tensor", "accumulate_pre", "accumulate_post")
PROGRAMS = {
    **{at: two_passes(sleep=Sleep(at=at, seconds=(6.0, 2.0))) for at in AT},
    **{f"leaf {at}": two_passes(leaf=LeafSleep(at=at, seconds=(6.0, 2.0))) for at in LEAF_AT},
}


@pytest.mark.parametrize("where", PROGRAMS)
def test_a_pass_is_exact_though_one_before_it_still_sleeps(where: str) -> None:
    run = judged(PROGRAMS[where])
    assert check(run) == []
    outcome = run.outcomes.got.steps[0, 0]  # type: ignore[union-attr]
    (error,) = outcome.failed.values()
    assert "RPC ran for more than set timeout" in error
    assert run.gradients is not None
    assert (run.gradients.passes, run.gradients.compared, run.gradients.failed) == (1, 1, 1)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("sent-in-the-name-of-the-running-pass", "argument"),
        ("sent-after-the-end", "argument"),
        ("accumulated-after-the-end", "leaf accumulate_pre"),
        ("node-goes-on-after-the-end", "backward"),
        ("leaf-goes-on-after-the-end", "leaf tensor"),
    ],
)
def test_what_outlasts_its_pass_is_noticed(name: str, where: str) -> None:
    mutant = MUTANTS[name]
    with mutant.apply():
        found = {violation.property for violation in check(judged(PROGRAMS[where]))}
    assert found & {"execution", "passes"}


@pytest.mark.parametrize("call", ["local", "sync"])
@pytest.mark.parametrize("output", [0, 1])
def test_a_fault_behind_an_output_that_is_not_used(call: Call, output: int) -> None:
    """In one process no gradient comes to it; a message brings zeros, which go through it."""
    ops = (
        Op(kind="custom_two", inputs=(Input(1), Input(1)), worker=0, call=call, fault="backward"),
        Op(kind="total", inputs=(Input(1, output),), worker=0, call=call),
    )
    program = Program(
        workers=1,
        leaves=(Leaf(owner=0, shape=(2,)),),
        trainers=(Trainer(worker=0, steps=(Step(ops=ops, backwards=(Backward(roots=(1,)),)),)),),
    )
    run = judged(program)
    assert check(run) == []
    assert run.outcomes.got is not None
    assert (run.outcomes.got.steps[0, 0].error is None) == (call == "local" and output == 1)
