"""One fault at a time, at every place: a plan for each message of a program and each kind, and for
each worker.

The messages are those that any execution without a fault has sent. What befalls a message is no
choice within an exploration: with a budget of one all choices of faults would depend on each other.
When a worker ends is one: its end is a step that depends on all others, and so it is put between
all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from squall.model.events.run import Run
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.real.tracing import MESSAGE_SENT
from squall.sim.faults.plan import Crash, Delay, Drop, Duplicate, Fail, MessageFault, Plan

#: seconds by which messages are late: past the first retry, past a call's limit, past all retries
LATE_S = (1.2, DEFAULT_RPC_TIMEOUT_S + 1.0, DEFAULT_RPC_TIMEOUT_S + 10.0)


def check_explorable(plan: Plan) -> None:
    """Raises ValueError unless each fault of ``plan`` is about messages of one type on one link, lost,
    doubled, late or not sent for certain, or ends a worker at some time: what others do depends
    on what has happened elsewhere."""
    for group, at, item in plan.items():
        if isinstance(item, Crash) and item == Crash(worker=item.worker):
            continue
        if not (
            isinstance(item, Drop | Duplicate | Delay | Fail)
            and item.probability == 1
            and len(item.types) == 1
            and item.src is not None
            and item.dst is not None
            and (item.from_s, item.until_s) == (0.0, None)
            and not getattr(item, "spread_s", 0)
        ):
            raise ValueError(
                f"faults.{group}[{at}]: expected certain drops, duplicates, delays and failures of one "
                "type of message between two given workers, or a crash without a time, a moment "
                f"and a restart, got {item.kind}"
            )
    if plan.heal_s is not None:
        raise ValueError("faults.heal_s: expected faults that do not end by themselves")


class MessagePlace(NamedTuple):
    """A message: the ``nth`` of its type on its way from ``src`` to ``dst``, from 1."""

    type: str
    src: int
    dst: int
    nth: int

    def __str__(self) -> str:
        return f"{self.type} {self.src}->{self.dst} #{self.nth}"


def sent_in(run: Run) -> dict[tuple[str, int, int], int]:
    """How many messages of each type a run has sent from one worker to another since all had
    joined: by type, source and destination."""
    sent: Counter[tuple[str, int, int]] = Counter()
    for number in run.of(MESSAGE_SENT):
        if number < run.conditions.chosen_from:
            continue
        _, src, dst, type, *_ = run.records[number][4]
        if src != dst:
            sent[type, src, dst] += 1
    return sent


def places(sent: Mapping[tuple[str, int, int], int]) -> Iterator[MessagePlace]:
    """Each message of those that an exploration has sent."""
    for (type, src, dst), most in sorted(sent.items()):
        for nth in range(1, most + 1):
            yield MessagePlace(type, src, dst, nth)


def faults_at(place: MessagePlace) -> Iterator[tuple[str, MessageFault]]:
    """What can happen to a message: lost, doubled, late, not sent; each with words for it."""
    types, src, dst, nth = (place.type,), place.src, place.dst, (place.nth,)
    yield f"{place} lost", Drop(types=types, src=src, dst=dst, nth=nth)
    yield f"{place} doubled", Duplicate(types=types, src=src, dst=dst, nth=nth)
    for seconds in LATE_S:
        late = Delay(types=types, src=src, dst=dst, nth=nth, seconds=seconds)
        yield f"{place} {seconds:g} s late", late
    yield f"{place} fails", Fail(types=types, src=src, dst=dst, nth=nth)


def ends(workers: int) -> Iterator[tuple[str, Crash]]:
    """Each worker may end, at any time: with words for it."""
    for rank in range(workers):
        yield f"worker{rank} ends", Crash(worker=rank)


def kind_of(words: str) -> str:
    """What happens, of words for it, without where."""
    _, number, what = words.partition(" #")
    return what.partition(" ")[2] if number else words.partition(" ")[2]
