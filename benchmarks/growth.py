"""How time and memory grow with the number of workers.

Workers that are connected and idle, and one fan-out: worker 0 calls each of them once.
Each size runs in a process of its own. Its memory is what is resident while all workers are still
connected, less what was before the first of them.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SIZES = (10, 100, 1000)


def resident_kib() -> float:
    """Memory of this process that is in use, without what was freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # glibc keeps freed memory, in which the next ones would fit
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def fan_out(workers: int) -> dict[str, float]:
    """Seconds and bytes that ``workers`` workers and one call to each of them cost."""
    import torch

    from squall.real.rpc import api as rpc
    from squall.sim.cluster import Cluster

    torch.set_num_threads(1)
    tensor = torch.ones(2)

    def main(rank: int) -> None:
        if rank == 0:
            futures = [
                rpc.rpc_async(f"worker{to}", torch.add, args=(tensor, 1))
                for to in range(1, workers)
            ]
            for future in futures:
                future.wait()

    with Cluster(2) as warm:  # torch loads modules at the first call
        warm.run(lambda rank: rpc.rpc_sync("worker0", torch.add, args=(tensor, 1)))
    before_kib = resident_kib()
    started = time.perf_counter()
    with Cluster(workers) as cluster:
        cluster.run(main)
        seconds = time.perf_counter() - started
        messages = sum(cluster.trace.message_counts().values())
        after_kib = resident_kib()
    return {
        "workers": workers,
        "seconds": seconds,
        "ms_per_worker": seconds / workers * 1e3,
        "kib_per_worker": (after_kib - before_kib) / workers,
        "messages": messages,
    }


def measure() -> list[dict[str, float]]:
    rows = []
    for size in SIZES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.growth", str(size)],
            capture_output=True,
            text=True,
            check=True,
        )
        rows.append(json.loads(done.stdout))
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(fan_out(int(sys.argv[1]))))
    else:
        for row in measure():
            print(row)
