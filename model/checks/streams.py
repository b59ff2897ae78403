"""Streams of a device: nothing is read before it is there, and nothing written while it is read."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.events.stream_order import races

#: before wrong gradients, which come of it
RANK = 15
#: how many races of one run are told
_MOST = 5


@named("streams", engines=PORT_ONLY, work="both", whole=True)
def STREAMS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Two kernels that use the same memory of a device, one of which writes to it, are put in order
    by their stream, by events that are recorded and waited for, or by the host. Memory that is freed
    is written to by whatever is allocated next on its stream.
    """
    if not run.computing.stream_events:
        return
    events = run.computing.stream_events
    seen: set[tuple[str, str]] = set()
    for race in races(events):
        first, second = events[race.first], events[race.second]
        places = (first.where + first.name, second.where + second.name)
        if places in seen:
            continue
        seen.add(places)
        if len(seen) > _MOST:
            return
        yield Violation(
            "streams",
            "two kernels use the same memory in no order",
            "an event that one waits for",
            f"{first} || {second}",
            second.worker,
        )


PROPERTIES: tuple[Property, ...] = (STREAMS,)
