"""The tree of what each call led to."""

from __future__ import annotations

from pathlib import Path

from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.properties.support.timeline_runs import hanging, training
from squall.real import tracing
from squall.sim.pictures.call_tree import CallTree, call_tree
from squall.sim.pictures.palette import BY_ITSELF
from squall.sim.pictures.recording import Recording, recording
from squall.sim.world.call_lines import CallLines
from squall.sim.world.watch import watching

NESTED = """
    import os
    import torch
    import torch.distributed.autograd as autograd
    import torch.distributed.rpc as rpc


    def twice(x):
        return 2 * x


    def passed_on(x):
        return rpc.rpc_sync("w2", twice, args=(x,))


    def broken():
        raise ValueError("no such thing")


    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=3)
    if rank == 0:
        with autograd.context() as context:
            x = torch.ones(2, requires_grad=True)
            y = rpc.rpc_sync("w1", passed_on, args=(x,))
            autograd.backward(context, [y.sum()])
        try:
            rpc.rpc_sync("w1", broken)
        except ValueError:
            pass
    rpc.shutdown()
"""


def lines(run: Recording, tree: CallTree, root: int = -1, depth: int = 0) -> list[str]:
    """The rows that a page shows at first."""
    found: list[str] = []
    for n, branch in enumerate(tree.branches):
        if branch.parent == root and branch.kind not in BY_ITSELF:
            to = f" > {run.name(branch.to)}" if branch.to >= 0 else ""
            error = f" ! {branch.error}" if branch.error else ""
            found.append(f"{'  ' * depth}{run.name(branch.worker)}{to}: {branch.name}{error}")
            found += lines(run, tree, n, depth + 1)
    return found


def test_calls_stand_below_what_led_to_them(tmp_path: Path) -> None:
    with watching(noted := CallLines()):
        ran = run_file(write(tmp_path, NESTED), workers=3)
    run = recording(ran, **noted.found)
    said = lines(run, call_tree(run))
    # What the group does on behalf of a line has the name of what that line calls.
    group = ("init_rpc (script.py:21)", "shutdown (script.py:31)")
    assert {line.rpartition(": ")[2] for line in said} >= set(group)
    assert [line for line in said if not line.endswith(group)] == [
        "w0 > w1: passed_on (script.py:25)",
        "  w1 > w2: twice (script.py:13)",
        "w0: backward (script.py:26)",
        "  w0 > w1: its part of the backward pass",
        "    w1 > w2: its part of the backward pass",
        "      w2 > w1: its part of the backward pass",
        "        w1 > w0: its part of the backward pass",
        "w0 > w1: broken (script.py:28) ! raised ValueError",
    ]


def test_a_call_that_never_ended_says_what_became_of_it() -> None:
    run = hanging()
    (call,) = [each for each in call_tree(run).branches if each.last < 0]
    assert call.error == "it never ended, request dropped: it was lost"


def test_each_event_belongs_to_what_it_happened_for() -> None:
    run = training(steps=2)
    tree = call_tree(run)
    for n, branch in enumerate(tree.branches):
        assert tree.of_event[branch.first] == n
        assert branch.parent < n, "what leads to something comes before it"
        if branch.began >= 0:
            assert tree.of_event[branch.began] == n
    alone = {
        record[3] for record, n in zip(run.records, tree.of_event, strict=True) if n < 0
    }  # fmt: skip
    assert tracing.MESSAGE_SENT not in alone and tracing.NODE_EXECUTED not in alone
