"""Unmodified scripts in every order, from when their group stands until all leave it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from squall.sim.explore.campaign import ExploredPart, parts
from squall.sim.explore.execution import How
from squall.sim.explore.scripts import ScriptSubject
from squall.sim.explore.search import Budget, explore
from squall.sim.scenario import Scenario
from squall.sim.scenarios.replay import replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scripts.read_script import read_script
from squall.sim.world.controlled_time import NotExplorableError

HEAD = """\
    import os
    import torch
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    """

STEP = """
    def scaled(x):
        return x * 2

    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
    if rank == 0:
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync("w1", scaled, args=(x,))
            dist_autograd.backward(context_id, [y.sum()])
            print(dist_autograd.get_gradients(context_id)[x].tolist())
    rpc.shutdown()
    """

#: both others write what they are asked to: the last one wins
RACE = """
    kept = []

    def keep(name):
        kept.append(name)

    def last():
        return kept[-1]

    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
    if rank:
        rpc.rpc_sync("w0", keep, args=(f"w{rank}",))
    rpc.shutdown()
    if rank == 0:
        print(last())
    """

#: wrong in one order only
WRONG = RACE.replace("print(last())", 'assert last() == "w2", last()')


def script(folder: Path, text: str, workers: int) -> Scenario:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(HEAD) + textwrap.dedent(text), encoding="utf-8")
    return Scenario(work=read_script(path, workers=workers))


def whole(scenario: Scenario, how: How) -> ExploredPart:
    (part,) = parts(scenario, how, Budget())
    assert part.explored.exhausted
    return part


@pytest.mark.parametrize(
    ("how", "classes"),
    [(How("message"), 5), (How("message", ordered=False), 9), (How("task"), 422)],
)
def test_a_step_comes_to_the_same_in_every_order(tmp_path: Path, how: How, classes: int) -> None:
    explored = whole(script(tmp_path, STEP, 2), how).explored
    assert (explored.complete, explored.pruned, len(explored.states)) == (classes, 0, 1)
    assert not explored.found
    assert "[2.0, 2.0]" in next(iter(explored.states))


def test_a_race_has_a_final_state_for_each_winner(tmp_path: Path) -> None:
    explored = whole(script(tmp_path, RACE, 3), How("message")).explored
    assert not explored.found
    assert {state.split("'")[1] for state in explored.states} == {"w1", "w2"}


def test_an_order_in_which_a_script_fails_is_replayed(tmp_path: Path) -> None:
    part = whole(script(tmp_path, WRONG, 3), How("message"))
    assert 0 < part.explored.failed < part.explored.complete
    ((_, scenario),) = part.counterexamples()
    run = replay(scenario)
    assert [(each.property, each.what) for each in run.violations] == [
        ("script", "a process raised AssertionError")
    ]
    assert run.digest == scenario.expected.digest


def test_faults_happen_to_messages_of_the_time_that_is_explored(tmp_path: Path) -> None:
    """The calls of `init_rpc` are none of them, those of the others' `shutdown` are."""
    found = list(parts(script(tmp_path, STEP, 2), How("message"), Budget(20), one_fault=True))
    lost = {part.fault for part in found if part.fault.endswith(" lost")}
    assert "FORWARD_AUTOGRAD_REQ 0->1 #1 lost" in lost
    assert "PYTHON_CALL 1->0 #1 lost" in lost and "PYTHON_CALL 1->0 #2 lost" not in lost
    (late,) = (part for part in found if part.fault == "FORWARD_AUTOGRAD_REQ 0->1 #1 1.2 s late")
    assert late.explored.exhausted and not late.explored.found
    ended = {part.fault: part.explored for part in found if part.fault.endswith(" ends")}
    assert ended.keys() == {"worker0 ends", "worker1 ends"}
    assert all(explored.failed for explored in ended.values())


def test_the_same_orders_give_the_same_runs(tmp_path: Path) -> None:
    subject = ScriptSubject(script(tmp_path, RACE, 3))
    with campaign_settings():
        first, again = (explore(subject, How("message")) for _ in range(2))
    assert (first.classes, first.states) == (again.classes, again.states)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print('done')", "no process joins an RPC group"),
        ("raise ValueError('no')", "no RPC group stands, since .* ValueError: no"),
        ('rpc.init_rpc("w", rank=0); rpc.shutdown()', "join and leave its group at any time"),
    ],
)
def test_without_a_group_there_is_nothing_to_explore(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(NotExplorableError, match=why):
        whole(script(tmp_path, text, 1), How("message"))
