"""What a script leaves behind is counted when it shuts down, and only if all were waited for."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.sim.faults import plan as p
from squall.sim.faults.plan import Plan
from squall.sim.library.errors import problems
from squall.sim.library.why import cause_of
from squall.sim.names import EngineName
from squall.sim.scenario import Scenario, Script

SCRIPT = """
    import os, sys
    import torch.distributed.rpc as rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        kept = [rpc.remote("worker1", list) for _ in range(3)]
        for rref in kept:
            rref.to_here()
    rpc.shutdown(graceful=sys.argv[1] == "gracefully")
"""


@pytest.mark.parametrize(("how", "leaked"), [("gracefully", 3), ("at once", 0)])
def test_values_whose_deletion_is_lost_are_leaks_of_a_graceful_shutdown(
    tmp_path: Path, how: str, leaked: int
) -> None:
    path = tmp_path / "script.py"
    path.write_text(dedent(SCRIPT), encoding="utf-8")
    lost = Plan(messages=(p.Drop(types=("RREF_USER_DELETE",)),))
    run = run_file(path, how, workers=2, faults=lost, stdout=io.StringIO(), stderr=sys.stderr)
    assert run.rpc_groups.leaked_rrefs == leaked
    assert run_file(path, how, workers=2, stdout=io.StringIO()).rpc_groups.leaked_rrefs == 0


@pytest.mark.sampled(1)
def test_a_deadlock_tells_what_references_are_held_and_where(
    tmp_path: Path, engine: EngineName
) -> None:
    source = """
        import os, threading
        import torch
        import torch.distributed.rpc as rpc

        kept, gone = {}, threading.Event()

        class Resource:
            def __del__(self):
                gone.set()

        def until_it_is_gone():
            gone.wait()

        def main(rank):
            options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=0)
            rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
            if rank == 0:
                kept["resources"] = [rpc.remote("w1", Resource)]
                mine = rpc.RRef(torch.ones(1))
                rpc.rpc_sync("w1", until_it_is_gone)
            rpc.shutdown()

        if __name__ == "__main__":
            main(int(os.environ["RANK"]))
    """
    script = write(tmp_path, source)
    printed = io.StringIO()
    found = run_file(script, engine=engine, workers=2, stdout=printed, stderr=printed)
    assert found.outcome == "deadlock"
    held = sorted(
        re.sub(r"GloballyUniqueId|created_on=|local_id=", "", line)
        for line in found.when_stuck.held
    )
    assert held == [
        "w0 holds OwnerRRef((0, 2)) of a value of w0, in mine of main(), which is at script.py:21",
        "w0 holds UserRRef(RRefId = (0, 0), ForkId = (0, 1)) of a value of w1, in kept"
        "['resources'][0], a global of script.py",
    ]


KEEPING = """
    import os
    import torch.distributed.rpc as rpc

    class Cache:
        def __init__(self):
            self.found = []

    cache = Cache()

    def use(rref):
        return rref.to_here()

    def step(number):
        made = rpc.remote("w1", int, args=(number,))
        rpc.rpc_sync("w1", use, args=(made,))
        KEEP

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    parts = [rpc.remote("w1", int, args=(part,)) for part in range(5)]
    for number in range(4 * (1 - rank)):
        step(number)
    rpc.shutdown()
