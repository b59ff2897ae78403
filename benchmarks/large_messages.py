"""What a large tensor costs on the compiled engine: a call that takes one and gives it back, and a backward
pass that sends gradients of that size.

The least of some runs, less that of the same run with a tensor of one element, beside a plain copy
of the tensor. Each run is of two processes.

    python -m benchmarks.large_messages [MEGABYTES [TIMES]]
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

import torch

from squall.sim.names import EngineName
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scripts.read_script import read_script

SCRIPT = """
import os, sys
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

rank = int(os.environ["RANK"])
rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
if rank == 0:
    x = torch.ones(int(sys.argv[1]), requires_grad=sys.argv[2] == "pass")
    if x.requires_grad:
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("w1", torch.neg, args=(x,)).sum()
            dist_autograd.backward(context_id, [loss])
    else:
        rpc.rpc_sync("w1", torch.neg, args=(x,))
rpc.shutdown()
"""


def seconds(engine: EngineName, elements: int, what: str, check: bool, times: int) -> float:
    """The least wall time of a run, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(SCRIPT, encoding="utf-8")
        script = read_script(path, (str(elements), what), workers=2, check=check)
        scenario = Scenario(work=script, seed=1, world=World(latency="0.001"), engine=engine)
        found = []
        for _ in range(times):
            began = time.perf_counter()
            run = ENGINES[engine].run(scenario, stdout=io.StringIO(), stderr=io.StringIO())
            found.append(time.perf_counter() - began)
            assert not run.errors, run.errors
    return min(found)


def main(megabytes: int = 128, times: int = 3) -> None:
    elements = megabytes * 1_000_000 // 4
    tensor, copies = torch.ones(elements), []
    for _ in range(5):
        began = time.perf_counter()
        tensor.clone()
        copies.append(time.perf_counter() - began)
    copy_s = min(copies)
    print(f"{megabytes} MB, copied in {copy_s * 1e3:.0f} ms; seconds beyond a run with one element")
    engines: tuple[EngineName, ...] = ("port", "torch")
    for engine in engines:
        seconds(
            engine, 1, "call", False, 1
        )  # the first starts the process that others are copied from
        for what, messages in (("call", 2), ("pass", 4)):
            for check in (False, True) if what == "pass" else (False,):
                own = seconds(engine, elements, what, check, times)
                more_s = own - seconds(engine, 1, what, check, times)
                print(
                    f"{engine:6} {what}{', checked' if check else '':10} {more_s:7.2f} s, "
                    f"{more_s / messages / copy_s:5.1f} copies a message"
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
