"""The critical path of a step: the chain of events that decided when it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from squall.model.events.passes import joint_passes
from squall.real import tracing
from squall.sim.pictures.causality import causes_of
from squall.sim.pictures.flows import seconds
from squall.sim.pictures.palette import RREF, kind_of
from squall.sim.pictures.recording import Recording

COMPUTE, LATENCY, QUEUEING = "compute", "latency", "queueing"
CONFIRMATION, SLEEP = "waiting for confirmation", "timers and sleep"
PARTS = (COMPUTE, LATENCY, QUEUEING, CONFIRMATION, SLEEP)


class Hop(NamedTuple):
    """From one event of the path to the next: what the time between them was."""

    first: int
    last: int
    part: str


class CriticalPath(NamedTuple):
    """The path to ``last`` from ``first``, and what it was made of, in seconds by name."""

    first: int
    last: int
    context: int
    hops: tuple[Hop, ...]
    parts_s: dict[str, float]

    @property
    def total_s(self) -> float:
        return sum(self.parts_s.values())

    def __str__(self) -> str:
        total = self.total_s
        made = ", ".join(
            f"{name} {seconds(value)} ({100 * value / total:.0f} %)"
            for name, value in self.parts_s.items()
            if value > 0
        )
        return f"{seconds(total)}" + (f" = {made}" if made else "")


#: what the time of each part is called in words; ``{}`` is the link or the worker
_WORDS = {
    LATENCY: "messages on their way {}",
    CONFIRMATION: "messages about RRefs on their way {}",
    QUEUEING: "waiting for a turn on {}",
    COMPUTE: "work on {}",
    SLEEP: "timers and sleep on {}",
}
#: links and workers that :func:`told` names
_NAMED_MOST = 5


class Share(NamedTuple):
    """Time of a critical path in one place: ``where`` is a link (from, to), or a worker alone."""

    part: str
    where: tuple[int, ...]
    seconds: float
    hops: int


def shares(run: Recording, path: CriticalPath) -> list[Share]:
    """What links and workers took of the path, the largest share first. Together all of its time."""
    found: dict[tuple[str, tuple[int, ...]], tuple[float, int]] = {}
    for hop in path.hops:
        taken_s = run.time_s(hop.last) - run.time_s(hop.first)
        worker = int(run.workers_of[hop.last])
        where: tuple[int, ...] = (worker,)
        if (
            hop.part in (LATENCY, CONFIRMATION)
            and run.records[hop.last][3] is tracing.MESSAGE_DELIVERED
        ):
            where = (int(run.records[hop.last][4][1]), int(run.records[hop.last][4][2]))
        before_s, hops = found.get((hop.part, where), (0.0, 0))
        found[hop.part, where] = (before_s + taken_s, hops + 1)
    every = [Share(part, where, *sums) for (part, where), sums in found.items()]
    return sorted(
        (one for one in every if one.seconds > 0), key=lambda s: (-s.seconds, s.part, s.where)
    )


def told(run: Recording, path: CriticalPath) -> str:
    """The path in words: how long it took, and which links and workers took which share of it."""
    total = path.total_s
    if total <= 0:
        return f"no virtual time passed in its {len(path.hops):,} events"
    found = shares(run, path)

    def share(value: float) -> str:
        return f"{100 * value / total:.0f} %"

    said = []
    for one in found[:_NAMED_MOST]:
        where = " → ".join(run.name(worker) for worker in one.where)
        count = f" in {one.hops:,} messages" if len(one.where) == 2 and one.hops > 1 else ""
        said.append(
            f"{share(one.seconds)} {_WORDS[one.part].format(where)} ({seconds(one.seconds)}{count})"
        )
    rest = sum(one.seconds for one in found[_NAMED_MOST:])
    if rest:
        said.append(f"{share(rest)} elsewhere ({seconds(rest)})")
    parts = path.parts_s
    waited = parts[LATENCY] + parts[CONFIRMATION]
    in_all = (
        f"in all {share(waited)} waiting for messages, {share(parts[QUEUEING])} waiting for a turn, "
        f"{share(parts[SLEEP])} timers and sleep, {share(parts[COMPUTE])} work"
    )
    return f"{seconds(total)}: {', '.join(said)}; {in_all}"


def steps_of(run: Recording) -> list[tuple[int, int, int]]:
    """(context, first event, last event) of each step: from the making of its context by the
    worker that started a pass in it to the end of the last of its passes."""
    created: dict[tuple[int, int], int] = {}
    for n in run.run.of(tracing.CONTEXT_CREATED):
        _, worker, _, _, (context,) = run.records[n]
        created.setdefault((worker, context), n)
    found: dict[int, tuple[int, int, int]] = {}
    for root, _ in joint_passes(run.run):
        if root.ended >= 0:
            first = created.get((root.worker, root.context), root.started)
            found[root.context] = (root.context, first, root.ended)
    return list(found.values())


def critical_path(
    run: Recording, *, context: int | None = None, last: int | None = None
) -> CriticalPath | None:
    """The critical path of the step in ``context``; by default of the step that took longest.

    ``last``: instead, of whatever led to this event. None if there is no step. Raises ValueError
    for a context without a finished pass, or an event that is not there.
    """
    if last is not None:
        if not 0 <= last < len(run):
            raise ValueError(f"last: there is no event {last} in this run of {len(run):,}")
        return _walk(run, -1, 0, last)
    steps = steps_of(run)
    if context is not None:
        steps = [step for step in steps if step[0] == context]
        if not steps:
            raise ValueError(f"context: no pass has ended in context {context}")
    if not steps:
        return None
    return _walk(run, *max(steps, key=lambda s: (run.time_s(s[2]) - run.time_s(s[1]), s[2] - s[1])))


def _walk(run: Recording, context: int, first: int, last: int) -> CriticalPath:
    before, elsewhere = causes_of(run)
    hops: list[Hop] = []
    event = last
    while event > first:
        previous = max(int(before[event]), int(elsewhere[event]))
        if previous < 0:
            break
        if previous < first:
            # The path enters the step from before it: what remains is no part of the step.
            hops.append(Hop(first, event, _part(run, previous, event)))
            event = first
            break
        hops.append(Hop(previous, event, _part(run, previous, event)))
        event = previous
    hops.reverse()
    parts = dict.fromkeys(PARTS, 0.0)
    for hop in hops:
        parts[hop.part] += run.time_s(hop.last) - run.time_s(hop.first)
    return CriticalPath(event, last, context, tuple(hops), parts)


def _part(run: Recording, previous: int, event: int) -> str:
    type, values = run.records[event][3:]
    if type is tracing.MESSAGE_DELIVERED and run.records[previous][3] is tracing.MESSAGE_SENT:
        return CONFIRMATION if _confirms(values[3]) else LATENCY
    if type is tracing.TASK_STARTED:
        timer = run.records[previous][3] in (tracing.CALL_STARTED, tracing.CALL_RETRIED)
        return SLEEP if timer else QUEUEING
    if run.records[previous][2] != run.records[event][2]:
        return QUEUEING
    if _computes(run.records[previous][3:]):
        return COMPUTE
    return SLEEP


def _confirms(message_type: str) -> bool:
    return kind_of(message_type) is RREF


def _computes(record: Sequence[object]) -> bool:
    return record[0] in (
        tracing.UDF_STARTED,
        tracing.NODE_EXECUTED,
        tracing.HANDLER_STARTED,
        tracing.HANDLER_RESUMED,
        tracing.DEPENDENCIES_COMPUTED,
        tracing.TASK_STARTED,
        tracing.GRADIENT_ACCUMULATED,
    )
