"""What once went wrong: scripts that PyTorch's own tests have taught us to run as it does."""

from __future__ import annotations

from pathlib import Path

import cloudpickle
import pytest

from squall.properties.support.playing import Played, play, write

SCRIPT = """
import os
import time
import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

BODY

def run(rank):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    main(rank)

if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
"""

GROUP = """
def main(rank):
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        story()
    rpc.shutdown()
"""


def run(folder: Path, body: str) -> Played:
    played = play(write(folder, SCRIPT.replace("BODY", body)))
    assert played.exit_codes == [0] * 3, played.err
    return played


def test_a_reference_that_a_function_received_is_freed_with_its_last_name(tmp_path):
    body = f"""
kept = None

def keep(rref):
    global kept
    kept = rref

def let_go():
    global kept
    kept = None

def story():
    value = rpc.RRef(1)
    rpc.rpc_sync("worker1", keep, args=(value,))
    rpc.rpc_sync("worker1", let_go)
    time.sleep(1)
    print(rpc._rref_context_get_debug_info()["num_owner_rrefs"])

{GROUP}"""
    assert run(tmp_path, body).lines == ["0"]


def test_a_loop_over_the_clock_costs_thousands_of_reads_not_millions(tmp_path):
    body = """
def main(rank):
    if rank == 0:
        reads, start = 0, time.time()
        while time.time() - start < 10:
            reads += 1
        print(reads < 50_000)
"""
    assert run(tmp_path, body).lines == ["True"]


def test_a_clock_that_is_read_now_and_then_keeps_its_pace(tmp_path):
    body = """
def main(rank):
    if rank == 0:
        for _ in range(5000):
            time.monotonic()
            time.sleep(0.001)
        print(round(time.monotonic() - 1000, 1))
"""
    assert run(tmp_path, body).lines == ["5.0"]


def test_what_a_script_puts_in_the_place_of_torchs_own_is_used_and_can_be_put_back(tmp_path):
    body = """
def main(rank):
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    original = rpc.api._wait_all_workers

    def mine(timeout):
        print("mine", rank)
        original(timeout)

    rpc.api._wait_all_workers = mine
    assert rpc.api._wait_all_workers is mine
    rpc.shutdown()
    rpc.api._wait_all_workers = original
    assert rpc.api._wait_all_workers is original
"""
    assert sorted(run(tmp_path, body).lines) == ["mine 0", "mine 1"]


def test_the_future_of_a_call_is_what_torch_calls_a_future(tmp_path):
    body = f"""
def story():
    future = rpc.rpc_async("worker1", torch.add, args=(torch.ones(1), 1))
    print(isinstance(future, torch._C.Future), isinstance(future, torch.futures.Future))
    future.wait()

{GROUP}"""
    assert run(tmp_path, body).lines == ["True True"]


def test_the_type_of_a_remote_value_is_asked_for_once(tmp_path):
    body = f"""
def story():
    rref = rpc.remote("worker1", torch.ones, args=([2],))
    first = rref._get_type(blocking=False)
    assert first.wait() is torch.Tensor
    print(rref._get_type(blocking=False) is first, rref._get_type() is torch.Tensor)

{GROUP}"""
    assert run(tmp_path, body).lines == ["True True"]


def test_a_store_found_by_rendezvous_serves_the_group(tmp_path):
    body = """
def main(rank):
    url = "file:///nowhere/at/all"
    store, own, size = next(dist.rendezvous(url, rank=rank, world_size=2))
    store.set(f"key {own}", str(size))
    print(store.get(f"key {1 - own}"))
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=2)
    own_store = dist.distributed_c10d._get_default_store()
    own_store.set(f"{rank}", "here")
    own_store.wait([f"{1 - rank}"])
"""
    assert run(tmp_path, body).lines == ["b'2'", "b'2'"]


def test_a_counter_of_a_store_may_begin_as_text(tmp_path):
    body = """
def main(rank):
    store = dist.TCPStore("localhost", 29600, 2, rank == 0)
    if rank == 0:
        store.set("count", "40")
        print(store.add("count", 2))
"""
    assert run(tmp_path, body).lines == ["42"]


FAULTY = """
import torch.distributed.rpc._testing

@torch.jit.script
def scripted(x):
    return x + 1

def story():
    call = lambda **kwargs: rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1), **kwargs)
    start = time.time()
    call()
    print("late", round(time.time() - start, 1))
    for _ in range(2):
        try:
            rpc.rpc_sync("worker1", scripted, args=(torch.ones(1),), timeout=1)
        except RuntimeError as error:
            print("RPC ran for more than" in str(error))
    rref = rpc.remote("worker1", time.sleep, args=(0,))
    time.sleep(1)
    try:
        rref.to_here()
    except RuntimeError as error:
        print("RRef creation" in str(error))

def main(rank):
    backend = rpc.backend_registry.BackendType.FAULTY_TENSORPIPE
    options = rpc.construct_rpc_backend_options(
        backend,
        num_worker_threads=8,
        messages_to_fail=["PYTHON_REMOTE_CALL"],
        messages_to_delay={"SCRIPT_CALL": 1.5},
        num_fail_sends=3,
    )
    rpc.init_rpc(f"worker{rank}", backend, rank, 2, options)
    if rank == 0:
        story()
    rpc.shutdown()
"""


