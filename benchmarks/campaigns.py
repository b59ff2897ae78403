"""What the driver of a campaign sustains, and squall campaign against squall fuzz.

    python -m benchmarks.campaigns                the driver alone, with workers that only pretend
    python -m benchmarks.campaigns --bounded      its memory over 10^8 scenarios
    python -m benchmarks.campaigns --speed 6000   pool, Ray and squall fuzz by turns, so many seeds each

Workers that pretend are a place like any other, in a process beside the driver, as the one that
speaks to Ray is. They answer a lease when 350 scenarios a second would have been judged, each worker
one lease after the other; their messages, and the store with a sync to disk for each transaction, are
real.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from squall.sim.campaigns.driver import drive
from squall.sim.campaigns.hosted import Hosted
from squall.sim.campaigns.lease import Judged, Row, judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.place import Done, Event, Heard, Joined
from squall.sim.campaigns.plan import Lease, Plan, versions
from squall.sim.campaigns.store import CampaignStore
from squall.sim.world.sandbox import resident_bytes

#: scenarios that a worker judges in a second
RATE = 350
WORKERS = (1000, 3000, 10_000)
SIZES = (100, 200, 1000)
SECONDS = 8.0


class Pretended:
    """``machines`` workers (a place) of ``jobs`` processes each that answer after ``size / rate``
    seconds; with a rate of 0 at once."""

    def __init__(self, machines: int, jobs: int, rate: float) -> None:
        self._jobs, self._rate = jobs, rate
        self._names = [f"machine {number}" for number in range(machines)]
        self._joined = False
        self._waiting: dict[str, deque[Lease]] = {name: deque() for name in self._names}
        self._idle = dict.fromkeys(self._names, jobs)
        self._running: list[tuple[float, int, str, Lease]] = []
        self._number = count()
        # Not all at the same time, as in a campaign that has gone on for a while.
        self._first_of = Random(0)
        self._to_begin = machines * jobs

    def start(self, worker: str, lease: Lease) -> None:
        self._waiting[worker].append(lease)
        self._begin(worker, time.monotonic())

    def _begin(self, worker: str, now: float) -> None:
        waiting = self._waiting[worker]
        while waiting and self._idle[worker]:
            self._idle[worker] -= 1
            lease = waiting.popleft()
            takes = len(lease.seeds) / self._rate if self._rate else 0.0
            if self._to_begin:
                self._to_begin -= 1
                takes *= self._first_of.random()
            ends = now + takes
            heapq.heappush(self._running, (ends, next(self._number), worker, lease))

    def poll(self, timeout_s: float) -> list[Event]:
        if not self._joined:
            self._joined = True
            what = versions()
            return [Joined(name, self._jobs, 2 * self._jobs, what) for name in self._names]
        events: list[Event] = []
        if self._running:
            time.sleep(max(0.0, min(timeout_s, self._running[0][0] - time.monotonic())))
        now = time.monotonic()
        ended: list[str] = []
        while self._running and self._running[0][0] <= now:
            ends, _, worker, lease = heapq.heappop(self._running)
            self._idle[worker] += 1
            # What waits began when the process became free, not when it was asked.
            self._begin(worker, ends)
            events.append(Done(worker, pretended(lease)))
            ended.append(worker)
        return [*events, *(Heard(name, 0) for name in dict.fromkeys(ended))]

    def stop(self, worker: str) -> None:
        self._waiting[worker].clear()

    def close(self) -> None:
        self._running.clear()


def pretended(lease: Lease) -> Judged:
    """A lease of which nothing failed; of each hundredth of them one scenario has."""
    failures: tuple[Row, ...] = ()
    if lease.seeds.start // len(lease.seeds) % 100 == 0:
        seed = lease.seeds.start
        text = "joint_graph: operation of worker2: expected 3 tensors, saw 2 " * 3
        failures = (Row(seed, "joint_graph", "operation", f"{seed:032x}", 700, text),)
    return Judged(lease, f"{lease.seeds.start:032x}", 700 * len(lease.seeds), failures)


def sustained(
    workers: int, size: int, seconds: float, folder: Path, rate: float = RATE
) -> dict[str, float]:
    """What the driver judges with so many workers for so long."""
    jobs = 16
    offered = workers // jobs * jobs * RATE
    seeds = range(10**12)
    plan = Plan((Part("plain", seeds), Part("rough", seeds, "rough")), size=size)
    file = folder / f"{workers} {size} {rate}.sqlite"
    store = CampaignStore(file, plan.said(), resume=False)
    ends = 0.0
    began = took = leases = takes = 0.0
    taking = store.take

    def take(done: list[Judged]) -> list[Judged]:
        nonlocal took, takes
        before = time.perf_counter()
        new = taking(done)
        took += time.perf_counter() - before
        takes += 1
        return new

    def on_lease(judged: Judged) -> None:
        nonlocal leases, began, ends, ended, cpu, took, takes
        if not began:  # once the first are through: workers begin all at the same time
            began = time.perf_counter()
            ends = began + seconds
            cpu = time.process_time()
            took = takes = leases = 0.0
        leases += 1
        if time.perf_counter() > ends:
            ended = time.perf_counter(), time.process_time()
            raise _OverError

    cpu = 0.0
    ended = (0.0, 0.0)
    vars(store)["take"] = take
    try:
        drive(
            plan,
            store,
            Hosted(partial(Pretended, max(1, workers // jobs), jobs, rate)),
            on_lease=on_lease,
        )
    except _OverError:
        pass
    finally:
        store.close()
    took_s = ended[0] - began
    return {
        "workers": workers,
        "size": size,
        "offered": offered,
        "judged": leases * size / took_s,
        "leases": leases / took_s,
        "cpu": (ended[1] - cpu) / took_s,
        "take": took / took_s,
        "commits": takes / took_s,
        "per_commit": leases / max(takes, 1),
        "rss_mib": resident_bytes() / 2**20,
    }


class _OverError(Exception):
    pass


def table(folder: Path) -> None:
    print(
        "| workers | seeds of a lease | scenarios/s offered | judged | leases/s | CPU of the driver |"
        " time in the store | transactions/s | leases in one |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for size in SIZES:
        for workers in WORKERS:
            found = sustained(workers, size, SECONDS, folder)
            print(
                "| {workers:,} | {size:,} | {offered:,} | {judged:,.0f} | {leases:,.0f} | {cpu:.0%} | "
                "{take:.0%} | {commits:.1f} | {per_commit:.1f} |".format(**found),
                flush=True,
            )
    print(f"load {os.getloadavg()}", file=sys.stderr)


def parts_of_a_lease(folder: Path) -> None:
    """What each step takes by itself, of a lease of 200 seeds."""
    import pickle

    plan = Plan((Part("plain", range(10**9)),), size=200)
    store = CampaignStore(folder / "steps.sqlite", plan.said(), resume=False)
    leases = [lease for lease, _ in zip(plan.leases(), range(20_000), strict=False)]
    rows = [Row(seed, events=700) for seed in range(200)]

    def timed(what: str, times: int, work: object) -> None:
        before = time.perf_counter()
        assert callable(work)
        work()
        print(f"| {what} | {(time.perf_counter() - before) / times * 1e6:,.1f} µs |")

    done = [pretended(lease) for lease in leases]
    sent = [pickle.dumps(done[at : at + 20]) for at in range(0, 10_000, 20)]
    print("| step, for a lease | takes |\n|---|---|")
    timed(
        "hand out: the next one of the plan, not in the store",
        20_000,
        lambda: list(store.left(leases)),
    )
    timed("read it from a message of 20", 10_000, lambda: [pickle.loads(each) for each in sent])
    timed(
        "keep it, alone in a transaction", 200, lambda: [store.take([each]) for each in done[:200]]
    )
    timed(
        "keep it, 20 in a transaction",
        2000,
        lambda: [store.take(done[at : at + 20]) for at in range(200, 2200, 20)],
    )
    timed(
        "keep it, 200 in a transaction",
        10_000,
        lambda: [store.take(done[at : at + 200]) for at in range(2200, 12_200, 200)],
    )
    timed(
        "on the worker: its digest over 200 rows",
        100,
        lambda: [judged(leases[0], rows) for _ in range(100)],
    )
    store.close()


def bounded(folder: Path) -> None:
    """Memory of the driver with 10^8 scenarios, in leases of 200."""
    total = 10**8
    half = total // 2
    plan = Plan((Part("plain", range(half)), Part("rough", range(half), "rough")), size=200)
    store = CampaignStore(folder / "bounded.sqlite", plan.said(), resume=False)
    judged_now = 0
    shown = 0

    def on_lease(judged: Judged) -> None:
        nonlocal judged_now, shown
        judged_now += len(judged.lease.seeds)
        if judged_now >= shown:
            rss = resident_bytes() / 2**20
            print(
                f"| {judged_now:,} | {time.perf_counter() - began:,.0f} s | {rss:,.0f} MiB |",
                flush=True,
            )
            shown += total // 10

    print("| scenarios | after | memory of the driver |\n|---|---|---|")
    began = time.perf_counter()
    drive(plan, store, Hosted(partial(Pretended, 63, 16, 0.0)), on_lease=on_lease)
    rss = resident_bytes() / 2**20
    print(f"| {judged_now:,} | {time.perf_counter() - began:,.0f} s | {rss:,.0f} MiB |")
    before = time.perf_counter()
    store.verdicts()
    print(
        f"verdicts: {time.perf_counter() - before:.1f} s, file {store_bytes(folder) / 2**20:,.0f} MiB, "
        f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB",
        flush=True,
    )
    store.close()


def store_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def by_turns(seeds: int, rounds: int, ray: bool, folder: Path) -> None:
    """Scenarios a second of squall fuzz --jobs 2, of the pool and of Ray, by turns."""
    ways = {
        "fuzz": ["fuzz", "--jobs", "2"],
        "pool": ["campaign", "--jobs", "2", "--store", "{}"],
    }
    if ray:
        ways["ray"] = ["campaign", "--on", "ray", "--jobs", "2", "--store", "{}"]
    environment = {**os.environ, "SQUALL_STORE": str(folder / "kept")}
    print(
        "| faults | round | way | scenarios/s, the whole command | as it says itself | for a second of CPU | load before |"
    )
    print("|---|---|---|---|---|---|---|")
    number = count()
    for faults in ([], ["--faults", "rough"]):
        for round in range(rounds):
            span = f"{round * seeds}:{(round + 1) * seeds}"
            for name, words in ways.items():
                file = folder / f"{next(number)}.sqlite"
                command = [word.format(file) for word in words]
                load = os.getloadavg()[0]
                spent = cpu_of_children()
                before = time.perf_counter()
                ended = subprocess.run(
                    [
                        sys.executable,
                        "-m",
                        "squall.sim.cli.entry",
                        *command,
                        "--seeds",
                        span,
                        *faults,
                        "--json",
                    ],
                    env=environment,
                    capture_output=True,
                    text=True,
                    cwd=folder,
                    check=False,
                )
                took = time.perf_counter() - before
                spent = cpu_of_children() - spent
                said = json.loads(ended.stdout)
                assert said["outcome"] == "ok", said
                print(
                    f"| {faults[1] if faults else 'none'} | {round} | {name} | {seeds / took:,.1f} | "
                    f"{said['scenarios_per_second']:,.1f} | {seeds / spent:,.1f} | {load:.1f} |",
                    flush=True,
                )


def cpu_of_children() -> float:
    """Seconds of all processes that this one, and those it has started, have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bounded", action="store_true")
    parser.add_argument("--speed", type=int, metavar="SEEDS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", action="store_true")
    given = parser.parse_args()
    # on a real disk, which /tmp may not be
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path("build").resolve()) as folder:
        if given.bounded:
            bounded(Path(folder))
        elif given.speed:
            by_turns(given.speed, given.rounds, given.ray, Path(folder))
        else:
            parts_of_a_lease(Path(folder))
            table(Path(folder))


if __name__ == "__main__":
    # As __main__ its classes would be others than those that the process beside the driver has.
    from benchmarks import campaigns

    campaigns.main()
