"""Hooks that wait in a backward pass of PyTorch's own, while other ranks are in theirs."""

from __future__ import annotations

from pathlib import Path

import torch

from squall.properties.sim.scripts.test_processes import run
from squall.sim.names import EngineName

#: six leaves side by side, each of whose gradients is summed over the ranks as it comes
WIDE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
leaves = [torch.randn(3, 3, requires_grad=True) for _ in range(6)]
elsewhere = []

def sums(gradient):
    if dist.get_rank() != rank:
        elsewhere.append(dist.get_rank())
    gradient = gradient.clone()
    dist.all_reduce(gradient)
    return gradient

for leaf in leaves:
    leaf.register_hook(sums)
for _ in range(2):
    x = torch.ones(2, 3) + rank
    sum(torch.tanh(x @ leaf) for leaf in leaves).sum().backward()
print(rank, elsewhere, sum(leaf.grad.sum() for leaf in leaves).item().hex(), flush=True)
dist.destroy_process_group()
"""


def test_each_rank_runs_its_own_hooks(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    found, said = run(tmp_path, engine, WIDE, workers=3)
    assert found.errors == []
    ranks, elsewhere, sums = zip(
        *(line.split(" ", 2) for line in sorted(said.splitlines())), strict=True
    )
    assert ranks == ("0", "1", "2") and set(elsewhere) == {"[]"}
    assert len(set(sums)) == 1
    # what one process computes, which adds the same numbers in another order
    torch.manual_seed(0)
    leaves = [torch.randn(3, 3, requires_grad=True) for _ in range(6)]
    for _ in range(2):
        for rank in range(3):
            x = torch.ones(2, 3) + rank
            sum(torch.tanh(x @ leaf) for leaf in leaves).sum().backward()  # type: ignore[union-attr]
    total = sum(leaf.grad.sum().item() for leaf in leaves)  # type: ignore[union-attr]
    assert abs(float.fromhex(sums[0]) - total) < 1e-4


FSDP = """
import torch, torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as Sharded
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
model = torch.nn.Sequential(torch.nn.Linear(6, 8), Sharded(inner, device_id=torch.device("cpu")))
model = Sharded(model, device_id=torch.device("cpu"))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(2):
    loss = model(torch.ones(5, 6) * (rank + step)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(rank, step, loss.item().hex(), flush=True)
dist.destroy_process_group()
"""


def test_a_module_whose_hooks_wait_is_trained_as_on_pytorchs_engine(
    tmp_path: Path, compiled_engine: None
) -> None:
    lines = []
    for engine in ("port", "torch"):
        (tmp_path / engine).mkdir()
        found, said = run(tmp_path / engine, engine, FSDP, workers=2)
        assert found.errors == []
        lines.append(sorted(said.splitlines()))
    assert lines[0] == lines[1] and len(lines[0]) == 4


NESTED = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
leaf = torch.ones(3, requires_grad=True)

def hook(gradient):
    dist.all_reduce(gradient.clone())
    inner = torch.ones(2, requires_grad=True)
    inner.register_hook(lambda gradient: dist.barrier())
    with torch.enable_grad():
        inner.sum().backward()
    if rank == 1:
        raise KeyError("its own")

leaf.register_hook(hook)
try:
    (leaf * 2).sum().backward()
except KeyError as error:
    print(rank, error, torch.is_grad_enabled(), flush=True)
else:
    print(rank, leaf.grad.tolist(), torch.is_grad_enabled(), flush=True)
dist.destroy_process_group()
"""


def test_a_hook_may_begin_a_pass_and_fail(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    found, said = run(tmp_path, engine, NESTED, workers=3)
    assert found.errors == []
    assert sorted(said.splitlines()) == [
        "0 [2.0, 2.0, 2.0] True",
        "1 'its own' True",
        "2 [2.0, 2.0, 2.0] True",
    ]


WAITS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
leaf = torch.ones(3, requires_grad=True)

def hook(gradient):
    try:
        if rank:
            dist.recv(torch.zeros(1), src=0, tag=rank)
    finally:
        print("unwound", rank, dist.get_rank(), flush=True)

leaf.register_hook(hook)
(leaf * 2).sum().backward()
"""


def test_what_waits_for_good_is_told_and_ended(tmp_path: Path) -> None:
    found, said = run(tmp_path, "port", WAITS, workers=3)
    assert not found.ok
    assert {"unwound 0 0", "unwound 1 1", "unwound 2 2"} <= set(said.splitlines())
