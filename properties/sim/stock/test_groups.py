"""Process groups on the engine ``torch``: each script of ``groups/`` prints what it prints on stock
PyTorch with gloo and real processes, which ``groups/NAME.txt`` holds, its lines sorted."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from squall.model.events.digest import digest_of
from squall.properties.support.commands import squall
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.real.tracing import OPERATION_STARTED
from squall.sim.names import EngineName
from squall.sim.pictures.flows import flows_of
from squall.sim.pictures.palette import GROUP
from squall.sim.pictures.perfetto import perfetto
from squall.sim.pictures.recording import recording
from squall.sim.pictures.spans import OPERATION, spans_of

pytestmark = pytest.mark.usefixtures("compiled_engine")

FOLDER = Path(__file__).parent / "groups"
SCRIPTS = {
    "after_limits": 3,
    "bits": 3,
    "collectives": 3,
    "counts": 2,
    "ddp_beside_rpc": 4,
    "ends_and_limits": 2,
    "in_pieces": 2,
    "large": 3,
    "let_go": 2,
    "order": 2,
    "parts": 3,
    "pipelines": 4,
    "point_to_point": 3,
    "profiled": 3,
    "refused": 3,
    "threads": 3,
    "versions": 3,
    "who_waits": 3,
}
#: of which the port lacks DistributedDataParallel, a profiler's events, and all_reduce_coalesced
ON_BOTH = SCRIPTS.keys() - {"ddp_beside_rpc", "profiled", "versions"}
#: which catches the errors of what no time limit would have been long enough for
CAUGHT = ("ends_and_limits", "who_waits")
#: in which gloo takes tensors for others: a wrong result, after which the run is to go on
WRONG = ("in_pieces",)


@pytest.mark.deep("starts processes of PyTorch again and again")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_what_stock_pytorch_prints(name: str) -> None:
    runs = []
    for seed in ("1", "2", "2"):
        done = squall(
            *("run", str(FOLDER / f"{name}.py"), "--workers", str(SCRIPTS[name])),
            *("--engine", "torch", "--seed", seed, "--no-check", "--allow-unchecked", "--json"),
            *(["--go-on"] if name in WRONG else []),
        )
        assert done.returncode == (name in (*CAUGHT, *WRONG)), done.stderr
        expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        shown = set(done.stderr.splitlines())
        assert [line for line in expected if line not in shown] == []
        run = json.loads(done.stdout)
        runs.append((run["digest"], run["virtual_time_s"]))
    assert runs[0] != runs[1] == runs[2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(ON_BOTH))
def test_the_engines_do_what_stock_pytorch_does(name: str, engine: EngineName) -> None:
    script, expected = (
        FOLDER / f"{name}.py",
        (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines(),
    )
    for seed in range(2):
        out, err = io.StringIO(), io.StringIO()
        run = run_file(
            script, workers=SCRIPTS[name], engine=engine, seed=seed, stdout=out, stderr=err,
            go_on=name in WRONG,
        )  # fmt: skip
        assert sorted(out.getvalue().splitlines()) == expected
        assert bool(run.process_groups.found) == (name in WRONG and engine == "torch"), (
            run.process_groups.found
        )


def test_each_rank_is_started_once_in_any_order(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch.distributed as dist\ndist.init_process_group('gloo')\n", encoding="utf-8"
    )
    done = squall(
        "fuzz",
        str(script),
        "--workers",
        "2",
        "--seeds",
        "1:2",
        "--engine",
        "torch",
        "--allow-unchecked",
    )
    assert done.returncode == 0, done.stdout


def test_a_rank_that_never_joins_a_collective_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, threading, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "if os.environ['RANK'] == '0':\n"
        "    dist.all_reduce(torch.ones(1))\n"
        "threading.Event().wait()\n",
        encoding="utf-8",
    )
    done = squall("run", str(script), "--workers", "2", "--engine", "torch", "--no-check")
    assert done.returncode == 1
    assert "Timed out waiting 1800000ms for recv operation to complete" in done.stderr
    assert (
        "hang: rank 0 waits for rank 1 to call `all_reduce` (script.py:4); rank 1 waits for "
        "`threading.Event()` to be set (script.py:5): nobody sets it" in done.stdout
    )


CROSSED = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
groups = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
for number in {0: (0, 2), 1: (1, 0), 2: (2, 1)}[rank]:
    dist.all_reduce(torch.ones(1), group=groups[number])
"""


