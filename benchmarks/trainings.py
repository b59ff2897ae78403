"""Where the processor time of a scenario of ``squall fuzz --groups`` goes, by the way in which its training is distributed.

    python -m benchmarks.trainings [FIRST [LAST]]

Milliseconds of processor time a scenario: of the coordinator (draw, network, checks), of making copies of a process
(fork), and of the ranks. A second line says how many a second that makes on one core. Before it, two trainings of each
kind are played, so that what is done once in a campaign does not count.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict

from squall.sim.search.draw import Settings
from squall.sim.search.judge import judge
from squall.sim.stock.shared import zygote_pids
from squall.sim.trainings.draw import draw_training
from squall.sim.world.garbage import still_garbage

SETTINGS = Settings(engine="torch", groups=True)
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def spent() -> tuple[float, float, float]:
    """Seconds so far: of this process, of those that are copied, and of their copies that have ended."""
    own = copied = 0.0
    for pid in zygote_pids():
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        own += sum(map(int, fields[11:13])) * _TICK_S
        copied += sum(map(int, fields[13:15])) * _TICK_S
    return time.process_time(), own, copied


def main(first: int = 0, last: int = 200) -> None:
    seeds: dict[str, list[int]] = defaultdict(list)
    for seed in range(first, last):
        seeds[draw_training(seed).wrapper].append(seed)
    warm: dict[str, int] = {}
    for seed in range(last, 2 * last - first):
        kind = draw_training(seed).kind
        warm.setdefault(kind, seed)
    print(f"{'':10} {'seeds':>6} {'coordinator':>12} {'fork':>6} {'ranks':>6} {'all':>6}  ms")
    whole = [0.0, 0.0, 0.0]
    with still_garbage():
        for seed in warm.values():
            judge(seed, SETTINGS)
        for wrapper, group in seeds.items():
            before = spent()
            for seed in group:
                judge(seed, SETTINGS)
            took = [after - at for at, after in zip(before, spent(), strict=True)]
            whole = [total + each for total, each in zip(whole, took, strict=True)]
            print(_row(wrapper, took, len(group)), flush=True)
    print(_row("all", whole, last - first))
    print(f"{(last - first) / sum(whole):.1f} scenarios a second of one core")


def _row(name: str, took: list[float], scenarios: int) -> str:
    each = [1000 * part / scenarios for part in (*took, sum(took))]
    return f"{name:10} {scenarios:6} {each[0]:12.0f} {each[1]:6.0f} {each[2]:6.0f} {each[3]:6.0f}"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
