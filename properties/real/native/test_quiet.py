"""When a process of PyTorch's engine is quiet: never before all its threads wait for good."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from squall.properties.support.commands import squall
from squall.properties.support.paths import PROPERTIES, ROOT

pytestmark = pytest.mark.usefixtures("compiled_engine")


@pytest.fixture(scope="module")
def ring(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("quiet") / "ring"
    command = [compiler, "-O1", "-std=c++20", f"-I{ROOT / 'real' / 'native'}"]
    command += [str(PROPERTIES / "support" / "quiet_ring.cpp"), "-o", str(program), "-lpthread"]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize("way", ["token", "sleep", "child", "timed"])
def test_threads_that_hand_on_a_token_are_never_quiet(ring: Path, way: str) -> None:
    """One of six is at work at any time: it runs, sleeps a little, waits for a child process, or
    waits with a time limit; looked at as often as can be."""
    done = subprocess.run([str(ring), "6", "64", "40", way], capture_output=True, timeout=60)
    assert done.stdout == b"0\n"


WAITS = """
import queue, threading, time
began = time.monotonic()
assert not threading.Event().wait(5.0)
print("event", round(time.monotonic() - began, 3))
try:
    queue.Queue().get(timeout=7.0)
except queue.Empty:
    print("queue", round(time.monotonic() - began, 3))
woken = threading.Event()
threading.Timer(1.5, woken.set).start()
assert woken.wait(1000.0)
print("woken", round(time.monotonic() - began, 3))
"""

THREADS = """
import os, subprocess, sys, threading
import torch, torch.distributed.rpc as rpc, torch.multiprocessing as mp

def train(rank):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        subprocess.run(["sleep", "0.05"], check=True)
        def calls():
            for _ in range(5):
                rpc.rpc_sync("w1", torch.add, args=(torch.ones(2), 1))
        threads = [threading.Thread(target=calls) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rpc.shutdown()

if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""


def test_waits_with_a_time_limit_are_virtual(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(WAITS, encoding="utf-8")
    done = squall(
        "run", str(script), "--engine", "torch", "--json", "--no-check", "--allow-unchecked"
    )
    assert done.returncode == 0, done.stderr
    assert [
        line for line in done.stderr.splitlines() if line[:5] in ("event", "queue", "woken")
    ] == [
        "event 5.0",
        "queue 12.0",
        "woken 13.5",
    ]
    assert 13.5 <= json.loads(done.stdout)["virtual_time_s"] < 14


def test_threads_and_child_processes_of_a_script_take_the_same_course(tmp_path: Path) -> None:
    script = tmp_path / "threads.py"
    script.write_text(THREADS, encoding="utf-8")
    reports = []
    for _ in range(3):
        done = squall("run", str(script), "--engine", "torch", "--json", "--no-check")
        assert done.returncode == 0, done.stderr
        reports.append(json.loads(done.stdout))
    assert len({report["digest"] for report in reports}) == 1
    assert reports[0]["messages"]["SCRIPT_CALL"] == 20
