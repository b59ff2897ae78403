"""The legacy profiler follows the task that started it, and the calls that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from squall.properties.support.playing import play, write
from squall.real.autograd.functions import _FUNCTIONS_KEEP_THEIR_NODES
from squall.real.rpc import api as rpc
from squall.real.rpc.profiling import LegacyProfiler, ProfilerOptions
from squall.real.rpc.server_profiling import _disable_server_process_global_profiler
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.programs.stories.calls import sleep
from squall.sim.programs.stories.server_profiles import begin_profile

FACTS = ("name", "kind", "handle", "sequence_nr")

SCRIPT = """
import os
import time
import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.autograd.profiler_legacy import profile

def work(x):
    time.sleep(1)
    return torch.mul(x, 2)

def nested(x):
    return rpc.rpc_sync("worker2", work, args=(x,))

BODY

def run(rank):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        main()
    rpc.shutdown()

if __name__ == "__main__":
    mp.spawn(run, nprocs=3)
"""


def lines(folder: Path, body: str) -> list[str]:
    played = play(write(folder, SCRIPT.replace("BODY", body)))
    assert played.exit_codes == [0] * 4, played.err
    return played.lines


def test_a_call_is_a_range_and_what_it_does_elsewhere_comes_with_it(tmp_path):
    body = """
def main():
    with profile() as p:
        rpc.rpc_sync("worker1", work, args=(torch.ones(2),))
    for event in p.function_events:
        if event.name.endswith(("mul", ")")):
            print(event.name, event.node_id, event.is_remote, round(event.cpu_time_total / 1e6))
"""
    call = "rpc_sync#work(worker0 -> worker1)"
    assert lines(tmp_path, body) == [
        f"{call} 0 False 1",
        f"{call}#remote_op: aten::mul 1 True 0",
    ]


def test_a_profile_is_the_same_whatever_ran_before_it() -> None:
    """The size of what is sent of it counts, and the digest of a run is made of such things."""

    def main(rank: int) -> list[list[Any]]:
        profiler = LegacyProfiler(current_worker(), ProfilerOptions())
        profiler.start()
        x = torch.ones(2, requires_grad=True)
        (x * x + x).sum().backward()  # type: ignore[no-untyped-call]
        profiler.stop()
        return [[each[fact] for fact in FACTS] for each in profiler.finish()[0]]

    with Cluster(1) as cluster:
        (first,) = cluster.run(main)
    with Cluster(1) as cluster:
        (again,) = cluster.run(main)
    assert again == first
    pushed = [handle for _, kind, handle, _ in first if kind == "push"]
    popped = [handle for _, kind, handle, _ in first if kind == "pop"]
    assert len(pushed) > 5 and sorted(pushed) == sorted(popped) == sorted({*pushed})
    # A node of a backward pass and the operation that it belongs to have one number.
    numbers = {name: number for name, _, _, number in first if number > 0}
    assert numbers["MulBackward0"] == numbers["aten::mul"] != numbers["aten::add"]


def test_a_call_within_a_call_is_named_by_both(tmp_path):
    body = """
def main():
    with profile() as p:
        rpc.rpc_async("worker1", nested, args=(torch.ones(2),)).wait()
    print([e.name for e in p.function_events if e.name.endswith("aten::mul")])
    print([e.node_id for e in p.function_events if e.name.endswith("aten::mul")])
"""
    name = (
        "rpc_async#nested(worker0 -> worker1)#remote_op: "
        "rpc_sync#work(worker1 -> worker2)#remote_op: aten::mul"
    )
    assert lines(tmp_path, body) == [str([name]), "[2]"]


def test_memory_is_that_of_the_cpu_at_both_ends(tmp_path):
    body = """
def main():
    with profile(profile_memory=True) as p:
        rpc.rpc_sync("worker1", work, args=(torch.ones(2),))
        torch.mul(torch.ones(2), 2)
    for event in p.function_events:
        if event.name.endswith("aten::mul"):
            print(event.is_remote, event.cpu_memory_usage, event.device_memory_usage)
"""
    assert lines(tmp_path, body) == ["True 8 0", "False 8 0"]


def test_what_keeps_a_node_is_an_operator_only_where_it_must_be(tmp_path):
    """Up to torch 2.11 a node above that of a custom function has to keep it."""
    body = """
import torch.distributed.autograd as dist_autograd

class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad

def main():
    x = Same.apply(torch.ones(2, requires_grad=True))
    with dist_autograd.context(), profile() as p:
        rpc.rpc_sync("worker1", work, args=(x,))
    print(any(e.name == "aten::view_as" for e in p.function_events))
"""
    assert lines(tmp_path, body) == [str(not _FUNCTIONS_KEEP_THEIR_NODES)]


def test_what_others_do_meanwhile_is_not_recorded(tmp_path):
    body = """
