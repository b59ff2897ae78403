"""RPC groups of scripts, on both engines: who may join, and what a backend does to messages on purpose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.properties.support.commands import squall

pytestmark = [
    pytest.mark.usefixtures("compiled_engine"),
    pytest.mark.parametrize("engine", ["port", "torch"]),
]

OPEN_GROUP = """
import sys
import torch
import torch.distributed.rpc as rpc

rank = int(sys.argv[1])
options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://localhost:29500")
rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)
names = sorted(each.name for each in rpc.api._get_current_rpc_agent().get_worker_infos())
print("joined", rank, f"w{rank}" in names)
for name in names:
    assert rpc.rpc_sync(name, torch.add, args=(torch.ones(2), rank)).tolist() == [1 + rank] * 2
rpc.shutdown()
"""


def test_a_group_without_a_world_size_is_joined_and_left(tmp_path: Path, engine: str) -> None:
    script = tmp_path / "open_group.py"
    script.write_text(OPEN_GROUP, encoding="utf-8")
    one_per_rank = ("run", str(script), "0", ":", str(script), "1", ":", str(script), "2")
    said = []
    for seed in ("1", "1", "2"):
        done = squall(
            *one_per_rank, "--no-check", "--allow-unchecked", "--engine", engine, "--seed", seed
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert {f"joined {rank} True" for rank in range(3)} <= set(lines)
        said.append(re.findall(r"digest +(\w+)", done.stdout))
    assert said[0] == said[1] != said[2]


TAKEN = """
import sys
import torch.distributed.rpc as rpc

rank = int(sys.argv[1])
options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://localhost:29500")
try:
    rpc.init_rpc(
        "same", rank=rank, rpc_backend_options=options, **{"world_size": 2} if sys.argv[2:] else {}
    )
except RuntimeError as error:
    print(f"rank {rank}: {error}")
else:
    rpc.shutdown(graceful=False)
"""


def test_a_name_that_is_taken_is_refused(tmp_path: Path, engine: str) -> None:
    script = tmp_path / "taken.py"
    script.write_text(TAKEN, encoding="utf-8")
    ran = squall(
        "run", str(script), "0", "static", ":", str(script), "1", "static",
        "--no-check", "--allow-unchecked", "--engine", engine,
    )  # fmt: skip
    said = [line for line in ran.stdout.splitlines() if line.startswith("rank ")]
    assert sorted(said) == [
        "rank 0: RPC worker name same is not unique. Workers 0 and 1 share the same name.",
        "rank 1: RPC worker name same is not unique. Workers 1 and 0 share the same name.",
    ]


FAULTY = """
import torch
import torch.distributed.rpc as rpc
import torch.distributed.rpc._testing as testing
import torch.multiprocessing as mp
import time


def work(rank):
    options = testing.FaultyTensorPipeRpcBackendOptions(
        init_method="tcp://localhost:29500", num_worker_threads=8, rpc_timeout=5.0, num_fail_sends=1,
        messages_to_fail=["SCRIPT_CALL"], messages_to_delay={"PYTHON_CALL": 2.0},
    )
    backend = rpc.backend_registry.BackendType.FAULTY_TENSORPIPE
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, backend=backend, rpc_backend_options=options)
    if rank == 0:
        for number, to in enumerate(("w0", "w1")):
            began = time.time()
            try:
                rpc.rpc_sync(to, torch.add, args=(torch.ones(1), number))
            except RuntimeError as error:
                print(to, "Send attempt 1 failed intentionally" in str(error), time.time() - began < 0.1)
            print(to, rpc.rpc_sync(to, torch.add, args=(torch.ones(1), number)).item())
            began = time.time()
            print(to, rpc.rpc_sync(to, max, args=(1, 2)), 1.9 < time.time() - began < 2.5)
            try:
                rpc.rpc_sync(to, min, args=(1, 2), timeout=1.0)
            except RuntimeError as error:
                print(to, str(error)[:50])
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


def test_the_backend_that_fails_and_delays_does_so(tmp_path: Path, engine: str) -> None:
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY, encoding="utf-8")
    ran = squall("run", str(script), "--no-check", "--allow-unchecked", "--engine", engine)
    for number, to in enumerate(("w0", "w1")):
        assert [line for line in ran.stdout.splitlines() if line.startswith(to)] == [
            f"{to} True True",
            f"{to} {number + 1}.0",
            f"{to} 2 True",
            f"{to} RPCErr:1:RPC ran for more than set timeout (1000 m",
        ], ran.stdout + ran.stderr
