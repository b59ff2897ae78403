"""Code that computes and never waits is ended by a limit of real time, with the line where it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.sim.scripts.test_processes import run
from squall.sim.names import EngineName
from squall.sim.world.busy_loop import limited

LIMIT_S = 1.5

TRACED = """
import sys
import squall
from pathlib import Path

Path("script.py").write_text({source!r})
squall.run("script.py", workers=1, wall_limit_s=0.5)
sys.settrace(lambda *_: None)
total = lambda: [sum(range(10))]
print(total())
"""

RETRIES = """
import os
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

def work(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    while rank:
        try:
            rpc.rpc_sync("w0", abs, args=(-1,))
        except RuntimeError:
            pass
    raise ValueError("the server has a bug")

if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    mp.spawn(work, nprocs=2)
"""


@pytest.mark.parametrize(
    "source",
    [
        "def spin():\n    while True:\n        pass\nspin()",
        "import threading\n\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()",
        "def spin():\n  while True:\n    try:\n      while True: pass\n    except BaseException: pass\nspin()",
    ],
)  # fmt: skip
def test_a_loop_that_never_yields_is_ended(tmp_path: Path, engine: EngineName, source: str) -> None:
    with limited(LIMIT_S):
        found, _ = run(tmp_path, engine, source)
    assert (found.outcome, found.waits) == ("error", [])
    (error,) = found.errors
    assert error.type == "Livelock" and "computed for 1.5 s" in error.message
    assert "script.py:" in error.message and "while True" in error.message
    assert "script.py" in error.traceback and "/sim/" not in error.traceback


def test_what_computes_without_a_loop_of_its_own_is_told_by_its_line(
    tmp_path: Path, engine: EngineName
) -> None:
    with limited(LIMIT_S):
        found, _ = run(tmp_path, engine, "def spin():\n    for _ in range(10**12): pass\nspin()")
    (error,) = found.errors
    assert error.type == "TimeLimitExceeded" and "computed for 1.5 s" in error.message
    assert "in spin" in error.traceback and "/sim/" not in error.traceback


def test_the_next_run_is_not_disturbed(tmp_path: Path, engine: EngineName) -> None:
    with limited(LIMIT_S):
        run(tmp_path, engine, "while True: pass")
        found, said = run(tmp_path, engine, "print(sum(range(10)))")
    assert (found.errors, said) == ([], "45\n")


@pytest.mark.parametrize("spins", [False, True])
def test_a_tracer_works_after_a_run(tmp_path: Path, spins: bool) -> None:
    """What was to be raised and is not may keep CPython 3.11 at the first line under a tracer."""
    (tmp_path / "traced.py").write_text(
        TRACED.format(source="while True: pass" if spins else ""), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "traced.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "[45]\n"), done.stderr


def test_who_waits_now_and_then_may_compute_for_long(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import time
        for _ in range(8):
            for _ in range(3_000_000): pass
            time.sleep(0.001)
        print("over")
    """
    with limited(0.6):
        found, said = run(tmp_path, engine, source)
    assert (found.errors, said) == ([], "over\n")


def test_time_goes_on_while_somebody_calls_a_worker_that_is_gone(tmp_path: Path) -> None:
    """Each call is refused at once; who has started both ends the one that tries for ever."""
    found, _ = run(tmp_path, "port", RETRIES)
    assert found.outcome == "error" and "the server has a bug" in found.errors[0].message
    assert found.ended_s < 1
