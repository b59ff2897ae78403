"""A training step as a picture, a row for each rank, and its critical path in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import plotly.graph_objects as go

from squall.model.events.group_time import GroupTime, Hop, Segment, StepTime
from squall.sim.pictures.flows import seconds
from squall.sim.pictures.palette import (
    BLACK,
    BLUE,
    GREEN,
    LAYOUT,
    ORANGE,
    PALE,
    PALE_GREY,
    PURPLE,
    SKY,
    YELLOW,
)

#: operators by the order of their names, and operations of groups while their data moves
_COMPUTED = (BLUE, ORANGE, GREEN, PURPLE, SKY)
_MOVING, _WAITING, _IDLE = YELLOW, PALE_GREY, PALE
#: how high a row is at least, and all of them if they are few
_ROW_PX, _FEW_ROWS_PX = 30, 600
#: parts of a path that are told in a summary, and on either side of what is left out of its course
_SHARES, _TOLD = 5, 10
#: ranks of a way that are told
_RANKS = 6
#: what part of it is told in a summary
_LEAST = 0.01


def step_time(found: GroupTime, step: StepTime) -> go.Figure:
    """Bars of what each rank does, from the beginning of the step on, in milliseconds; the critical path is a line."""
    begins_s = min(step.start_s.values())
    kinds = defaultdict[tuple[str, str], list[Segment]](list)
    for each in found.segments_in(step):
        kinds[each.state, each.kind if each.state != "waiting" else ""].append(each)
    operators = sorted({kind for state, kind in kinds if state == "compute"})
    colors = {name: _COMPUTED[at % len(_COMPUTED)] for at, name in enumerate(operators)}
    order = ["compute", "moving", "waiting", "idle"]
    figure = go.Figure(
        [
            _bars(segments, begins_s, colors)
            for _, segments in sorted(
                kinds.items(), key=lambda each: (order.index(each[0][0]), each)
            )
        ]
    )
    path = found.critical_path(step)
    at = [(each.start_s, each.rank if each.src < 0 else each.src) for each in path]
    ends = [(each.end_s, each.rank) for each in path]
    points = [point for pair in zip(at, ends, strict=True) for point in pair]
    figure.add_scatter(
        x=[(at_s - begins_s) * 1e3 for at_s, _ in points],
        y=[_row(rank) for _, rank in points],
        mode="lines",
        line={"color": BLACK, "width": 2},
        name="critical path",
        hoverinfo="skip",
    )
    figure.update_layout(LAYOUT)
    rows = [_row(rank) for rank in sorted(step.end_s, reverse=True)]
    figure.update_layout(
        barmode="overlay",
        bargap=0.25,
        height=150 + len(rows) * max(_ROW_PX, min(_FEW_ROWS_PX // len(rows), 3 * _ROW_PX)),
        xaxis={"title": "milliseconds of virtual time since the step began"},
        yaxis={"categoryorder": "array", "categoryarray": rows},
        title=f"{_named(step)}: {seconds(step.seconds)}",
    )
    return figure


def _named(step: StepTime) -> str:
    return f"step {step.number}" if step.number else "the whole run"


def _row(rank: int) -> str:
    return f"rank {rank}"


def _bars(segments: Sequence[Segment], begins_s: float, colors: dict[str, str]) -> go.Bar:
    state, kind = segments[0].state, segments[0].kind
    name = {"compute": kind, "moving": f"{kind}: data moves", "waiting": "waiting", "idle": "idle"}
    color = {"moving": _MOVING, "waiting": _WAITING, "idle": _IDLE}
    return go.Bar(
        orientation="h",
        name=name[state],
        y=[_row(each.rank) for each in segments],
        base=[(each.start_s - begins_s) * 1e3 for each in segments],
        x=[each.seconds * 1e3 for each in segments],
        marker={"color": colors.get(kind, BLUE) if state == "compute" else color[state]},
        hovertext=[_hover(each) for each in segments],
        hoverinfo="text",
    )


def _hover(each: Segment) -> str:
    who = f" for rank {each.by}" if each.state == "waiting" else ""
    who = f" from rank {each.by}" if each.state == "moving" and each.by >= 0 else who
    what = f"{each.state} {each.kind}".strip()
    return f"rank {each.rank}: {what}{who}, {seconds(each.seconds)}"


def told(path: Sequence[Hop]) -> list[str]:
    """A critical path in words: what took most of it, and its course."""
    total_s = sum(each.seconds for each in path)
    if not total_s:
        return ["no virtual time passed"]
    shares = defaultdict[str, float](float)
    for each in path:
        shares[_part(each)] += each.seconds
    most = sorted(shares.items(), key=lambda each: (-each[1], each[0]))
    large = [(what, s) for what, s in most[:_SHARES] if s / total_s >= _LEAST]
    said = [f"{100 * s / total_s:.0f} % {what} ({seconds(s)})" for what, s in large]
    if len(most) > len(large):
        rest_s = sum(s for _, s in most[len(large) :])
        said.append(f"{100 * rest_s / total_s:.1f} % elsewhere ({seconds(rest_s)})")
    course = [
        f"{_way(hops)} {seconds(sum(each.seconds for each in hops))}" for hops in _together(path)
    ]
    if len(course) > 2 * _TOLD + 1:
        left_out = f"({len(course) - 2 * _TOLD} more)"
        course = [*course[:_TOLD], left_out, *course[-_TOLD:]]
    return [f"{seconds(total_s)}: {', '.join(said)}", ", then ".join(course)]


def _together(path: Sequence[Hop]) -> list[list[Hop]]:
    """Hops that are told as one: what one rank does, and data that goes on from rank to rank."""
    found: list[list[Hop]] = []
    for each in path:
        last = found[-1][-1] if found else None
        goes_on = last is not None and (last.kind, last.rank) == (each.kind, each.src)
        if last is not None and (goes_on or _part(last) == _part(each)):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _way(hops: Sequence[Hop]) -> str:
    if hops[0].src < 0 or len({_part(each) for each in hops}) == 1:
        return _part(hops[0])
    ranks = [str(rank) for rank in (hops[0].src, *(each.rank for each in hops))]
    if len(ranks) > _RANKS:
        ranks[_RANKS - 1 : -1] = ["…"]
    return f"{hops[0].kind} along ranks {', '.join(ranks)}"


def _part(hop: Hop) -> str:
    if hop.src >= 0:
        return f"{hop.kind} from rank {hop.src} to rank {hop.rank}"
    what = {"compute": "computes", "waiting": "waits", "moving": f"waits for its {hop.kind}"}
    return f"rank {hop.rank} {what.get(hop.state, 'is idle')}"
