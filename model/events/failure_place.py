"""Where in a run something shows: the place that tells failures of one property apart."""

from __future__ import annotations

from squall.model.events.run import Run, Violation


def place_of(run: Run, violation: Violation) -> str:
    """The first and the last event that show it, by their types, without ids and numbers; "" if it
    cites none."""
    numbers = [number for number in violation.events if number < len(run.records)]
    names = [_named(run, number) for number in (*numbers[:1], *numbers[-1:])]
    return " … ".join(dict.fromkeys(names))


def _named(run: Run, number: int) -> str:
    _, _, _, type, values = run.records[number]
    if "type" in type.fields:
        return f"{type.name} {values[type.fields.index('type')]}"
    return str(type.name)