@pytest.mark.parametrize("engine", ["port", "torch"])
def test_who_waits_in_which_group_is_told_with_ranks_of_the_default_one(
    tmp_path: Path, engine: EngineName
) -> None:
    run = run_file(write(tmp_path, CROSSED), workers=3, engine=engine, stderr=io.StringIO())
    assert run.process_groups.stall is not None and run.process_groups.stall.outcome == "deadlock"
    for rank, other, ranks in ((0, 1, "0 and 1"), (1, 2, "1 and 2"), (2, 0, "0 and 2")):
        told = (
            f"rank {rank} waits for rank {other} to call `all_reduce` in the process group of ranks {ranks} made at "
            "script.py:5 (script.py:7)"
        )
        assert told in run.process_groups.stall.lines[0]


MISMATCHES = {
    "dist.all_reduce(values) if rank == 0 else dist.broadcast(values, 1)": "kind",
    "dist.all_reduce(torch.ones(4 + rank))": "elements",
    "dist.all_reduce(values.to(torch.float64) if rank else values)": "type",
    "dist.all_reduce(values.view(2, 2) if rank else values)": "shape",
    "dist.all_reduce(values, (ReduceOp.SUM, ReduceOp.MAX)[rank])": "op",
    "dist.broadcast(values, rank)": "root",
    "dist.barrier(); dist.barrier() if rank else dist.all_reduce(values)": "kind",
    "dist.all_to_all_single(values, torch.ones(4 - rank), [2, 2], [2 - rank, 2])": "parts",
}
#: equal calls in another order, and what is told of both members
ORDERS = {
    "for each in (a, b) if rank else (b, a): dist.all_reduce(each)": (
        "rank 0 calls all_reduce 1 of b = each at t=",
        "rank 1 calls all_reduce 1 of a = each at t=",
    ),
    "[dist.all_reduce(each.grad) for each in (reversed(linears) if rank else linears)]": (
        "rank 0 calls all_reduce 1 of the gradient of Linear.weight (number 1) at t=",
        "rank 1 calls all_reduce 1 of the gradient of Linear.weight (number 2) at t=",
    ),
    "(dist.all_gather(both, a), dist.all_gather(both, b)) if rank else "
    "(dist.all_gather(both, b), dist.all_gather(both, a))": (
        "rank 0 calls all_gather 1 of b at t=",
        "rank 1 calls all_gather 1 of a at t=",
    ),
}
#: calls that come from other lines, with other tensors, and go together
IN_ORDER = """
for step in range(4):
    if (step + rank) % 2:
        dist.all_reduce(a)
    else:
        dist.all_reduce(b)
    dist.broadcast(a if step % 2 == rank else b, step % 2)
    if step % 2 == rank:
        dist.broadcast(a, step % 2)
    else:
        dist.broadcast(b, step % 2)
    dist.all_gather(both, (a, b)[(step + rank) % 2])
"""
TENSORS = """
a, b = torch.ones(4), torch.ones(4)
both = [torch.ones(4), torch.ones(4)]
linears = [torch.nn.Linear(4, 4, bias=False).weight for _ in range(2)]
for each in linears:
    each.grad = torch.ones(4, 4)
"""
#: what ends in an error of one member: in a word, and what is told of why
STALLS = {
    "dist.send(values, 1 - rank); dist.recv(values, 1 - rank)": (
        "deadlock",
        "deadlock: rank 0 waits for rank 1 to receive with tag 0 (script.py:8); rank 1 waits for rank 0 to receive "
        "with tag 0 (script.py:8)",
    ),
    "dist.recv(values, 0) if rank else dist.all_reduce(values)": (
        "deadlock",
        "deadlock: rank 0 waits for rank 1 to call `all_reduce` (script.py:8); rank 1 waits for a message of rank 0 "
        "with tag 0 (script.py:8)",
    ),
    "import time; rank or time.sleep(1) or dist.all_reduce(values)": (
        "mismatch",
        "collective 1 of the default process group: rank 0 calls all_reduce(type torch.float32, elements 4",
    ),
    "rank or dist.all_reduce(values)": (
        "mismatch",
        "collective 1 of the default process group: rank 0 calls all_reduce(type torch.float32, elements 4",
    ),
}
MISMATCH = """
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

dist.init_process_group("gloo")
rank, values = dist.get_rank(), torch.ones(4)
{calls}
print("went on", flush=True)
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("calls", MISMATCHES)
def test_collectives_that_do_not_go_together_are_told(
    tmp_path: Path, calls: str, engine: EngineName
) -> None:
    script, printed = tmp_path / "script.py", io.StringIO()
    script.write_text(MISMATCH.format(calls=calls), encoding="utf-8")
    run = run_file(script, workers=2, engine=engine, stdout=printed, stderr=printed)
    assert run.outcome == "mismatch" and "went on" not in printed.getvalue()
    (told,) = run.process_groups.found["mismatch"]
    assert f"of the default process group differs in {MISMATCHES[calls]}: rank " in told
    for rank in (0, 1):
        assert f"rank {rank} calls " in told
    assert told.count("script.py:8: ") == 2
    assert run.of(OPERATION_STARTED) and run.digest != digest_of([])


@pytest.mark.parametrize(
    ("of_rank_0", "others"), [([0, 2], [0, 1, 2]), ([0, 1], [0, 2]), ([0, 2], [0, 1])]
)
def test_a_group_that_ranks_make_of_other_members_is_told(
    tmp_path: Path, of_rank_0: list[int], others: list[int], engine: EngineName
) -> None:
    script = tmp_path / "script.py"
    made = f"dist.new_group({of_rank_0}) if rank == 0 else dist.new_group({others})"
    script.write_text(MISMATCH.format(calls=made), encoding="utf-8")
    run = run_file(script, workers=3, engine=engine, stdout=io.StringIO(), stderr=io.StringIO())
    assert run.outcome == "mismatch"
    (told,) = run.process_groups.found["mismatch"]
    assert told.startswith("a process group differs in members: rank ")
    for ranks in (of_rank_0, others):
        assert f"makes it of ranks {ranks}, at script.py:8: " in told


@pytest.mark.sampled(1)
@pytest.mark.parametrize("calls", ORDERS)
def test_equal_calls_in_another_order_are_told(
    tmp_path: Path, calls: str, engine: EngineName
) -> None:
    script, printed = tmp_path / "script.py", io.StringIO()
    script.write_text(MISMATCH.format(calls=TENSORS + calls), encoding="utf-8")
    run = run_file(script, workers=2, engine=engine, stdout=printed, stderr=printed)
    assert run.outcome == "mismatch" and "went on" not in printed.getvalue()
    (told,) = run.process_groups.found["mismatch"]
    assert told.startswith(
        "collectives of the default process group are called in another order: rank 0 "
    )
    for text in ORDERS[calls]:
        assert text in told
    assert told.count("script.py:14: ") == 2


def test_equal_calls_may_come_from_other_lines(tmp_path: Path, engine: EngineName) -> None:
    script, printed = tmp_path / "script.py", io.StringIO()
    script.write_text(MISMATCH.format(calls=TENSORS + IN_ORDER), encoding="utf-8")
    run = run_file(script, workers=2, engine=engine, stdout=printed, stderr=printed)
    assert (run.outcome, run.process_groups.found) == ("ok", {})
    assert printed.getvalue().count("went on") == 2


OVERLAPPING = """
works = [dist.all_reduce(values, async_op=True), dist.all_reduce(torch.ones(2), async_op=True)]
[work.wait() for work in works]
dist.send(values, 1) if rank == 0 else dist.recv(values)
"""


def test_operations_are_in_the_pictures(tmp_path: Path) -> None:
    script, printed = tmp_path / "script.py", io.StringIO()
    script.write_text(MISMATCH.format(calls=OVERLAPPING), encoding="utf-8")
    run = recording(run_file(script, workers=2, engine="torch", stdout=printed, stderr=printed))
    spans = [each for each in spans_of(run) if each.activity is OPERATION]
    found = sorted((int(run.workers_of[each.first]), each.label) for each in spans)
    assert found == [
        *((0, label) for label in ("all_reduce 1", "all_reduce 2", "send 0")),
        *((1, label) for label in ("all_reduce 1", "all_reduce 2", "send 0")),
    ]
    one, two = (each for each in spans[:2])
    assert one.first < two.first < one.last and not any(each.open for each in spans)
    assert {(flow.kind, flow.copy) for flow in flows_of(run)} == {(GROUP, 0)}
    ends = [each for each in perfetto(run)["traceEvents"] if each.get("cat") == OPERATION.name]
    assert [each["ph"] for each in ends] == ["b", "e"] * len(spans)
    assert {each["pid"] for each in ends} == {1, 2}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("calls", STALLS)
def test_who_waits_for_whom_is_told_of_what_cannot_end(
    tmp_path: Path, calls: str, engine: EngineName
) -> None:
    script, printed = tmp_path / "script.py", io.StringIO()
    script.write_text(MISMATCH.format(calls=calls), encoding="utf-8")
    run = run_file(script, workers=2, engine=engine, stdout=printed, stderr=printed)
    outcome, told = STALLS[calls]
    assert (
        run.process_groups.stall is not None
        and run.outcome == run.process_groups.stall.outcome == outcome
    )
    lines = "\n".join(run.process_groups.stall.lines)
    assert told in lines and "script.py:8" in lines


#: messages that another size of is expected
MESSAGES = (
    "dist.recv(torch.ones(5), 0) if rank else dist.send(torch.ones(3), 1)",
    "dist.recv(torch.ones(3)) if rank else dist.send(torch.ones(5), 1)",
    "[each.wait() for each in dist.batch_isend_irecv([dist.P2POp((dist.isend, dist.irecv)[rank], torch.ones(n), 1 - rank) "
    "for n in ((3, 5), (5, 3))[rank]])]",
)


@pytest.mark.parametrize("calls", MESSAGES)
def test_a_message_of_another_size_is_told_of_with_both_lines(
    tmp_path: Path, calls: str, engine: EngineName
) -> None:
    """What has as many bytes gloo takes for what the receiver says that they are."""
    script = tmp_path / "script.py"
    as_many = "dist.recv(values.to(torch.int32)) if rank else dist.send(values, 1)"
    script.write_text(MISMATCH.format(calls=f"{as_many}\n{calls}"), encoding="utf-8")
    run = run_file(script, workers=2, engine=engine, stdout=io.StringIO(), stderr=io.StringIO())
    assert run.outcome == "mismatch"
    (told,) = run.process_groups.found["mismatch"]
    assert told.startswith(
        "a message of the default process group with tag 0 differs in bytes: rank 0 calls send("
    )
    assert "; rank 1 calls recv(type torch.float32, elements " in told
    assert told.count("script.py:9: ") == 2


LOCKED = """
import threading, time
lock, other = threading.Lock(), dist.new_group([0, 1])