"""


def test_references_that_grow_with_each_step_are_told_by_line_and_holder(tmp_path: Path) -> None:
    """Those that a program makes as it sets itself up are not, nor are those of steps that are over."""
    for keep, hints in (
        (
            "cache.found.append(made)",
            [
                "only shutdown released 4 references that w0 made at script.py:15, one more with each step: held by "
                "`cache.found`, a global of script.py"
            ],
        ),
        ("pass", []),
    ):
        run = run_file(write(tmp_path, KEEPING.replace("KEEP", keep)), workers=2)
        assert (run.outcome, run.rpc_groups.leaked_rrefs, run.hints) == ("ok", 0, hints)
        assert ("script.py:21", 5) in [(each.place, each.number) for each in run.processes.kept]


def test_a_context_that_is_not_left_is_told_by_its_line(tmp_path: Path) -> None:
    source = """
        import os
        import torch.distributed.autograd as dist_autograd
        import torch.distributed.rpc as rpc

        rank = int(os.environ["RANK"])
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        with dist_autograd.context():
            pass
        if rank:
            dist_autograd.context().__enter__()
        rpc.shutdown()
    """
    run = run_file(write(tmp_path, source), workers=2)
    assert (run.outcome, run.rpc_groups.leaked_contexts) == ("leak", 2)  # it is on both workers
    told = "autograd contexts that were never left: 1 of w1 made at script.py:11"
    assert run.hints == [told]
    assert problems(run, [], strict=False)[:2] == [told, "left behind: 0 RRefs, 2 contexts"]


MANY = """
    import os
    import torch
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc

    kept, contexts = [], []

    def enter(step):
        contexts.append(dist_autograd.context())
        contexts[-1].__enter__()

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    for step in range(3):
        rpc.rpc_sync(f"w{1 - rank}", len, args=([1],))
        kept.append(step)
        if rank:
            rpc.rpc_sync("w1", enter, args=(step,))
    rpc.shutdown()
"""


def test_a_leak_begins_with_the_lines_of_the_user(tmp_path: Path) -> None:
    script = write(tmp_path, MANY)
    scenario = Scenario(
        work=Script(path=str(script), text=script.read_text(encoding="utf-8"), workers=2)
    )
    why = cause_of(scenario, seconds=3)
    assert why.problems[:2] == [
        "autograd contexts that were never left: 3 of w1 made at script.py:11 in `enter`",
        "left behind: 0 RRefs, 3 contexts",
    ]
    assert why.problems[2].startswith("contexts: a context was left on w1, 3 times (events #")
    # What else grows has not failed.
    assert why.said[0].startswith("`contexts` grows: things are put into it at script.py:10")
    assert "`kept` grows" not in str(why)


MADE = """
    import os, threading
    import torch
    import torch.distributed as dist
    import torch.distributed.rpc as rpc

    ENDS = ?
    rank = int(os.environ["RANK"])
    over = threading.Event()

    def work():
        thread = threading.Thread(target=over.wait, daemon=True)
        thread.start()
        future = rpc.rpc_async(f"w{1 - rank}", len, args=([1],))
        operation = dist.all_reduce(torch.ones(2), async_op=True)
        if ENDS:
            future.then(lambda done: over.set()).wait()
            operation.wait()
            thread.join()

    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    dist.init_process_group("gloo")
    work()
    dist.barrier()
    if ENDS:
        dist.destroy_process_group()
    rpc.shutdown()
"""


def test_what_libraries_leave_to_themselves_is_not_told(
    tmp_path: Path, compiled_engine: None
) -> None:
    source = """
        import multiprocessing
        import torch
        import torch.distributed as dist
        from torch.distributed.algorithms.join import Join
        from torch.nn.parallel import DistributedDataParallel

        dist.init_process_group("gloo")
        model = DistributedDataParallel(torch.nn.Linear(2, 1))
        with Join([model]):
            for _ in range(2 + dist.get_rank()):
                model(torch.ones(1, 2)).sum().backward()
        queue = multiprocessing.Queue()
        queue.cancel_join_thread()
        queue.put(7)
        dist.destroy_process_group()
    """
    run = run_file(write(tmp_path, source), workers=2, engine="torch")
    assert (run.outcome, run.hints) == ("ok", [])


@pytest.mark.parametrize("engine", ["port", "torch"])
def test_what_nobody_ends_is_told_by_its_line(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    for ends, hints in (
        (
            "False",
            [
                "futures of calls that nobody waited for: 2 of w0, w1 made at script.py:14 in `work`",
                "operations of process groups that nobody waited for: 2 of w0, w1 made at script.py:15 in `work`",
                "process groups that were never destroyed: 2 of w0, w1 made at script.py:22",
                "threads that still ran when their process ended: 2 of w0, w1 made at script.py:13 in `work`",
            ],
        ),
        ("True", []),
    ):
        path = write(tmp_path, MADE.replace("?", ends))
        run = run_file(path, workers=2, engine=engine)
        assert (run.outcome, run.hints) == ("ok", hints)
