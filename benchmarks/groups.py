"""What operations of process groups cost on the compiled engine, beside gloo with real processes.

    python -m benchmarks.groups [RANKS [TIMES]]

Milliseconds an operation on the wall's clock, by turns: the least of all rounds of all turns. Rank 0 prints what its
clock shows when a round begins and ends; that of a simulated one is virtual, so there who hears it looks at the clock.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, cast

from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scripts.read_script import read_script

#: what, and how often a round does it
WHATS = {
    "all_reduce 1": 50,
    "all_reduce 262144": 10,
    "all_reduce 1048576": 5,
    "step 32": 10,
    "step 512": 5,
}
ROUNDS = 4
SCRIPT = f"""
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")


def work(what, size):
    if what == "all_reduce":
        values = torch.ones(size)
        return lambda: dist.all_reduce(values)
    model = DistributedDataParallel(nn.Sequential(*[nn.Linear(size, size) for _ in range(4)]))
    optimizer, inputs = torch.optim.SGD(model.parameters(), lr=0.01), torch.ones(2, size)

    def step():
        model(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


for name, count in {WHATS}.items():
    what, size = name.split()
    once = work(what, int(size))
    once()
    for _ in range({ROUNDS}):
        for when in ("begin", "end"):
            dist.barrier()
            if dist.get_rank() == 0:
                print(when, count, time.perf_counter(), name, flush=True)
            if when == "begin":
                for _ in range(count):
                    once()
dist.destroy_process_group()
"""


class Clock:
    """A stream for what is printed. ``least``: by what, seconds of the shortest round for each time that it was
    done. ``is_virtual``: whether the times that are printed are."""

    def __init__(self, is_virtual: bool) -> None:
        self.least: dict[str, float] = {}
        self._is_virtual = is_virtual
        self._began_s = 0.0

    def write(self, text: str) -> int:
        for line in text.splitlines():
            when, count, shown_s, what = line.split(maxsplit=3)
            now_s = time.perf_counter() if self._is_virtual else float(shown_s)
            if when == "begin":
                self._began_s = now_s
            else:
                took_s = (now_s - self._began_s) / int(count)
                self.least[what] = min(took_s, self.least.get(what, took_s))
        return len(text)

    def flush(self) -> None:
        """There is nothing to flush."""


def gloo(path: Path, ranks: int, clock: Clock) -> None:
    """Run it with real processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    clock.write(done.stdout)


def simulated(path: Path, ranks: int, clock: Clock) -> None:
    """Run it with simulated ones."""
    script = read_script(path, workers=ranks, check=False)
    scenario = Scenario(work=script, seed=1, world=World(latency="0"), engine="torch")
    run = ENGINES["torch"].run(scenario, stdout=cast(TextIO, clock))
    assert not run.errors, run.errors


def measure(ranks: int = 4, times: int = 3) -> dict[str, tuple[float, float]]:
    """Milliseconds of each, on gloo and simulated."""
    plays: tuple[tuple[Callable[[Path, int, Clock], None], Clock], ...]
    plays = (gloo, Clock(is_virtual=False)), (simulated, Clock(is_virtual=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(SCRIPT, encoding="utf-8")
        for _ in range(times):
            for play, clock in plays:
                play(path, ranks, clock)
    one, two = (clock.least for _, clock in plays)
    return {what: (one[what] * 1e3, two[what] * 1e3) for what in WHATS}


if __name__ == "__main__":
    for what, (stock_ms, own_ms) in measure(*map(int, sys.argv[1:])).items():
        print(
            f"{what:20} gloo {stock_ms:7.2f} ms, simulated {own_ms:7.2f} ms, {own_ms / stock_ms:.2f}x"
        )