import threading

def main():
    stop = threading.Event()
    def busy():
        while not stop.wait(0.1):
            torch.add(torch.ones(1), 1)
    thread = threading.Thread(target=busy)
    thread.start()
    with profile() as p:
        time.sleep(1)
        torch.sub(torch.ones(1), 1)
    stop.set()
    thread.join()
    names = [e.name for e in p.function_events]
    print("aten::sub" in names, "aten::add" in names)
"""
    assert lines(tmp_path, body) == ["True False"]


def test_two_tasks_profile_at_once(tmp_path):
    body = """
import threading

def main():
    def one(operator, out):
        with profile() as p:
            time.sleep(0.5)
            operator(torch.ones(1), 1)
        out.append(sorted(e.name for e in p.function_events if e.name in ("aten::add", "aten::sub")))
    seen = [], []
    threads = [
        threading.Thread(target=one, args=(operator, out))
        for operator, out in zip((torch.add, torch.sub), seen)
    ]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(*seen)
"""
    assert lines(tmp_path, body) == ["[['aten::add']] [['aten::sub']]"]


def test_a_backward_pass_is_a_range_around_the_functions_that_send_and_receive(tmp_path):
    body = """
import torch.distributed.autograd as dist_autograd

def main():
    x = torch.ones(2, requires_grad=True)
    with dist_autograd.context() as context_id:
        loss = rpc.rpc_sync("worker1", work, args=(x,)).sum()
        with torch.autograd.profiler.profile(use_cpu=True) as p:
            dist_autograd.backward(context_id, [loss])
    for event in p.function_events:
        if "Rpc" in event.name or event.name.endswith("::backward"):
            print(event.name.rpartition("::")[2], event.count, event.node_id)
    whole, *parts = [e for e in p.function_events if e.name.startswith("torch::distributed")]
    print(all(whole.cpu_time_total > part.cpu_time_total for part in parts))
    print(sum(e.name == "SumBackward0" for e in p.function_events))
"""
    ranges = ["backward 1 0", "RecvRpcBackward 1 0", "SendRpcBackward 1 0"]
    assert lines(tmp_path, body) == [*ranges, "True", "1"]


def test_a_server_is_profiled_request_by_request(tmp_path):
    body = """
def names(profile):
    events = profile.local_value().process_global_function_events
    return [[e.name for e in request if e.name in ("aten::add", "aten::sub")] for request in events]

def main():
    one = torch.ones(1)
    outer = rpc.remote("worker1", rpc._server_process_global_profile)
    outer.rpc_sync().__enter__()
    rpc.rpc_sync("worker1", torch.add, args=(one, 1))
    inner = rpc.remote("worker1", rpc._server_process_global_profile)
    inner.rpc_sync().__enter__()
    rpc.rpc_sync("worker1", torch.sub, args=(one, 1))
    inner.rpc_sync().__exit__(None, None, None)
    rpc.rpc_sync("worker1", torch.add, args=(one, 1))
    outer.rpc_sync().__exit__(None, None, None)
    rpc.rpc_sync("worker1", torch.add, args=(one, 1))
    for profile in inner, outer:
        print([seen for seen in rpc.rpc_sync("worker1", names, args=(profile,)) if seen])
"""
    add, sub = ["aten::add"], ["aten::sub"]
    assert lines(tmp_path, body) == [str([sub]), str([add, sub, add])]


def test_a_range_ends_with_the_future_of_a_call(tmp_path):
    body = """
def main():
    operators = torch.ops.profiler
    with profile() as p:
        record = operators._record_function_enter("foo", None)
        future = rpc.rpc_async("worker1", work, args=(torch.ones(2),))
        ended = operators._call_end_callbacks_on_jit_fut(record, future)
        print(torch.equal(ended.wait(), torch.full((2,), 2.0)))
        operators._record_function_exit(record)
    print([round(e.cpu_time_total / 1e6) for e in p.function_events if e.name == "foo"])
"""
    assert lines(tmp_path, body) == ["True", "[1]"]


def asks_and_goes_on() -> None:
    rpc.rpc_async("worker0", sleep, args=(1,))


def test_a_call_that_outlives_its_request_does_not_end_in_the_profile_of_it() -> None:
    def main(rank: int) -> list[str]:
        if rank == 0:
            return []
        begin_profile()
        rpc.rpc_sync("worker1", asks_and_goes_on)
        sleep(2)
        ((marks,),) = _disable_server_process_global_profiler()
        begun = [mark.handle() for mark in marks if mark.name().startswith("rpc_async#")]
        return [mark.kind() for mark in marks if mark.handle() in begun]

    with Cluster(2) as cluster:
        assert cluster.run(main)[1] == ["push"]
