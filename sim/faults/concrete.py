"""What a run made of a fault plan, written down as a plan that draws nothing.

It names each message that was hit: "message 0->2 BACKWARD_AUTOGRAD_REQ #3: dropped". Such a plan
makes the same run whatever has become of the generator and of the streams, and every item of it
can be taken away by itself: it is where shrinking starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from squall.real.tracing import FAULT_INJECTED, EventType
from squall.sim.faults.fault import Fault
from squall.sim.faults.plan import Plan, Schedule
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
    # Links judge after everything else, so what they lost comes last here too.
    items: list[Fault] = []
    for group, at, item in plan.items():
        if item.draws:
            items += item.concrete(hits.get(f"{group}[{at}]", []))
        else:
            items.append(item)
    return plan.with_items(items, schedule=plan.schedule if schedule is None else schedule)
