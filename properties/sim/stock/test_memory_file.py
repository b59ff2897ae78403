"""Large tensors between the processes of the compiled engine: equal at the other end, and given back."""

from __future__ import annotations

import gc
import io
import os
from pathlib import Path

import pytest
import torch

from squall.properties.support.scripts import run_file
from squall.sim.stock.memory_file import LARGE
from squall.sim.stock.packed import Packed

SCRIPT = """
import os
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

def still_there():
    files = []
    for name in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the folder itself, which was open while it was read
            pass
    with open("/proc/self/maps") as maps:
        return sum("memfd:squall" in each for each in [*files, *maps])

def change(x, small, columns):
    assert torch.equal(x, torch.arange(16_000_000, dtype=torch.float32))
    assert columns.stride() == (1, 1000) and columns[3, 7] == 7003
    assert still_there(), "the tensor came another way"
    x[0] = -1.0  # nobody else's
    return x, small + 1, columns

rank = int(os.environ["RANK"])
rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
if rank == 0:
    x = torch.arange(16_000_000, dtype=torch.float32)
    columns = torch.arange(1_000_000.0, dtype=torch.float64).reshape(1000, 1000).t()
    back, small, again = rpc.rpc_sync("w1", change, args=(x, torch.ones(2), columns))
    assert x[0] == 0.0 and back[0] == -1.0 and torch.equal(x[1:], back[1:])
    assert torch.equal(small, torch.full((2,), 2.0))
    assert torch.equal(again, columns) and again.stride() == columns.stride()
    del back, again
    leaf = torch.ones(1_000_000, requires_grad=True)
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("w1", torch.mul, args=(leaf, torch.arange(1_000_000.0)))
        dist_autograd.backward(context_id, [y.sum()])
        gradient = dist_autograd.get_gradients(context_id)[leaf]
        assert torch.equal(gradient, torch.arange(1_000_000.0))
    del y, gradient
    for who in ("w0", "w1"):
        print(who, "still has", rpc.rpc_sync(who, still_there))
rpc.shutdown()
"""


def files_here() -> list[str]:
    """Files in memory that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return [name for name in found if "memfd:squall" in name]


@pytest.mark.deep("large messages")
@pytest.mark.usefixtures("compiled_engine")
def test_64_megabytes_go_both_ways_and_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_text(SCRIPT, encoding="utf-8")
    in_shm = set(os.listdir("/dev/shm"))
    out, err = io.StringIO(), io.StringIO()
    run = run_file(path, workers=2, engine="torch", stdout=out, stderr=err)
    assert not run.errors, run.errors
    assert run.gradients is not None
    assert (run.gradients.compared, run.gradients.mismatches) == (1, [])
    assert "w0 still has 0" in out.getvalue()
    assert "w1 still has 0" in out.getvalue()
    del run
    gc.collect()
    assert files_here() == []
    assert not {name for name in set(os.listdir("/dev/shm")) - in_shm if "squall" in name}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64, torch.bool])
def test_what_is_packed_is_unpacked(dtype: torch.dtype) -> None:
    large = (torch.arange(LARGE) % 3).to(dtype).reshape(2, -1)
    tensors = [torch.ones(3), large, large.t(), large[:, :1], torch.zeros(())]
    packed = Packed(tensors)
    assert packed.fd is not None
    found = packed.tensors()
    packed.close()
    assert files_here() == []
    for before, after in zip(tensors, found, strict=True):
        assert torch.equal(before, after)
        assert before.dtype == after.dtype
    found[1][0, 0] = 1
    assert large[0, 0] == 0


def test_small_tensors_take_no_file() -> None:
    tensors = [torch.ones(1000), torch.ones(0)]
    packed = Packed(tensors)
    assert packed.fd is None
    assert all(map(torch.equal, packed.tensors(), tensors))
