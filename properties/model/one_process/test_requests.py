"""How many requests a program makes, counted from the program and in its runs."""

from __future__ import annotations

from collections import Counter

import pytest

from squall.model.checks.messages import MESSAGES
from squall.model.one_process.requests import is_known, requests_of
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.properties.support.planted import first_said
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw


def program(*ops: Op, where: str = "here") -> Program:
    """Two workers, each with a leaf; the trainer is on worker 0."""
    backward = Backward(roots=(1,), where=where)  # type: ignore[arg-type]
    step = Step(ops=ops, backwards=(backward,))
    leaves = (Leaf(owner=0, shape=(2,)), Leaf(owner=1, shape=(2,)))
    return Program(workers=2, leaves=leaves, trainers=(Trainer(worker=0, steps=(step,)),))


def op(kind: str, worker: int, call: str, *back: int, how: str = "value") -> Op:
    inputs = tuple(Input(back=each, how=how) for each in back)  # type: ignore[arg-type]
    return Op(kind=kind, inputs=inputs, worker=worker, call=call)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ((op("scale", 1, "sync", 2), op("total", 0, "local", 1)), {(0, 1, "call"): 1}),
        (
            (op("scale", 1, "remote", 2), op("total", 0, "local", 1)),
            {(0, 1, "creation"): 1, (0, 1, "fetch"): 1},
        ),
        # Both leaves: that of the other worker is fetched by a reference to it, once.
        (
            (op("add", 0, "local", 1, 1), op("add", 0, "local", 2, 1), op("total", 0, "local", 1)),
            {(0, 1, "creation"): 1, (0, 1, "fetch"): 1},
        ),
        # The owner of a reference among the inputs is not asked by itself.
        (
            (
                op("scale", 1, "remote", 2),
                op("scale", 1, "sync", 1, how="rref"),
                op("total", 0, "local", 1),
            ),
            {(0, 1, "creation"): 1, (0, 1, "call"): 1},
        ),
        (
            (op("scale", 1, "helper_sync", 2), op("total", 0, "local", 1)),
            {(0, 1, "creation"): 1, (0, 1, "call"): 2},
        ),
        ((op("scale", 0, "sync", 2), op("total", 0, "local", 1)), {(0, 0, "call"): 1}),
    ],
)
def test_each_call_of_the_api_is_one_request(
    ops: tuple[Op, ...], expected: dict[tuple[int, int, str], int]
) -> None:
    assert requests_of(program(*ops), leader=0, handshakes=False) == expected
    opened = Counter({(0, 1, "call"): 1, (1, 0, "call"): 1})
    assert requests_of(program(*ops), leader=0, handshakes=True) == opened + Counter(expected)


def test_a_pass_by_reference_is_one_request() -> None:
    ops = (op("scale", 1, "remote", 2), op("total", 1, "remote", 1))
    made = requests_of(program(*ops, where="rref"), leader=0, handshakes=False)
    assert made[0, 1, "backward"] == 1


def test_runs_make_as_many() -> None:
    known = 0
    with campaign_settings():
        for seed in range(150):
            scenario = draw(seed)
            assert scenario.program is not None
            if is_known(scenario.program):
                known += 1
                assert [str(each) for each in MESSAGES.check(play(scenario))] == []
    assert known > 30


def test_one_request_too_many_is_told() -> None:
    found = first_said(
        "messages",
        "rpc.calls:rpc_sync",
        "    return _invoke_rpc(",
        '    _invoke_rpc(to, len, ((),), None, timeout, "sync").wait()\n    return _invoke_rpc(',
    )
    assert any("requests of the kind call" in violation.what for violation in found)
