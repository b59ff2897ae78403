"""``make stress``: the workloads again and again, for a minute (``make stress SECONDS=600``).

Prints what went wrong, a paragraph each, and what was done; exit code 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable

from squall.properties.support.paths import EXAMPLES
from squall.properties.support.stress.programs import run_on_threads, threaded_program
from squall.properties.support.stress.scripts import lines_in_simulation, lines_on_threads
from squall.properties.support.stress.visits import visits
from squall.properties.support.stress.workers import watched

_STEPS = 4
_GUESTS, _PASSES = 12, 24
#: a thread that waits in compiled code with the interpreter's lock lets nobody tell of it
_STUCK_S = 300.0


def example(name: str, workers: int = 4) -> list[str]:
    """What an example prints on threads and not in the simulation, or the other way round."""
    path = EXAMPLES / f"{name}.py"
    expected = lines_in_simulation(path, workers, _STEPS)
    with watched() as complaints:
        found = lines_on_threads(path, workers, _STEPS)
    if found != expected:
        complaints.append(f"printed {found}, expected {expected}")
    return complaints


def program(seed: int) -> list[str]:
    drawn = threaded_program(seed)
    with watched() as complaints:
        return run_on_threads(drawn) + complaints


def guests() -> list[str]:
    with watched() as complaints:
        return visits(_GUESTS, _PASSES) + complaints


def main(seconds: float, first_seed: int) -> int:
    warnings.simplefilter("ignore")
    until_s = time.monotonic() + seconds
    done: Counter[str] = Counter()
    wrong = 0
    seeds = itertools.count(first_seed)

    def rounds() -> list[tuple[str, Callable[[], list[str]]]]:
        drawn = [next(seeds) for _ in range(12)]
        return [
            *((f"program {seed}", lambda seed=seed: program(seed)) for seed in drawn),
            *((f"example {each}", lambda each=each: example(each)) for each in NAMES),
            ("guests", guests),
        ]

    while time.monotonic() < until_s:
        for name, workload in rounds():
            faulthandler.dump_traceback_later(_STUCK_S, exit=True)
            try:
                complaints = workload()
            except Exception:
                complaints = [traceback.format_exc()]
            done[name.partition(" ")[0]] += 1
            if complaints:
                wrong += 1
                print(name, *complaints, sep="\n  ", flush=True)
            if time.monotonic() > until_s:
                break
    faulthandler.cancel_dump_traceback_later()
    print(", ".join(f"{count} times {name}" for name, count in done.items()), f"{wrong} wrong")
    return 1 if wrong else 0


NAMES = ("parameter_server", "rref_sharing", "pipeline")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    sys.exit(main(options.seconds, options.first_seed))
