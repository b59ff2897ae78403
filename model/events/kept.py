"""What the code of a process has made, was to end itself, and has not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Thing = Literal["references", "contexts", "futures", "operations", "process groups", "threads"]


class Kept(NamedTuple):
    """Of what the code of a process has made and not ended, that which one line makes: how many, whether one more with
    each step, and what holds them then (not looked for unless they grow). ``function`` has the line. Of references:
    those that were there until the shutdown."""

    worker: str
    place: str
    number: int
    grows: bool = False
    holders: Sequence[str] = ()
    what: Thing = "references"
    function: str = ""

    def __str__(self) -> str:
        by = f": held by {' and '.join(self.holders)}" if self.holders else ""
        more = ", one more with each step" if self.grows else ""
        made = f"{self.number} references that {self.worker} made at {self.place}"
        return f"only shutdown released {made}{more}{by}"


#: by kind: what is told of those that have not ended
_UNENDED: dict[Thing, str] = {
    "contexts": "autograd contexts that were never left",
    "futures": "futures of calls that nobody waited for",
    "operations": "operations of process groups that nobody waited for",
    "process groups": "process groups that were never destroyed",
    "threads": "threads that still ran when their process ended",
}
#: lines that are told of one kind
_LINES_MOST = 4


def unended(kept: Iterable[Kept]) -> list[str]:
    """A line for each kind: what made them, how many, on which workers. Of references those alone that grow."""
    every = list(kept)
    lines = [str(each) for each in every if each.what == "references" and each.grows]
    for what, text in _UNENDED.items():
        places: dict[tuple[str, str], list[Kept]] = {}
        for each in every:
            if each.what == what:
                places.setdefault((each.place, each.function), []).append(each)
        told = [
            f"{sum(each.number for each in found)} of {', '.join(sorted({each.worker for each in found}))}"
            f" made at {place}" + (f" in `{function}`" if function[:1] != "<" else "")
            for (place, function), found in places.items()
        ]
        more = [f"and at {len(told) - _LINES_MOST} other lines"] if len(told) > _LINES_MOST else []
        if told:
            lines.append(f"{text}: {'; '.join([*told[:_LINES_MOST], *more])}")
    return lines
