"""Digests of many scenarios, as JSON: what one row of the matrix compares with another.

    python -m squall.properties.matrix.digests --seeds 100

For each scenario there are two: of all its events, and of its events without what torch decides:
sizes of messages, texts of errors, names of nodes, and whether a call of an operator is a script
call.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import torch

from squall.model.events.digest import Record, digest_of
from squall.properties.support.paths import CORPUS, ROOT, SCRIPTS
from squall.sim.names import ENGINE_NAMES
from squall.sim.scenario import Scenario, Script
from squall.sim.scenarios.file import load_scenario
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import PROFILES, Settings, draw, settings_of

#: what of an event is torch's own: how many bytes it pickles, the texts of its errors
_OF_TORCH = frozenset(("size_bytes", "error"))
#: where there are names of its nodes and texts beside what is ours
_WITH_TEXTS = frozenset(("about", "nodes"))


def scenarios(seeds: int) -> Iterator[tuple[str, Scenario]]:
    """Seeds of every profile and engine, saved scenarios, examples and scripts, by name."""
    for profile in ("", *PROFILES):
        for seed in range(seeds):
            yield f"{profile or 'plain'} {seed}", draw(seed, settings_of(profile))
    for seed in range(seeds // 10):
        yield f"torch {seed}", draw(seed, Settings(engine="torch"))
    for path in sorted(CORPUS.rglob("*.json")):
        yield str(path.relative_to(ROOT)), load_scenario(path)
    for path in sorted([*(ROOT / "examples").glob("*.py"), *SCRIPTS.glob("*.py")]):
        name = str(path.relative_to(ROOT))
        for engine in ENGINE_NAMES:
            text = path.read_text(encoding="utf-8")
            script = Script(path=name, text=text, workers=4 if "torchrun" in text else None)
            yield f"{engine} {name}", Scenario(work=script, seed=3, engine=engine)


def digests(scenario: Scenario) -> tuple[str, str]:
    """Of all events, and without what torch writes. An error is told instead of them."""
    try:
        run = replay(scenario, seconds=300)
    except (OSError, ValueError) as error:
        return (f"{type(error).__name__}: {error}",) * 2
    return run.digest, digest_of([_without_texts(record) for record in run.records])


def _without_texts(record: Record) -> Record:
    time_s, worker, task, type, values = record
    kept = tuple(map(_without_text, type.fields, values))
    return time_s, worker, task, type, kept


def _without_text(field: str, value: Any) -> Any:
    if field in _OF_TORCH:
        return None
    if field in _WITH_TEXTS:
        return _without_strings(value)
    if field == "type":
        return value.replace("SCRIPT_", "PYTHON_")
    return value


def _without_strings(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_without_strings, value))
    return None if isinstance(value, str) else value


def main() -> None:
    """Print the digests of all scenarios; a line a scenario goes to standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100, help="seeds of each profile")
    parser.add_argument("--only", default="", help="scenarios whose names begin so")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for name, scenario in scenarios(chosen.seeds):
        if name.startswith(chosen.only):
            found[name] = digests(scenario)
            print(name, *found[name], file=sys.stderr, flush=True)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
