"""What ``squall serve`` lets another process do: run scenarios and draw what came of them.

    python -m squall.sim.serve.work page SCENARIO.json OUT.html NAME
    python -m squall.sim.serve.work compare ONE.json OTHER.json OUT.json

A process of its own, since a run takes the whole of one (its signals, its random state), and
since a page that somebody closes should not keep a server busy.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.model.events.digest import Record
from squall.sim.pictures.page import details, page
from squall.sim.pictures.recording import facts_of, recording
from squall.sim.scenarios.file import load_scenario
from squall.sim.scenarios.replay import first_difference
from squall.sim.search.again import again

#: events that are shown before the place where two runs part, and after it
_BEFORE, _AFTER = 4, 6
#: real seconds that a run may take
RUN_S = 120.0


def draw(scenario: Path, out: Path, name: str) -> None:
    """Write the page of a scenario."""
    saved = load_scenario(scenario)
    ran = again(saved, seconds=RUN_S)
    run = recording(
        ran,
        facts=facts_of(saved),
        title=name,
        replay=shlex.join(["squall", "replay", str(scenario)]),
    )
    out.write_text(page(run), encoding="utf-8")


def compare(one: Path, other: Path, out: Path) -> None:
    """Write where two scenarios' runs part, and the events around that place."""
    runs = [again(load_scenario(path), seconds=RUN_S).records for path in (one, other)]
    found = first_difference(*runs)
    number = None if found is None else found.number
    rows: list[dict[str, Any]] = []
    if number is not None:
        last = min(number + _AFTER, max(len(run) for run in runs))
        for at in range(max(0, number - _BEFORE), last):
            sides = [_line(run, at) for run in runs]
            rows.append({"number": at, "same": at < number, "sides": sides})
    told = {"number": number, "events": [len(run) for run in runs], "rows": rows}
    out.write_text(json.dumps(told), encoding="utf-8")


def _line(records: Sequence[Record], number: int) -> str | None:
    if number >= len(records):
        return None
    time_s, worker, task, type, values = records[number]
    where = f"w{worker} task {task} " if worker >= 0 else f"task {task} "
    return f"t={time_s:.6f} {where}{type.name} {details(type, values)}"


def main(words: Sequence[str]) -> None:
    match list(words):
        case ["page", scenario, out, name]:
            draw(Path(scenario), Path(out), name)
        case ["compare", one, other, out]:
            compare(Path(one), Path(other), Path(out))
        case _:
            raise SystemExit(f"bad words: {shlex.join(words)}")


if __name__ == "__main__":
    main(sys.argv[1:])
