"""What a script leaves behind is counted when it shuts down, and only if all were waited for."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from squall.properties.support.scripts import run_file
from squall.sim.faults import plan as p
from squall.sim.faults.plan import Plan

SCRIPT = """
    import os, sys
    import torch.distributed.rpc as rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        kept = [rpc.remote("worker1", list) for _ in range(3)]
        for rref in kept:
            rref.to_here()
    rpc.shutdown(graceful=sys.argv[1] == "gracefully")
"""


@pytest.mark.parametrize(("how", "leaked"), [("gracefully", 3), ("at once", 0)])
def test_values_whose_deletion_is_lost_are_leaks_of_a_graceful_shutdown(
    tmp_path: Path, how: str, leaked: int
) -> None:
    path = tmp_path / "script.py"
    path.write_text(dedent(SCRIPT))
    lost = Plan(messages=(p.Drop(types=("RREF_USER_DELETE",)),))
    run = run_file(path, how, workers=2, faults=lost, stdout=io.StringIO(), stderr=sys.stderr)
    assert run.leaked_rrefs == leaked
    assert run_file(path, how, workers=2, stdout=io.StringIO()).leaked_rrefs == 0
