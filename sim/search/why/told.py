"""What decided a failure, as a value, and as lines for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from squall.model.events.names import number_of
from squall.model.events.run import Run
from squall.sim.search.why.seen import Call
from squall.sim.world.places import NOWHERE, CodePlace

#: columns that both runs may take beside each other
_WIDE = 118
_GAP = "   "

Verdict = Literal["order", "fault", "step", "always", "unknown"]


class Line(NamedTuple):
    """Something that happened: on which worker, who had asked for it, what, and what came of it. ``state``: why
    nothing has come of it; "" if something has, or that is not known."""

    worker: str
    by: str
    what: str
    result: str
    place: str
    state: str = ""


class Values(NamedTuple):
    """The variables of a function: where it is, and who is in it."""

    place: str
    who: str
    variables: dict[str, str]


class PictureRun(NamedTuple):
    """A run as a picture needs it: all of it, its calls, and what is pointed out, by event."""

    run: Run
    calls: list[Call]
    marks: dict[int, str]


@dataclass(kw_only=True)
class Why:
    """What decided that a run fails.

    ``verdict``: two steps came in the wrong order ("order"), a fault did it ("fault"), a step is known but not
    what should have come before it ("step"), it fails whatever the order ("always"), or the time was over
    before anything was known ("unknown"). ``said``: that in sentences. ``failing`` and ``passing``: what the
    failing run did around it, and one that passes. ``places``: the lines that are named, the first first.
    """

    verdict: Verdict
    said: list[str]
    failing: list[Line] = field(default_factory=list)
    passing: list[Line] = field(default_factory=list)
    places: list[CodePlace] = field(default_factory=list)
    #: where the error was raised, and the values of variables there
    raised: CodePlace = NOWHERE
    variables: dict[str, str] = field(default_factory=dict)
    #: of a hang: the values of variables where somebody waits
    waiting: list[Values] = field(default_factory=list)
    #: the step after which nothing that was tried passes, the events before it, and how many there are
    step: int = -1
    steps: int = 0
    event: int = -1
    events: int = 0
    time_s: float = 0.0
    #: how many runs were made, how many other orders were tried from the beginning, and of them failed
    runs: int = 0
    orders: int = 0
    failed: int = 0
    out_of_time: bool = False
    interrupted: bool = False
    #: what is wrong with the failing run, a line each
    problems: list[str] = field(default_factory=list)
    #: the failing run, and one that passes, if there is one
    shown: list[PictureRun] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        return "\n".join([*self.problems, "", *lines(self)])

    @property
    def text(self) -> str:
        """What it is, without what is wrong."""
        return "\n".join(lines(self))

    def marks_of(self, digest: str) -> dict[int, str]:
        """The events that are pointed out in a run of that digest; none if another failed here."""
        return next((each.marks for each in self.shown[:1] if each.run.digest == digest), {})

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        plain = dict(vars(self))
        plain["failing"] = [line._asdict() for line in self.failing]
        plain["passing"] = [line._asdict() for line in self.passing]
        plain["waiting"] = [each._asdict() for each in self.waiting]
        plain["places"] = [place._asdict() for place in self.places]
        plain["raised"] = self.raised._asdict() if self.raised.file else None
        del plain["shown"]
        return plain


def lines(why: Why) -> list[str]:
    """The cause first, then what both runs did, then when it was decided."""
    found = [*why.said]
    if why.failing or why.passing:
        found += ["", *_runs(why)]
    if why.variables:
        found += ["", f"at {why.raised}: {_values(why.variables)}"]
    if why.waiting:
        at = [f"at {each.place}, {each.who}: {_values(each.variables)}" for each in why.waiting]
        found += ["", *at]
    return [*found, "", _decided(why)]


def _values(variables: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in variables.items())


def _runs(why: Why) -> list[str]:
    left = ["this run", *_told(why.failing)]
    right = ["a run that passes", *_told(why.passing)]
    if left[1:] == right[1:]:
        return ["this run, and one that passes", *left[1:]]
    if not why.passing:
        return left
    width = max(map(len, left))
    if width + len(_GAP) + max(map(len, right)) > _WIDE:
        return [*left, "", *right]
    both = zip_longest(left, right, fillvalue="")
    return [f"{one:<{width}}{_GAP}{other}".rstrip() for one, other in both]


def _told(lines: list[Line]) -> list[str]:
    width = max((len(line.by) for line in lines), default=0)
    found = []
    for line in lines:
        result = f" -> {line.result}" if line.result not in ("", "None") else ""
        result += f"  ({line.state})" if line.state else ""
        found.append(f"  {line.by:<{width}}  {line.what}{result}")
    return found


def _decided(why: Why) -> str:
    runs = number_of(why.runs, "run")
    if why.step < 0 or why.verdict == "unknown":
        over = ", until the time was over" if why.out_of_time else ""
        return f"({runs} {'was' if why.runs == 1 else 'were'} tried{over})"
    text = (
        f"decided at event {why.event:,} of {why.events:,} (t={why.time_s:.6f} s): of {runs} that were "
        "tried, those that pass go another way before it"
    )
    return f"{text}; the time was over before all was known" if why.out_of_time else text
