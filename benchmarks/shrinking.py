"""How small do failures get? Every planted bug's first failing scenario, shrunk.

    python -m benchmarks.shrinking [--seconds S] [--profile PROFILE] [--save FOLDER] [NAME...]

Each bug has a process of its own: its first scenario that fails, as a campaign finds it, is given
to the shrinker for S real seconds (default 30). Prints a table and the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from properties.mutants import MUTANTS

#: real seconds to look for a scenario that fails
FIND_S = 60.0


def shrink_one(
    name: str, profile: str | None, seconds: float, folder: Path | None = None
) -> dict[str, Any]:
    """Find a scenario that a planted bug breaks, and shrink it; for a process of its own."""
    from sim.fuzz import quiet
    from sim.replay import planted, replay, saved_scenario, seed_scenario
    from sim.scenario_file import Expected, dump_scenario
    from sim.shrink import Shrinker
    from sim.shrink_cost import deviations, extent
    from sim.store import write_synced

    started = time.monotonic()
    with quiet(), planted(name):
        for seed in count():
            saved = saved_scenario(seed_scenario(seed, profile))
            if replay(saved, seconds=10.0).violations:
                with MUTANTS[name].lifted():
                    holds = not replay(saved, seconds=10.0).violations
                if holds:
                    break
            if time.monotonic() - started > FIND_S:
                return {"name": name, "problem": "no scenario failed"}
    cpu = time.process_time()
    shrinker = Shrinker(replace(saved, expected=Expected(mutant=name)), seconds=seconds)
    best = shrinker.run()
    assert shrinker.target is not None
    if folder is not None:
        # Digests change with the engine; what breaks does not.
        kept = replace(best, expected=replace(best.expected, digest=None))
        write_synced(folder / f"mutant_{name}.json", dump_scenario(kept))
    return {
        "name": name,
        "seed": seed,
        "breaks": f"{shrinker.target.property}: {shrinker.target.what}",
        "before": extent(saved),
        "after": extent(best),
        "run": deviations(best),
        "tried": shrinker.tried,
        "seconds": round(time.process_time() - cpu, 1),
        "out_of_time": shrinker.out_of_time,
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--profile")
    parser.add_argument("--save", type=Path, help="a folder for the small scenarios")
    parser.add_argument("--one", action="store_true", help="this bug, here, as JSON")
    options = parser.parse_args(argv)
    if options.one:
        given = options.names[0], options.profile, options.seconds, options.save
        print(json.dumps(shrink_one(*given)))
        return
    names = options.names or [name for name, mutant in MUTANTS.items() if mutant.expected]
    found = [_in_a_process(name, options) for name in names]
    done = [each for each in found if "after" in each]
    for column, at in (("workers", 0), ("operations", 1), ("faults", 2)):
        if done:
            values = [each["after"][at] for each in done]
            print(f"{column}: median {statistics.median(values):g}, most {max(values)}")
    print(f"{len(done)} of {len(found)} shrunk")


def _in_a_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.shrinking", "--one", name]
    words += ["--seconds", str(options.seconds)]
    words += ["--profile", options.profile] if options.profile else []
    words += ["--save", str(options.save)] if options.save else []
    limit = FIND_S + 4 * options.seconds + 60
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        told = {"name": name, "problem": f"{type(error).__name__}"}
    if "after" in told:
        sizes = "/".join(map(str, told["before"])), "/".join(map(str, told["after"]))
        late = "  (out of time)" if told["out_of_time"] else ""
        print(f"{name:45} {sizes[0]:>9} -> {sizes[1]:>7}  {told['seconds']:>5} s  "
              f"{told['tried']:>5} runs  {told['breaks']}{late}", flush=True)  # fmt: skip
    else:
        print(f"{name:45} {told['problem']}", flush=True)
    return told


if __name__ == "__main__":
    main()
