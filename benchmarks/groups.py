"""What operations of process groups cost on the compiled engine, beside gloo with real processes.

    python -m benchmarks.groups [RANKS [TIMES]]

Milliseconds an operation, by turns: the difference of a run with many and one with few, the least of some.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scripts.read import read_script

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

what, count = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
if what.startswith("step"):
    width = int(what.split()[1])
    model = DistributedDataParallel(nn.Sequential(*[nn.Linear(width, width) for _ in range(4)]))
    optimizer, inputs = torch.optim.SGD(model.parameters(), lr=0.01), torch.ones(2, width)
else:
    values = torch.ones(int(what.split()[1]))
for _ in range(count):
    if what.startswith("step"):
        model(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    else:
        dist.all_reduce(values)
dist.barrier()
dist.destroy_process_group()
"""
#: what, and how many more of it there are in the longer run
WHATS = {
    "all_reduce 1": 100,
    "all_reduce 262144": 40,
    "all_reduce 1048576": 20,
    "step 32": 40,
    "step 512": 10,
}


def gloo(path: Path, ranks: int, what: str, count: int) -> None:
    """Run it with real processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", str(path), what, str(count)]
    subprocess.run(command, check=True, capture_output=True)


def simulated(path: Path, ranks: int, what: str, count: int) -> None:
    """Run it with simulated ones."""
    script = read_script(path, (what, str(count)), workers=ranks, check=False)
    scenario = Scenario(work=script, seed=1, world=World(latency="0"), engine="torch")
    run = ENGINES["torch"].run(scenario, stdout=io.StringIO(), stderr=io.StringIO())
    assert not run.errors, run.errors


def measure(ranks: int = 4, times: int = 3) -> dict[str, tuple[float, float]]:
    """Milliseconds of each, on gloo and simulated."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(SCRIPT)
        for what, more in WHATS.items():
            least: dict[tuple[object, int], float] = {}
            for _ in range(times):
                for play in (gloo, simulated):
                    for count in (1, 1 + more):
                        began = time.perf_counter()
                        play(path, ranks, what, count)
                        took = time.perf_counter() - began
                        least[play, count] = min(took, least.get((play, count), took))
            one, two = ((least[p, 1 + more] - least[p, 1]) / more * 1e3 for p in (gloo, simulated))
            found[what] = one, two
    return found


if __name__ == "__main__":
    for what, (stock_ms, own_ms) in measure(*map(int, sys.argv[1:])).items():
        print(
            f"{what:20} gloo {stock_ms:7.2f} ms, simulated {own_ms:7.2f} ms, {own_ms / stock_ms:.2f}x"
        )
