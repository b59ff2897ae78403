"""``torch.compile`` in scripts on the engine ``torch``."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file

pytestmark = pytest.mark.usefixtures("compiled_engine")

SCRIPT = """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        inputs = torch.full((2, 2), float(step + rank))
        loss = compiled(inputs).square().mean()
        assert loss == model(inputs).square().mean()
        loss.backward()
        optimizer.step()

    @torch.compile(fullgraph=True, backend="eager")
    def summed(values):
        dist.all_reduce(values)
        return values + 1

    print(summed(torch.ones(2)).tolist())
    dist.destroy_process_group()
"""


@pytest.mark.deep("torch.compile takes its time")
def test_modules_and_collectives_are_compiled(tmp_path: Path) -> None:
    printed = io.StringIO()
    path = write(tmp_path, SCRIPT)
    run = run_file(path, workers=2, engine="torch", stdout=printed, stderr=printed)
    assert run.errors == []
    assert printed.getvalue().count("[3.0, 3.0]") == 2
