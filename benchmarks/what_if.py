"""What ``squall what-if`` says of an all_reduce, beside gloo with real processes on this machine.

    python -m benchmarks.what_if [TIMES [TURNS]]

Latency and bandwidth are those with which a ring takes what was measured of every other size, as nearly as it can; the
sizes between are predicted. Twice: of sizes that lie in a processor's caches, and of some that do not, since a byte does
not cost the same in both. Milliseconds; of the measured ones the least of all times of all turns.
"""

from __future__ import annotations

import io
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.groups import Clock, gloo
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scripts.read_script import read_script

RANKS = 2
#: bytes; costs are taken from every other one
RANGES = (
    (1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20),
    (1 << 22, 1 << 23, 1 << 24),
)
SCRIPT = """
import sys, time
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
for size in {sizes}:
    values = torch.ones(size // 4)
    for _ in range({times}):
        dist.barrier()
        began_s = time.perf_counter()
        dist.all_reduce(values)
        ended_s = time.perf_counter()
        if dist.get_rank() == 0:
            print("begin", 1, began_s, size)
            print("end", 1, ended_s, size, flush=True)
dist.barrier()
"""


def measured(folder: Path, times: int, turns: int) -> dict[int, float]:
    """Seconds by size, with real processes."""
    clock = Clock(is_virtual=False)
    path = folder / "measured.py"
    sizes = [size for each in RANGES for size in each]
    path.write_text(SCRIPT.format(sizes=sizes, times=times), encoding="utf-8")
    for _ in range(turns):
        gloo(path, RANKS, clock)
    return {int(size): seconds for size, seconds in clock.least.items()}


def predicted(folder: Path, sizes: tuple[int, ...], links: str) -> dict[int, float]:
    """Seconds by size, on links that cost so much."""
    path, printed = folder / "predicted.py", io.StringIO()
    path.write_text(SCRIPT.format(sizes=sizes, times=1), encoding="utf-8")
    script = replace(read_script(path, workers=RANKS, check=False), replicas=False)
    world = World(latency="0", links=links)
    run = ENGINES["torch"].run(
        Scenario(work=script, world=world, engine="torch"), stdout=printed, stderr=printed
    )
    assert not run.errors, run.errors
    clock = Clock(is_virtual=False)  # it prints what its own clock shows
    clock.write(printed.getvalue())
    return {int(size): seconds for size, seconds in clock.least.items()}


def costs(took: dict[int, float]) -> tuple[float, float]:
    """Latency in seconds and bandwidth in bytes a second with which a ring takes that by size, at the least sum of squares
    of what it is off in parts of it."""
    sizes, seconds = (np.array([*each], float) for each in (took, took.values()))
    rows, ones = np.stack([1 / seconds, sizes / seconds], axis=1), np.ones(len(took))
    fixed_s, per_byte_s = np.linalg.lstsq(rows, ones, rcond=None)[0]
    if fixed_s < 0:
        fixed_s, per_byte_s = 0.0, rows[:, 1] @ ones / (rows[:, 1] @ rows[:, 1])
    steps = 2 * (RANKS - 1)
    return fixed_s / steps, steps / RANKS / per_byte_s


def main(times: int = 60, turns: int = 4) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        took = measured(folder, times, turns)
        for sizes in RANGES:
            latency_s, bytes_per_s = costs({size: took[size] for size in sizes[::2]})
            links = f"latency={latency_s * 1e6:.1f}us,bandwidth={bytes_per_s:.4g}"
            print(links)
            for size, seconds in predicted(folder, sizes, links).items():
                which = "" if size in sizes[::2] else "  predicted"
                print(
                    f"{size:10,} bytes  gloo {took[size] * 1e3:7.3f}, what-if {seconds * 1e3:7.3f}, "
                    f"{seconds / took[size]:.2f}x{which}"
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
