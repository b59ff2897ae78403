"""Where the processor time of a scenario of ``squall fuzz --groups`` goes, by the way in which its training is distributed.

    python -m benchmarks.trainings [FIRST [LAST]]

Milliseconds of processor time a scenario: of the coordinator (draw, network, checks), and of the processes of ranks, with
making them; beside it, of the same scripts without any simulation, with gloo, each rank a copy of a process that has imported
all. A last line says how many a second that makes on one core. Before it, a training of each kind is played,
so that what is done once in a campaign does not count; without simulation it counts, since nothing is done once there.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import socket
import sys
import time
from collections import defaultdict
from types import CodeType

import torch

from squall.sim.search.draw import Settings
from squall.sim.search.judge import judge
from squall.sim.stock.shared import computed_s
from squall.sim.trainings.draw import draw_training
from squall.sim.trainings.render import script_text
from squall.sim.trainings.training import Training
from squall.sim.world.garbage import still_garbage

SETTINGS = Settings(engine="torch", groups=True)


#: what trainings import
_IMPORTED = ("checkpoint", "fsdp", "optim", "pipelining", "rpc", "tensor.parallel")


def spent() -> tuple[float, float]:
    """Seconds so far: of this process, and of those of ranks."""
    return time.process_time(), computed_s()


def main(first: int = 0, last: int = 200) -> None:
    for name in _IMPORTED:  # before processes are copied: it changes the environment
        importlib.import_module(f"torch.distributed.{name}")
    seeds: dict[str, list[int]] = defaultdict(list)
    for seed in range(first, last):
        seeds[draw_training(seed).wrapper].append(seed)
    warm: dict[str, int] = {}
    for seed in range(last, 2 * last - first):
        kind = draw_training(seed).kind
        warm.setdefault(kind, seed)
    print(f"{'':10} {'seeds':>6} {'coordinator':>12} {'ranks':>6} {'all':>6} {'stock':>6}  ms")
    whole = [0.0, 0.0, 0.0]
    with still_garbage():
        for seed in warm.values():
            judge(seed, SETTINGS)
        for wrapper, group in seeds.items():
            before = spent()
            for seed in group:
                judge(seed, SETTINGS)
            took = [after - at for at, after in zip(before, spent(), strict=True)]
            took.append(sum(on_stock(draw_training(seed)) for seed in group))
            whole = [total + each for total, each in zip(whole, took, strict=True)]
            print(_row(wrapper, took, len(group)), flush=True)
    print(_row("all", whole, last - first))
    print(f"{(last - first) / sum(whole[:2]):.1f} scenarios a second of one core")


def _row(name: str, took: list[float], scenarios: int) -> str:
    coordinator, ranks, stock = (1000 * part / scenarios for part in took)
    both = coordinator + ranks
    return f"{name:10} {scenarios:6} {coordinator:12.0f} {ranks:6.0f} {both:6.0f} {stock:6.0f}"


def on_stock(training: Training) -> float:
    """Seconds of a processor that its ranks take, copies of this process, with gloo."""
    gc.freeze()
    code = compile(script_text(training), "training", "exec")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    ranks = [_rank(code, rank, training.ranks, port) for rank in range(training.ranks)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
    assert not any(codes), (training, codes)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rank(code: CodeType, rank: int, ranks: int, port: int) -> int:
    """Its process."""
    pid = os.fork()
    if pid:
        return pid
    place = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    gc.disable()
    torch.set_num_threads(1)
    failed = True
    try:
        exec(code, {"__name__": "__main__"})
        failed = False
    finally:
        os._exit(failed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
