"""What ``squall why`` names of the failures of these programs, beside the answers.

python -m squall.properties.why.explained [KIND/NAME ...]      a table of Markdown: a row a program and engine
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from squall.properties.why.bank import Program, programs
from squall.sim.library.campaign import Around, finding, judged
from squall.sim.library.run import plan_of, profile_of, scenario_of
from squall.sim.search.why.told import Why

#: seconds for each failure
SECONDS = 40.0


class Explained(NamedTuple):
    """What was told of a program's failure, on an engine; nothing if it did not fail."""

    program: Program
    engine: str
    why: Why | None
    seconds: float

    @property
    def named(self) -> list[int]:
        """The lines of the program that are named."""
        places = [] if self.why is None else self.why.places
        return sorted({each.line for each in places if each.file.endswith(self.program.path.name)})

    @property
    def right(self) -> bool:
        """Whether a line at fault is named, or both of a pair."""
        answer, named = self.program.answer, set(self.named)
        if named & set(answer.get("at fault", [])):
            return True
        return "first" in answer and all(named & set(answer[each]) for each in ("first", "second"))


def explain(program: Program, engine: str) -> Explained:
    """Run the program until it fails, make that small, and look for what decided it."""
    options = program.options
    faults = options.get("faults")
    if faults is not None and faults.endswith(".json"):
        faults = str(program.path.parent / faults)
    profile = profile_of(faults)
    around = Around(
        engine=engine,  # type: ignore[arg-type]
        profile=profile,
        plan=plan_of(None if profile is not None else faults),
    )
    script = scenario_of(program.path, workers=int(options["workers"])).script
    assert script is not None
    for seed in program.seeds:
        run, wrong = judged(around.scenario(script, seed), strict=False)
        if wrong:
            started = time.monotonic()
            found = finding(run, seed, strict=False, shrink_s=SECONDS)
            return Explained(program, engine, found.why, time.monotonic() - started)
    return Explained(program, engine, None, 0.0)


def table(names: list[str]) -> Iterator[str]:
    """Rows, and what it comes to."""
    yield "| program | engine | answer | named | right | verdict | runs |"
    yield "|---|---|---|---|---|---|---|"
    rows = []
    for program in programs():
        for engine in program.engines if not names or program.name in names else ():
            row = explain(program, engine)
            rows.append(row)
            answer = ", ".join(str(n) for lines in program.answer.values() for n in lines)
            named = ", ".join(map(str, row.named))
            verdict, runs = ("", 0) if row.why is None else (row.why.verdict, row.why.runs)
            right = "yes" if row.right else "no"
            yield f"| {program.name} | {engine} | {answer} | {named} | {right} | {verdict} | {runs} |"
    right = sum(row.right for row in rows)
    yield f"\n{right} of {len(rows)} are right."


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as store:
        os.environ["SQUALL_STORE"] = store
        for line in table(sys.argv[1:]):
            print(line, flush=True)
