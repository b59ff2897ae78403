"""What decided a failure, as lines for people."""

from __future__ import annotations

from itertools import zip_longest

from squall.sim.search.why.cause import Line, Why

#: columns that both runs may take beside each other
_WIDE = 118
_GAP = "   "


def lines(why: Why) -> list[str]:
    """The cause first, then what both runs did, then when it was decided."""
    found = [*why.said]
    if why.failing or why.passing:
        found += ["", *_runs(why)]
    if why.variables:
        values = ", ".join(f"{name} = {value}" for name, value in why.variables.items())
        found += ["", f"at {why.raised}: {values}"]
    return [*found, "", _decided(why)]


def _runs(why: Why) -> list[str]:
    left = ["this run", *_told(why.failing)]
    if not why.passing:
        return left
    right = ["a run that passes", *_told(why.passing)]
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
        found.append(f"  {line.by:<{width}}  {line.what}{result}")
    return found


def _decided(why: Why) -> str:
    runs = f"{why.runs:,} runs"
    if why.step < 0:
        over = ", until the time was over" if why.out_of_time else ""
        return f"({runs} were tried{over})"
    text = (
        f"decided at event {why.event:,} of {why.events:,} (t={why.time_s:.6f} s): of {runs} that were "
        "tried, those that pass go another way before it"
    )
    return f"{text}; the time was over before all was known" if why.out_of_time else text
