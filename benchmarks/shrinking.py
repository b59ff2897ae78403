"""How small do failures get? Every planted bug's first failing scenario, shrunk.

    python -m benchmarks.shrinking [--seconds S] [--faults PROFILE] [--save FOLDER] [NAME...]

Each bug has a process of its own: its first scenario that fails, as a campaign finds it, is given
to the shrinker for S real seconds (default 30). Prints a line for each, and at the end the table
that benchmarks/shrinking.md shows (``--page FILE`` writes it).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.file import dump_scenario
from squall.sim.scenarios.replay import replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.store import write_synced
from squall.sim.search.draw import draw, settings_of
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.registry import FAMILIES, MUTANTS
from squall.sim.search.replay_with_mutant import planted
from squall.sim.search.shrink.cost import Extent, deviations, extent
from squall.sim.search.shrink.shrinker import Shrinker

#: seconds of one core to look for a scenario that fails
FIND_S = 60.0
#: real seconds for each of them, where others take the rest of the machine
SHARED = 4.0
#: real seconds that one run may take
RUN_S = 10.0
PROFILES = ("mild", "rough", "storm")
#: what shrinking is to reach in the median
GOAL = Extent(workers=3, operations=8, faults=2)


class Shrunk(NamedTuple):
    """What became of one bug's failure. Without ``after``, ``problem`` says why there is none."""

    name: str
    seed: int = -1
    profile: str | None = None
    breaks: str = ""
    before: Extent | None = None
    after: Extent | None = None
    run: str = ""
    tried: int = 0
    #: of this process
    cpu_s: float = 0.0
    out_of_time: bool = False
    problem: str = ""

    @property
    def where(self) -> str:
        return f"{self.seed} {self.profile or ''}".rstrip()


def shrink_one(
    mutant: Mutant, profiles: Sequence[str | None], seconds: float, folder: Path | None
) -> Shrunk:
    """Find a scenario that a planted bug breaks, and shrink it."""
    name = mutant.name
    found = _find(mutant, profiles)
    if found is None:
        return Shrunk(name, problem="no scenario failed")
    saved, seed, profile = found
    cpu_s = time.process_time()
    shrinker = Shrinker(replace(saved, expected=Expected(mutant=name)), seconds=seconds)
    best = shrinker.run()
    assert shrinker.target is not None
    if folder is not None:
        # Digests change with the engine; what breaks does not.
        kept = replace(best, expected=replace(best.expected, digest=None))
        folder.mkdir(parents=True, exist_ok=True)
        write_synced(folder / f"mutant_{name}.json", dump_scenario(kept))
    return Shrunk(
        name=name,
        seed=seed,
        profile=profile,
        breaks=f"{shrinker.target.property}: {shrinker.target.what}",
        before=_extent(saved),
        after=_extent(best),
        run=deviations(best),
        tried=shrinker.tried,
        cpu_s=round(time.process_time() - cpu_s, 1),
        out_of_time=shrinker.out_of_time,
    )


def _extent(saved: Scenario) -> Extent:
    """How large a scenario is, calls beside its computation counted as operations."""
    assert saved.program is not None
    stories = sum(len(step.stories) for _, _, step in saved.program.steps)
    size = extent(saved)
    return size._replace(operations=(size.operations or 0) + stories)


def _find(
    mutant: Mutant, profiles: Sequence[str | None]
) -> tuple[Scenario, int, str | None] | None:
    """The first scenario that fails with the bug and holds without it."""
    started = time.process_time()
    with campaign_settings(), planted(mutant.name):
        for number in count():
            seed, profile = number // len(profiles), profiles[number % len(profiles)]
            saved = draw(seed, settings_of(profile or ""))
            if replay(saved, seconds=RUN_S).violations:
                with mutant.lifted():
                    holds = not replay(saved, seconds=RUN_S).violations
                if holds:
                    return saved, seed, profile
            if time.process_time() - started > FIND_S:
                return None
    raise AssertionError


