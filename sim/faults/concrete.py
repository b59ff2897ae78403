"""What a run made of a fault plan, written down as a plan that draws nothing.

It names each message that was hit: "message 0->2 BACKWARD_AUTOGRAD_REQ #3: dropped". Such a plan
makes the same run whatever has become of the generator and of the streams, and every item of it
can be taken away by itself: it is where shrinking starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from squall.real.tracing import FAULT_INJECTED, EventType
from squall.sim.faults.plan import AnyMessageFault, Delay, Drop, MessageFault, Plan, Schedule, draws
from squall.sim.world.trace import Event

#: an event as a trace keeps it: time, worker, task, type, values
_Record = tuple[float, int, int, EventType, tuple[Any, ...]]


def concrete(plan: Plan, records: Iterable[_Record], schedule: Schedule | None = None) -> Plan:
    """The plan that does what ``plan`` did in the run with these events.

    ``schedule``: the order that was recorded (``Cluster(record_schedule=True)``), in place of one
    that draws. What does not draw stays as it is.
    """
    hits: dict[str, list[Event]] = {}
    for number, record in enumerate(records):
        if record[3] is FAULT_INJECTED:
            event = Event(number, *record)
            hits.setdefault(str(event["item"]), []).append(event)
    messages: list[AnyMessageFault] = []
    for at, item in enumerate(plan.messages):
        if draws(item):
            messages += _hits(item, hits.get(f"messages[{at}]", []))
        else:
            messages.append(item)
    # Links judge after everything else, so what they lost comes last here too.
    for at, link in enumerate(plan.links):
        if draws(link):
            messages += [Drop(**_one(event)) for event in hits.get(f"links[{at}]", [])]
    return replace(
        plan,
        messages=tuple(messages),
        links=tuple(link for link in plan.links if not draws(link)),
        schedule=plan.schedule if schedule is None else schedule,
    )


def _hits(item: AnyMessageFault, events: list[Event]) -> Iterator[AnyMessageFault]:
    """An item for each message that ``item`` hit."""
    for event in events:
        changes: dict[str, Any] = _one(event)
        if isinstance(item, Delay):
            changes |= {"seconds": event["detail"], "spread_s": 0.0}
        yield replace(item, **changes, **_CERTAIN)


_CERTAIN: dict[str, Any] = {
    name: MessageFault.__dataclass_fields__[name].default
    for name in ("direction", "from_s", "until_s", "probability")
}


def _one(event: Event) -> dict[str, Any]:
    """What selects the one message that an event tells of."""
    return {
        "types": (event["type"],),
        "src": event["src"],
        "dst": event["dst"],
        "nth": (event["nth"],),
    }