def beside():
    with lock:
        dist.all_reduce(torch.ones(2), group=other)

thread = threading.Thread(target=beside)
if rank == 0:
    thread.start()
    time.sleep(0.5)
with lock:
    dist.all_reduce(values)
if rank == 1:
    thread.start()
"""


def test_a_lock_that_is_held_over_a_collective_of_another_thread_is_part_of_the_circle(
    tmp_path: Path, engine: EngineName
) -> None:
    script = tmp_path / "script.py"
    script.write_text(MISMATCH.format(calls=LOCKED), encoding="utf-8")
    run = run_file(script, workers=2, engine=engine, stdout=io.StringIO(), stderr=io.StringIO())
    assert run.process_groups.stall is not None and run.outcome == "deadlock"
    assert run.process_groups.stall.lines[0] == (
        "deadlock: thread `Thread-1 (beside)` on rank 0 holds `lock` (script.py:13) and waits for rank 1 to call `all_reduce` "
        "in the process group of ranks 0 and 1 made at script.py:10 (script.py:14); rank 1 waits for rank 0 to call `all_reduce` (script.py:21); rank 0 waits for `lock` (script.py:20)"
    )


CATCHING = """
import datetime, os, time
import torch
import torch.distributed as dist

limit = datetime.timedelta(seconds=2)
dist.init_process_group("gloo", timeout=limit)
rank, values = dist.get_rank(), torch.ones(4)
try:
    {calls}
