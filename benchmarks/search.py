"""Do distilled covers find planted bugs sooner than random seeds?

    python -m benchmarks.search --slow slow.json            (which bugs take random seeds long)
    python -m benchmarks.search --bugs slow.json --turns 12 --output search.json

A turn has seeds of its own: a cover distilled from 3,000 of them, its schedule, and the fresh seeds
that come after it. By turns on the same core each bug is met once by the fresh seeds alone, and once
by the cover and then the same fresh seeds. A time to failure is spread as its mean, so that of a bug
is estimated as all seconds of a core divided by how often it was met; where the time was up counts
as seconds alone. The last line is the geometric mean of the ratios.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from squall.sim.names import MAX_SEED, PROFILES
from squall.sim.search.covering import Collector
from squall.sim.search.covers import Cover, stamp
from squall.sim.search.draw import settings_of
from squall.sim.search.judge import judge_all
from squall.sim.search.mutants import trial
from squall.sim.search.mutants.campaign import run_mutants
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.mutants.trial import Limits

#: seeds that a cover is distilled from, and how far those of two turns are apart
DISTILLED, APART = 3_000, 1_000_000
#: seconds of a core after which a bug counts as one that random seeds are slow to meet
SLOW_S = 2.0


@cache
def cover_of(turn: int, profile: str) -> Cover:
    collector = Collector()
    first = turn * APART
    settings = settings_of(profile)._replace(stats=True)
    for verdict in judge_all(range(first, first + DISTILLED), settings):
        if verdict.ok:
            collector.add(verdict.seed, verdict.facts, verdict.events)
    return Cover(
        profile=profile,
        generator=stamp(profile),
        scenarios=DISTILLED,
        facts=collector.facts,
        seeds=tuple(collector.seeds()),
    )


def slow(jobs: int) -> list[str]:
    """The names of the bugs that random seeds from 0 on do not meet within :data:`SLOW_S`."""
    tried = [mutant for mutant in MUTANTS.values() if mutant.expected]
    limits = Limits(seconds=SLOW_S, corpus=False)
    results = run_mutants(tried, limits, jobs=jobs, on_result=lambda _: _tick())
    return [result.mutant.name for result in results if not result.killed]


def _tick() -> None:
    sys.stderr.write(".")
    sys.stderr.flush()


def turn_of(
    bugs: list[Mutant], turn: int, seconds: float, jobs: int
) -> Iterable[dict[str, object]]:
    """What one turn comes to: a row for each bug and way."""
    fresh = range(turn * APART + DISTILLED, MAX_SEED)
    profiles = {profile for bug in bugs for profile in (PROFILES if bug.needs_faults else ("",))}
    covers = {profile: cover_of(turn, profile) for profile in sorted(profiles)}
    trial.SMALLER_S = 0.0  # what else fails, and is smaller, is not asked here
    for way, limits in (
        ("random", Limits(seconds=seconds, seeds=fresh)),
        ("cover", Limits(seconds=seconds, seeds=fresh, cover=True, covers=covers)),
    ):
        for result in run_mutants(bugs, limits, jobs=jobs):
            part = result.campaign
            yield {
                "turn": turn,
                "bug": result.mutant.name,
                "way": way,
                "killed": part.killed,
                "scenarios": part.scenarios,
                "seconds": part.seconds,
            }


def table(rows: list[dict[str, object]]) -> str:
    """By bug: mean seconds to the failure by each way, and their ratio. A way that never met it has
    needed more than all its seconds, with which the ratio is a bound; by neither way met: none."""
    lines = [f"{'bug':44} {'random':>9} {'cover':>9} {'ratio':>7}"]
    logs = []
    for bug in dict.fromkeys(str(row["bug"]) for row in rows):
        means, bounds = {}, {"random": "", "cover": ""}
        for way in ("random", "cover"):
            mine = [row for row in rows if (row["bug"], row["way"]) == (bug, way)]
            met = sum(bool(row["killed"]) for row in mine)
            means[way] = sum(float(str(row["seconds"])) for row in mine) / (met or 1)
            bounds[way] = "" if met else ">"
        said = [f"{bounds[way] + format(mean, '.2f'):>8}s" for way, mean in means.items()]
        if all(bounds.values()):
            lines.append(f"{bug:44} {' '.join(said)}")
            continue
        ratio = means["cover"] / means["random"]
        sign = "<" if bounds["random"] else bounds["cover"]
        lines.append(f"{bug:44} {' '.join(said)} {sign + format(ratio, '.2f'):>7}")
        logs.append(math.log(ratio))
    if logs:
        lines.append(f"geometric mean of {len(logs)}: {math.exp(sum(logs) / len(logs)):.3f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slow", type=Path, help="write the bugs that are slow to be met there")
    parser.add_argument("--bugs", type=Path, help="a file that --slow wrote")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--first-turn", type=int, default=1)
    parser.add_argument("--parts", type=int, default=1, help="a turn plays every N-th bug only")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if asked.slow is not None:
        asked.slow.write_text(json.dumps(slow(asked.jobs), indent=1) + "\n", encoding="utf-8")
        return
    if asked.bugs is None:
        parser.error("expected --slow or --bugs")
    bugs = [MUTANTS[name] for name in json.loads(asked.bugs.read_text(encoding="utf-8"))]
    rows: list[dict[str, object]] = []
    for turn in range(asked.first_turn, asked.first_turn + asked.turns):
        mine = bugs[turn % asked.parts :: asked.parts]
        rows += turn_of(mine, turn, asked.seconds, asked.jobs)
        if asked.output is not None:
            asked.output.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
        print(f"after turn {turn}\n{table(rows)}", flush=True)


if __name__ == "__main__":
    main()
