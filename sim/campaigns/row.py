"""What became of one number of a part: the row of a verdict, of the same shape whatever was judged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from squall.model.events.run import Violation
    from squall.sim.search.judge import Verdict

#: what makes two failures one kind: the property, what broke, and the place where it shows
Key = tuple[str, str, str]


class Row(NamedTuple):
    """What became of ``seed``, a number of its part; ``property``, ``what``, ``text`` and ``place``
    (:mod:`squall.model.events.failure_place`) are of the first violation, "" without one. What follows
    ``events`` counts in no digest: ``text`` may name what differs between processes; ``facts`` (words of 64 bits) and ``situations`` are what a campaign is shown to
    have seen, a fact at least in one row of each process that has seen it."""

    seed: int
    property: str = ""
    what: str = ""
    digest: str = ""
    events: int = 0
    text: str = ""
    facts: bytes = b""
    situations: tuple[str, ...] = ()
    place: str = ""


def row_of(number: int, verdict: Verdict) -> Row:
    if verdict.ok:
        row = Row(number, digest=verdict.digest, events=verdict.events)
    else:
        row = failed_row(number, verdict.violations[0], verdict.digest, verdict.events)
        row = row._replace(place=verdict.place)
    return row._replace(facts=verdict.facts, situations=verdict.sometimes)


def failed_row(number: int, first: Violation, digest: str = "", events: int = 0) -> Row:
    """Of a number whose first violation that is."""
    return Row(number, first.property, first.what, digest, events, str(first))


def dumped(row: Row) -> str:
    """A line of JSON."""
    return json.dumps({**row._asdict(), "facts": row.facts.hex()})


def loaded(line: str) -> Row:
    """The row of which :func:`dumped` has made a line."""
    said = json.loads(line)
    facts, situations = bytes.fromhex(said.pop("facts")), tuple(said.pop("situations"))
    return Row(**said, facts=facts, situations=situations)