except RuntimeError:
    print("went on", flush=True)
{then}
"""
#: what a script does and catches: how the run ends, and what is told of it
CAUGHT_STALLS = {
    ("dist.recv(values, 1 - rank)", ""): (
        "deadlock",
        "rank 0 waits for a message of rank 1 with tag 0",
    ),
    ("rank or dist.all_reduce(values)", "os._exit(0)"): (
        "mismatch",
        "rank 1 leaves the group without it",
    ),
    ("dist.all_reduce(values); rank or dist.barrier()", ""): (
        "mismatch",
        "rank 1 leaves the group without it",
    ),
    ("rank and time.sleep(3); dist.all_reduce(values)", ""): (
        "ok",
        "hang: rank 0 waits for rank 1 to call `all_reduce` (script.py:10)",
    ),
    # It forms another group, and has no mind to come back to what was too late.
    (
        "rank and time.sleep(3) or rank or dist.all_reduce(values)",
        "dist.destroy_process_group(); time.sleep(1)\n"
        "dist.init_process_group('gloo', timeout=limit); dist.all_reduce(values)",
    ): ("ok", "hang: rank 0 waits for rank 1 to call `all_reduce` (script.py:10)"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", CAUGHT_STALLS)
def test_what_a_script_catches_is_told(
    tmp_path: Path, script: tuple[str, str], engine: EngineName
) -> None:
    """And is wrong all the same where no time limit would have been long enough."""
    file = tmp_path / "script.py"
    calls, then = script
    file.write_text(CATCHING.format(calls=calls, then=then), encoding="utf-8")
    options = ("--workers", "2", "--engine", engine, "--allow-unchecked")
    done = squall("run", str(file), *options)
    outcome, told = CAUGHT_STALLS[script]
    assert "went on" in done.stdout and f"outcome        {outcome} " in done.stdout
    assert "why an operation of a process group failed:" in done.stdout and told in done.stdout
    assert done.returncode == (outcome in ("deadlock", "mismatch"))


SUBGROUP = """
group = dist.new_group([1, 2])
if rank:
    {calls}
