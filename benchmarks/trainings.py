"""Where the processor time of a scenario of ``squall fuzz --groups`` goes, by the way in which its training is distributed.

    python -m benchmarks.trainings [FIRST [LAST]]

Milliseconds of processor time a scenario: of the coordinator (draw, network, checks), and of the processes of ranks, with
making them. A last line says how many a second that makes on one core. Before it, a training of each kind is played,
so that what is done once in a campaign does not count.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict

from squall.sim.search.draw import Settings
from squall.sim.search.judge import judge
from squall.sim.stock.shared import computed_s
from squall.sim.trainings.draw import draw_training
from squall.sim.world.garbage import still_garbage

SETTINGS = Settings(engine="torch", groups=True)


def spent() -> tuple[float, float]:
    """Seconds so far: of this process, and of those of ranks."""
    return time.process_time(), computed_s()


def main(first: int = 0, last: int = 200) -> None:
    seeds: dict[str, list[int]] = defaultdict(list)
    for seed in range(first, last):
        seeds[draw_training(seed).wrapper].append(seed)
    warm: dict[str, int] = {}
    for seed in range(last, 2 * last - first):
        kind = draw_training(seed).kind
        warm.setdefault(kind, seed)
    print(f"{'':10} {'seeds':>6} {'coordinator':>12} {'ranks':>6} {'all':>6}  ms")
    whole = [0.0, 0.0]
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
    return f"{name:10} {scenarios:6} {each[0]:12.0f} {each[1]:6.0f} {each[2]:6.0f}"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
