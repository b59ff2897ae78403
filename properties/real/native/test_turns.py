"""Threads of a script on PyTorch's engine: in the same order in every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.support.paths import SCRIPTS
from squall.properties.support.scripts import run_file

pytestmark = pytest.mark.usefixtures("compiled_engine")

#: one event wakes several threads, again and again
WOKEN_TOGETHER = """
import os
import threading
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

lock, reentrant = threading.Lock(), threading.RLock()

def slow(number):
    with lock:
        return torch.full((2,), float(number))

def run(rank):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        barrier, never = threading.Barrier(6), threading.Event()
        shared = rpc.rpc_async("w1", slow, args=(1,))

        def work(number):
            barrier.wait()
            for _ in range(3):
                with dist_autograd.context() as context_id:
                    leaf = torch.ones(2, requires_grad=True)
                    factor = rpc.rpc_sync("w1", slow, args=(number,))
                    product = rpc.remote("w1", torch.mul, args=(leaf, factor))
                    dist_autograd.backward(context_id, [product.to_here().sum()])
            shared.wait()
            with lock, reentrant:
                rpc.rpc_sync("w1", slow, args=(number,))
            barrier.wait()
            assert not never.wait(5)
            assert lock.acquire(timeout=0.5)
            lock.release()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rpc.shutdown()

if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
"""


def test_threads_that_one_event_wakes_go_on_in_the_same_order(tmp_path: Path) -> None:
    script = tmp_path / "together.py"
    script.write_text(WOKEN_TOGETHER, encoding="utf-8")
    runs = [run_file(script, engine="torch") for _ in range(3)]
    assert [(run.errors, run.violations) for run in runs] == [([], [])] * 3
    assert len({run.digest for run in runs}) == 1


@pytest.mark.parametrize("name", ["threads", "thread_pool"])
def test_scripts_with_threads_have_one_digest(name: str) -> None:
    assert len({run_file(SCRIPTS / f"{name}.py", engine="torch").digest for _ in range(3)}) == 1
