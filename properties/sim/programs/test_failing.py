"""Calls that fail beside an operation: each kind, made in each way, leaves nothing behind."""

from __future__ import annotations

from typing import get_args

import pytest

from squall.model.program.operations import said_of
from squall.model.program.program import (
    Backward,
    FailingCall,
    FailsBy,
    Input,
    Leaf,
    Op,
    Program,
    Step,
    Trainer,
)
from squall.real import tracing
from squall.sim.programs import failing
from squall.sim.scenario import Scenario
from squall.sim.scenarios.play import play
from squall.sim.search.judge import judge


def _scenario(kind: FailingCall, by: FailsBy, worker: int) -> Scenario:
    """``sum(leaf * 2)``, before which a call with its tensors fails, and a pass."""
    ops = (
        Op(kind="scale", inputs=(Input(1),), worker=1, call="sync", factor=2),
        Op(
            kind="total",
            inputs=(Input(1),),
            worker=worker,
            call="sync",
            fails_first=kind,
            fails_by=by,
        ),
    )
    trainer = Trainer(worker=0, steps=(Step(ops=ops, backwards=(Backward(roots=(1,)),)),))
    program = Program(workers=2, leaves=(Leaf(owner=0, shape=(2,)),), trainers=(trainer,))
    return Scenario(work=program, seed=3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("worker", [0, 1], ids=("at home", "away"))
@pytest.mark.parametrize("kind", get_args(FailingCall))
def test_nothing_is_left_of_a_call_that_fails(kind: FailingCall, worker: int) -> None:
    for by in get_args(FailsBy):
        verdict = judge(_scenario(kind, by, worker))
        assert not verdict.violations, (kind, by, verdict.violations)


@pytest.mark.parametrize("kind", ["late result", "unwritable error", "operator", "unnamed error"])
def test_its_handler_says_why(kind: FailingCall) -> None:
    scenario = _scenario(kind, "sync", 1)
    run = play(scenario)
    errors = [
        run.records[n][4][3]
        for n in run.of(tracing.HANDLER_ENDED)
        if run.records[n][4][3] is not None
    ]
    assert scenario.program is not None
    assert len(errors) == 1
    assert any(text in errors[0] for text in said_of(scenario.program))


def test_a_call_that_does_not_fail_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = failing._FUNCTIONS["raises"]
    monkeypatch.setitem(failing._FUNCTIONS, "raises", kept._replace(function=failing.give_back))
    seen = [str(violation.seen) for violation in judge(_scenario("raises", "sync", 1)).violations]
    assert any("did not fail" in text for text in seen), seen