def test_the_faulty_backend_delays_and_fails_what_it_is_told_to(tmp_path):
    assert run(tmp_path, FAULTY).lines == ["late 1.5", "True", "True", "True"]


def test_a_pass_through_a_process_that_is_gone_ends_in_an_error(tmp_path):
    body = """
import torch.distributed.autograd as dist_autograd

def double(x):
    return x * 2

def main(rank):
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 1:
        time.sleep(5)
        rpc.shutdown(graceful=False)
        return
    x = torch.ones(2, requires_grad=True)
    with dist_autograd.context() as context_id:
        loss = rpc.rpc_sync("worker1", double, args=(x,)).sum()
        time.sleep(10)
        start = time.time()
        try:
            dist_autograd.backward(context_id, [loss])
        except RuntimeError as error:
            print("worker 1" in str(error), time.time() - start < 1)
        print(dist_autograd._get_debug_info()["num_current_backward_passes"])
    rpc.shutdown(graceful=False)
"""
    assert run(tmp_path, body).lines == ["True True", "0"]


AFTER_A_TIMEOUT = """
SECONDS = [6, 2]
leaf = torch.ones(1, requires_grad=True)

def sleep(gradient):
    time.sleep(SECONDS.pop(0))

def scaled(x, on_the_leaf):
    (leaf if on_the_leaf else x).register_hook(sleep)
    return leaf * x

def gradient_of_leaf(context_id):
    return autograd.get_gradients(context_id)[leaf].item()

def story(on_the_leaf):
    x = torch.ones(1, requires_grad=True)
    with autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", scaled, args=(x, on_the_leaf)).sum()
        try:
            autograd.backward(context_id, [100 * y], retain_graph=True)
        except RuntimeError as error:
            print("ran for more than set timeout" in str(error))
        autograd.backward(context_id, [y])
        print(autograd.get_gradients(context_id)[x].item())
        time.sleep(10)
        print(rpc.rpc_sync("worker1", gradient_of_leaf, args=(context_id,)))

def main(rank):
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=5)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        story(WHERE)
    rpc.shutdown()
"""


@pytest.mark.parametrize(
    ("on_the_leaf", "printed"),
    [(False, ["True", "1.0", "101.0"]), (True, ["True", "1.0", "1.0"])],
)
def test_what_outlasts_a_pass_that_timed_out_is_not_of_the_next_one(tmp_path, on_the_leaf, printed):
    """The argument has the gradient of the second pass alone where its hook sleeps: what the first
    one found comes too late. What either pass had added before that stays."""
    body = AFTER_A_TIMEOUT.replace("WHERE", str(on_the_leaf))
    assert run(tmp_path, f"import torch.distributed.autograd as autograd\n{body}").lines == printed


def test_what_a_script_registers_with_copyreg_is_used(tmp_path):
    body = """
import copyreg
import threading

class Held:
    def __init__(self, number):
        self.number, self.lock = number, threading.Lock()

def reduced(held):
    return Held, (held.number + 1,)

copyreg.pickle(Held, reduced)

def number_of(held):
    return held.number

def story():
    print(rpc.rpc_sync("worker1", number_of, args=(Held(1),)))

GROUP"""
    assert run(tmp_path, body.replace("GROUP", GROUP)).lines == ["2"]


def test_references_behind_an_object_that_cannot_be_read_are_let_go(tmp_path):
    body = """
class Unreadable:
    def __init__(self):
        self.number = 1

    def __setstate__(self, state):
        raise ValueError("planted")

def count(*args):
    return len(args)

def story():
    kept = rpc.RRef(1)
    try:
        rpc.rpc_sync("worker1", count, args=(Unreadable(), kept))
    except Exception as error:
        print(type(error).__name__)
    del kept
    time.sleep(1)
    print(rpc._rref_context_get_debug_info()["num_owner_rrefs"])

GROUP"""
    assert run(tmp_path, body.replace("GROUP", GROUP)).lines == ["RuntimeError", "0"]


def test_cloudpickle_carries_functions_and_what_modules_they_use(tmp_path):
    body = """
import pickle, threading
import cloudpickle

def main(rank):
    def there(x):
        return rpc.get_worker_info().name, dist.is_initialized(), threading.current_thread().name, x

    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        print(rpc.rpc_sync("w1", call, args=(cloudpickle.dumps(there),))[:2])
        try:
            pickle.dumps(time)
        except TypeError as error:
            print(error)
    rpc.shutdown()

def call(function):
    return cloudpickle.loads(function)(3)
"""
    assert cloudpickle.__file__, "it is there outside, too"
    assert run(tmp_path, body).lines == ["('w1', False)", "cannot pickle 'module' object"]


def test_a_hook_of_the_script_sees_its_own_frames_alone(tmp_path):
    body = """
import sys, traceback

def main(rank):
    if rank == 0:
        sys.excepthook = lambda kind, error, trace: print([f.name for f in traceback.extract_tb(trace)])
        raise ValueError("wrong")

if __name__ == "__main__":
    main(0)
    sys.exit()
"""
    played = play(write(tmp_path, SCRIPT.replace("BODY", body)))
    assert played.lines == ["['<module>', 'main']"]