def in_a_process(
    mutant: Mutant, profiles: Sequence[str | None], seconds: float, folder: Path | None
) -> Shrunk:
    """The same in a process of its own, which may hang or end."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(
        target=_send_one, args=(theirs, mutant, profiles, seconds, folder), daemon=True
    )
    child.start()
    theirs.close()
    told = Shrunk(mutant.name, problem="no end")
    with contextlib.suppress(EOFError):
        if ours.poll(SHARED * (FIND_S + seconds) + 60):
            told = ours.recv()
    child.kill()
    child.join()
    return told


def _send_one(
    pipe: Connection,
    mutant: Mutant,
    profiles: Sequence[str | None],
    seconds: float,
    folder: Path | None,
) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        pipe.send(shrink_one(mutant, profiles, seconds, folder))


# -- in words -------------------------------------------------------------------------------------


def line(each: Shrunk) -> str:
    """One bug, for the terminal."""
    if each.before is None or each.after is None:
        return f"{each.name:40} {each.problem}"
    late = "  (out of time)" if each.out_of_time else ""
    return (
        f"{each.name:40} {_sizes(each.before):>9} -> {_sizes(each.after):>7}  {each.cpu_s:>5} s  "
        f"{each.tried:>5} runs  {each.breaks}{late}"
    )


def _sizes(of: Extent) -> str:
    return " / ".join(map(str, of))


def page(found: Sequence[Shrunk], seconds: float) -> Iterable[str]:
    """The table of all of them, as Markdown."""
    done = [each for each in found if each.after is not None]
    yield "# How small failures get"
    yield ""
    yield "Written by `python -m benchmarks.shrinking --page benchmarks/shrinking.md`: of each planted"
    yield "bug that is noticed, the first scenario that a campaign finds, before and after"
    yield f"`squall shrink --seconds {seconds:g}`. Sizes are workers / operations / faults. Calls"
    yield "beside the computation (stories) count as operations, and each single deviation from first"
    yield "come, first served as a fault; before it is shrunk, an order that is drawn counts as one."
    yield ""
    yield f"Of {len(found)} bugs, {len(done)} were found and shrunk; the goal is a median of"
    yield f"{_sizes(GOAL)}."
    yield ""
    yield "| | before: median | after: median | after: 90 of 100 | after: most | within the goal |"
    yield "|---|---|---|---|---|---|"
    for column, name in enumerate(Extent._fields):
        before = sorted(each.before[column] or 0 for each in done if each.before is not None)
        after = sorted(each.after[column] or 0 for each in done if each.after is not None)
        goal = GOAL[column] or 0
        within = sum(value <= goal for value in after)
        yield (
            f"| {name} | {statistics.median(before):g} | {statistics.median(after):g} | "
            f"{after[round(0.9 * (len(after) - 1))]} | {after[-1]} | {within} of {len(after)} |"
        )
    yield ""
    total_s = statistics.median(each.cpu_s for each in done)
    late = sum(each.out_of_time for each in done)
    yield f"In the median {statistics.median(each.tried for each in done):g} runs in {total_s:g} s"
    yield f"of one core; {late} were stopped when their time was over."
    yield ""
    yield "Seeds are those of the generator that the page was written with: a later one draws other"
    yield "programs from them."
    by_name = {each.name: each for each in found}
    for family, mutants in FAMILIES.items():
        rows = [by_name[mutant.name] for mutant in mutants if mutant.name in by_name]
        if not rows:
            continue
        yield ""
        yield f"## {family}"
        yield ""
        yield "| bug | found by seed | before | after | runs | what breaks |"
        yield "|---|---|---|---|---|---|"
        for each in rows:
            if each.before is None or each.after is None:
                yield f"| `{each.name}` | | | | | {each.problem} |"
                continue
            stopped = ", stopped" if each.out_of_time else ""
            yield (
                f"| `{each.name}` | {each.where} | {_sizes(each.before)} | {_sizes(each.after)} | "
                f"{each.tried}{stopped} | {each.breaks} |"
            )
    yield ""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these bugs")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--faults", choices=PROFILES, help="for all, whatever they need")
    parser.add_argument("--save", type=Path, help="a folder for the small scenarios")
    parser.add_argument("--page", type=Path, help="a file for the table")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in MUTANTS]
    if unknown:
        parser.error(f"there is no planted bug {unknown[0]!r}: see squall mutants --list")
    names = options.names or [name for name, mutant in MUTANTS.items() if mutant.expected]
    found = []
    for name in names:
        mutant = MUTANTS[name]
        profiles: Sequence[str | None] = PROFILES if mutant.needs_faults else (None,)
        if options.faults:
            profiles = (options.faults,)
        found.append(in_a_process(mutant, profiles, options.seconds, options.save))
        print(line(found[-1]), flush=True)
        if options.page is not None and any(each.after is not None for each in found):
            write_synced(options.page, "\n".join(page(found, options.seconds)))
    if any(each.after is not None for each in found):
        print("\n".join(page(found, options.seconds)))


if __name__ == "__main__":
    main()
