"""What is known of the failures of a campaign, as its store has it: as data, and in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from squall.sim.campaigns.row import Key
from squall.sim.campaigns.store_reader import FailureKind, Reading
from squall.sim.campaigns.tables import TRIAGE
from squall.sim.campaigns.triage import same
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import load_scenario
from squall.sim.search.shrink.cost import extent


def triaged(store: Reading) -> dict[Key, dict[str, Any]]:
    """What the store has of each kind."""
    return {(row["property"], row["what"], row["place"]): row for row in store.rows(TRIAGE)}


def loaded(file: str) -> Scenario | None:
    """The scenario of a file; None if it cannot be read."""
    try:
        return load_scenario(Path(file)) if file else None
    except (OSError, ValueError):
        return None


def told_of(store: Reading, kinds: list[FailureKind]) -> dict[Key, dict[str, Any]]:
    """What there is to say of each kind; the keys are in docs/json.md."""
    rows = triaged(store)
    small = {
        key: scenario
        for key, row in rows.items()
        if (scenario := loaded(row["scenario"] or "")) is not None
    }
    ordered = [kind.key for kind in kinds]
    twins = same({key: small[key] for key in ordered if key in small})
    return {key: _told(rows.get(key), small.get(key), twins.get(key)) for key in ordered}


def _told(row: dict[str, Any] | None, small: Scenario | None, twin: Key | None) -> dict[str, Any]:
    row = row or {}
    return {
        "shrunk": None
        if small is None
        else {"file": row["scenario"], "events": row["events"], **extent(small)._asdict()},
        "same_as": None
        if twin is None
        else dict(zip(("property", "what", "place"), twin, strict=True)),
        "versions": json.loads(row.get("versions") or "[]"),
        "known": json.loads(row.get("known") or "[]"),
        "regression": json.loads(row["before"]) if row.get("before") else None,
    }


def told_lines(told: dict[str, Any]) -> Iterator[str]:
    """The same in words."""
    if told["regression"] is not None:
        gone = told["regression"]
        yield f"regression: it was gone on squall {gone['squall']} ({gone['code']}), torch {gone['torch']}"
    if told["same_as"] is not None:
        same = told["same_as"]
        place = f" ({same['place']})" if same["place"] else ""
        yield f"the same as {same['property']}: {same['what']}{place}"
    elif told["shrunk"] is not None:
        small = told["shrunk"]
        events = f"{small['events']:,} events, squall replay" if small["events"] else "squall diff"
        yield f"small: {events} {small['file']}"
    if told["known"]:
        rules = ", ".join(told["known"])
        yield f"known of PyTorch's engine: {rules} (docs/divergences.md)"
    shows = [each for each in told["versions"] if each["shows"]]
    if len(told["versions"]) > 1:
        yield f"shows on {len(shows)} of the {len(told['versions'])} versions that it was looked for on"