"""


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        (
            "dist.broadcast(values, rank, group=group)",
            "rank 1 calls broadcast(|root 1|rank 2 calls broadcast(|root 2",
        ),
        (
            "rank == 2 or dist.barrier(group=group)",
            "rank 1 calls barrier()|; rank 2 leaves the group without it",
        ),
        (
            "rank == 1 or dist.recv(values, 1, group=group)",
            "rank 2 waits for a message of rank 1 with tag 0",
        ),
    ],
)
def test_ranks_are_those_of_the_first_group(
    tmp_path: Path, calls: str, told: str, engine: EngineName
) -> None:
    script = tmp_path / "script.py"
    then = "\ndist.destroy_process_group()"
    script.write_text(MISMATCH.format(calls=SUBGROUP.format(calls=calls) + then), encoding="utf-8")
    run = run_file(script, workers=3, engine=engine, stdout=io.StringIO(), stderr=io.StringIO())
    stall = [] if run.process_groups.stall is None else run.process_groups.stall.lines
    text = "; ".join([*run.process_groups.found.get("mismatch", []), *stall])
    assert [each for each in told.split("|") if each not in text] == [], text


def test_who_waits_for_a_member_that_has_left_is_told(tmp_path: Path, engine: EngineName) -> None:
    script = tmp_path / "script.py"
    calls = "dist.recv(values, 1) if rank == 0 else dist.destroy_process_group()"
    script.write_text(MISMATCH.format(calls=calls), encoding="utf-8")
    run = run_file(script, workers=2, engine=engine, stdout=io.StringIO(), stderr=io.StringIO())
    waits = "rank 0 waits for a message of rank 1 with tag 0 (script.py:8)"
    assert run.process_groups.stall == ("error", [f"{waits}; rank 1 has left the process group"])


def test_a_run_may_go_on_after_a_mismatch(tmp_path: Path, engine: EngineName) -> None:
    script = tmp_path / "script.py"
    calls = "dist.all_reduce(values, (ReduceOp.SUM, ReduceOp.MAX)[rank])"
    script.write_text(MISMATCH.format(calls=calls), encoding="utf-8")
    done = squall("run", str(script), "--workers", "2", "--engine", engine, "--go-on")
    assert (done.returncode, done.stdout.count("went on")) == (1, 2)
    assert "collectives that do not go together" in done.stdout
    assert "outcome        mismatch" in done.stdout
