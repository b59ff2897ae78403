"""Passes that cannot end, predicted from the joint graph of the workers.

In FAST mode a pass waits for gradients of every send function of its context on every worker
that takes part. One whose recv function the roots do not lead to gets none.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from squall.model.events.passes import PassPart, joint_passes, passes_of
from squall.model.events.run import Run
from squall.model.events.unwrapped import unprofiled
from squall.real import tracing

_FORWARD = "FORWARD_AUTOGRAD_REQ"


class Unfed(NamedTuple):
    """A send function that a pass never gives gradients to: on ``worker``, for a message that
    went to ``to``."""

    worker: int
    to: int
    message: int

    def __str__(self) -> str:
        return (
            f"worker {self.worker} waits for gradients of what it sent to worker {self.to} in "
            f"autograd message {self.message}, but nothing that the roots depend on uses it"
        )


class Predicted(NamedTuple):
    """One pass: its root's part, and what it waits for without end."""

    root: PassPart
    #: the workers that took part
    workers: list[int]
    unfed: list[Unfed]


def predict(run: Run, *, ended: bool = True) -> list[Predicted]:
    """What each pass of the run comes to. ``ended`` False leaves out those that have succeeded."""
    return [
        Predicted(root, list(parts), _unfed(root, parts))
        for root, parts in joint_passes(run)
        if root.computed >= 0 and (ended or not root.ok)
    ]


def too_late(run: Run, context: int) -> Counter[tuple[int, int]]:
    """(worker, to) of the send functions that no pass of ``context`` counts.

    A call that nobody waited for may still send when its worker takes part in a pass already, or
    come when the context is released there, and then nothing of its answer is recorded.
    """
    counted = {
        (part.worker, message)
        for part in passes_of(run).of_context(context)
        for message in part.sends
    }
    gone = {(run.records[n][1], run.records[n][4][1]) for n in run.of(tracing.SEND_DETACHED)}
    late: Counter[tuple[int, int]] = Counter()
    for n in run.of(tracing.SEND_ATTACHED):
        _, worker, _, _, (of, message, to, _) = run.records[n]
        if of == context and (worker, message) not in counted | gone:
            late[worker, to] += 1
    for worker, src, _ in _ended_after_release(run, context):
        late[worker, src] += 1
    return late


def cut_short(run: Run, context: int) -> set[int]:
    """Workers on which a function of ``context`` was at work when it was released there.

    Which of its further calls are made, and under which context, is a matter of time.
    """
    return {worker for worker, *_ in _ended_after_release(run, context)}


def _ended_after_release(run: Run, context: int) -> set[tuple[int, int, int]]:
    """(worker, src, id) of the calls of ``context`` that ``worker`` answers after its release."""
    requests = {
        (values[2], values[1], values[4])
        for values in (run.records[n][4] for n in run.of(tracing.MESSAGE_SENT))
        if unprofiled(values[3], values[6])[0] == _FORWARD
        and unprofiled(values[3], values[6])[1][0] == context
    }
    released: set[int] = set()
    late = set()
    for n in run.of(tracing.CONTEXT_RELEASED, tracing.HANDLER_STARTED, tracing.HANDLER_ENDED):
        _, worker, _, type, values = run.records[n]
        if type is tracing.CONTEXT_RELEASED:
            if values[0] == context:
                released.add(worker)
        elif worker in released and (worker, values[0], values[2]) in requests:
            late.add((worker, values[0], values[2]))
    return late


def explain(run: Run) -> list[str]:
    """Why the run hangs, a line for each send function that is waited for: the worker, what was
    sent, and that nothing uses it. Empty if every pass ends."""
    lines = []
    for predicted in predict(run, ended=False):
        if predicted.root.ended < 0 or predicted.unfed:
            lines += [_line(run, predicted.root.context, unfed) for unfed in predicted.unfed]
    return lines


def _line(run: Run, context: int, unfed: Unfed) -> str:
    for key, outcome in run.outcomes.got.steps.items() if run.outcomes.got is not None else ():
        if outcome.context == context:
            for sent in run.forecast(*key).unfed:
                if (sent.src, sent.dst) == (unfed.worker, unfed.to):
                    where = f"trainers[{key[0]}].steps[{key[1]}]"
                    return f"{unfed}; in {where} this may be the {sent}"
    return str(unfed)


def _unfed(root: PassPart, parts: dict[int, PassPart]) -> list[Unfed]:
    sends = {
        message: (worker, number)
        for worker, part in parts.items()
        for message, number in part.graph.sends.items()
    }
    reached: dict[tuple[int, int], None] = {(root.worker, 0): None}
    queue = list(reached)
    for worker, number in queue:  # grows while it is walked
        graph = parts[worker].graph
        found = [(worker, edge[0]) for edge in graph.nodes[number].edges if edge]
        if graph.recvs.get(number) in sends:
            found.append(sends[graph.recvs[number]])
        for place in found:
            if place not in reached:
                reached[place] = None
                queue.append(place)
    taking_part = {worker for worker, _ in reached}
    return [
        Unfed(worker, parts[worker].sends_to.get(message, -1), message)
        for message, (worker, number) in sends.items()
        if (worker, number) not in reached and worker in taking_part
    ]
