"""How often PyTorch's compiled engine repeats a run exactly: random scenarios, run many times.

``python -m benchmarks.native_repeats --seeds 0:50 --times 20 [--busy 4] [--profile rough]``

A run is the same if every message, its instant and its ids are, and every gradient to the last
bit. For a seed that differs it prints the first difference. ``--busy N`` lets N endless loops take
the processors away meanwhile. Exits with 1 if a seed differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from squall.model.events.digest import Record
from squall.model.events.run import Run
from squall.model.one_process.outcome import Outcome
from squall.sim.faults.draw import PROFILES
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw, settings_of
from squall.sim.stock.shared import PROGRAMS as MODULES
from squall.sim.stock.shared import close_fork_servers, shared_fork_server

_SPIN = "while True: pass"


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """``loops`` processes that never wait, at the usual priority."""
    started = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def bits(outcome: Outcome | None) -> str:
    """A digest of how each step ended, and of every gradient and parameter bit by bit."""
    if outcome is None:
        return "no end"
    digest = hashlib.blake2b(digest_size=8)
    for key, step in sorted(outcome.steps.items()):
        digest.update(repr((key, step.finished, (step.error or "").partition("\n")[0])).encode())
        for found in step.passes:
            for leaf, gradient in sorted(found.items()):
                dense = gradient.to_dense() if gradient.is_sparse else gradient
                digest.update(repr((leaf, dense.resolve_conj().tolist())).encode())
    for value in outcome.leaves:
        digest.update(repr(value.detach().resolve_conj().tolist()).encode())
    return digest.hexdigest()


def first_difference(one: Sequence[Record], other: Sequence[Record]) -> str:
    """The first event that differs between two runs, or that none does."""
    for mine, yours in zip(one, other, strict=False):
        if _shown(mine) != _shown(yours):
            return f"{_shown(mine)} against {_shown(yours)}"
    if len(one) != len(other):
        return f"one ends {abs(len(one) - len(other))} events before the other"
    return "the events are the same, and the values are not"


def _shown(record: Record) -> tuple[Any, ...]:
    return (*record[:2], record[3].name, record[4])


def repeat(seed: int, times: int, settings: Settings) -> tuple[Counter[str], str]:
    """How many runs of a seed came to each result, and the first difference between two of them."""
    ends: Counter[str] = Counter()
    first: Run | None = None
    where = ""
    for _ in range(times):
        run = ENGINES["torch"].run(draw(seed, settings))
        deaths = [str(death) for death in run.processes.deaths]
        ends[f"{run.digest} {bits(run.outcomes.got)} {deaths}"] += 1
        if first is None:
            first = run
        elif len(ends) > 1 and not where:
            where = first_difference(first.records, run.records)
            where += "".join(f"; {each}" for each in [*first.processes.deaths, *deaths])
    return ends, where


def main() -> int:
    parser = argparse.ArgumentParser(description="repeats of scenarios on the engine torch")
    parser.add_argument("--seeds", default="0:50", help="A:B")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--busy", type=int, default=0, help="endless loops beside it")
    parser.add_argument("--profile", default="", choices=PROFILES, help="of faults")
    options = parser.parse_args()
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last))
    settings = settings_of(options.profile)._replace(engine="torch")
    began, processor = time.perf_counter(), time.process_time()
    differ = runs = odd = 0
    with campaign_settings(), busy(options.busy):
        shared_fork_server(MODULES)
        try:
            for seed in seeds:
                ends, where = repeat(seed, options.times, settings)
                runs += options.times
                if len(ends) > 1:
                    differ += 1
                    odd += options.times - max(ends.values())
                    print(f"seed {seed}: {sorted(ends.values())}: {where}", flush=True)
        finally:
            close_fork_servers()
        children = os.times()
    print(
        f"{len(seeds)} seeds x {options.times}: {differ} with more than one digest, {odd} of {runs} "
        f"runs not as most; {time.perf_counter() - began:.0f} s, "
        f"{(time.process_time() - processor) / runs:.3f} s of processor time a run here and "
        f"{(children.children_user + children.children_system) / runs:.3f} s in the workers"
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
