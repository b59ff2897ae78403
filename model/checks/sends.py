"""What a context keeps for messages: only for those that left, and as long as an answer may come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from squall.model.events.fault_effects import faults_of
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.events.unwrapped import unprofiled
from squall.real import tracing

_FORWARD = ("FORWARD_AUTOGRAD_REQ", "FORWARD_AUTOGRAD_RESP")


@named("sends", engines=PORT_ONLY, work="both")
def SENDS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Whenever a backward pass begins on a worker, and at the end, each send function of the context
    stands for a message that was handed to the network, and its call, if it was one, has not
    failed: gradients can come for it. A worker is known to a context if, and only if, a message of
    the context was handed to the network for it. What is made for a message that then cannot be
    sent goes with it.
    """
    if not run.of(tracing.SEND_ATTACHED, tracing.KNOWN_WORKER_ADDED):
        return
    yield from _Reader(run).violations()


#: a worker's process, by the worker and how many of its processes have ended before
_Process = tuple[int, int]


class _Reader:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._faults = faults_of(run)
        #: by process and context: the send functions, with the events that attached them
        self._attached: dict[tuple[_Process, int], dict[int, int]] = {}
        #: the events that made a worker known, by who knows it, context and worker
        self._known: dict[tuple[_Process, int, int], int] = {}
        #: messages that left, by sender, context and number; whom they went to
        self._left: dict[tuple[_Process, int, int], int] = {}
        #: of those the calls, by caller and id; and which of them have failed
        self._calls: dict[tuple[_Process, int], tuple[_Process, int, int]] = {}
        self._failed: dict[tuple[_Process, int, int], int] = {}

    def _process(self, worker: int, n: int) -> _Process:
        """That of a worker at an event. A new one has contexts of its own under the same ids."""
        return worker, bisect_left(self._faults.gone.get(worker, ()), n)

    def violations(self) -> Iterator[Violation]:
        records = self.run.records
        for n in self.run.of(
            tracing.SEND_ATTACHED,
            tracing.SEND_DETACHED,
            tracing.KNOWN_WORKER_ADDED,
            tracing.KNOWN_WORKER_REMOVED,
            tracing.MESSAGE_SENT,
            tracing.CALL_ENDED,
            tracing.PASS_STARTED,
        ):
            _, worker, _, type, values = records[n]
            if type is tracing.MESSAGE_SENT:
                self._sent(n, values)
                continue
            process = self._process(worker, n)
            if type is tracing.CALL_ENDED:
                request = self._calls.get((process, values[0]))
                if request is not None and values[2] != "ok":
                    self._failed[request] = n
            elif type is tracing.PASS_STARTED:
                for message, attached in self._attached.get((process, values[0]), {}).items():
                    yield from self._of_send((process, values[0], message), attached, n)
            elif type is tracing.SEND_ATTACHED:
                self._attached.setdefault((process, values[0]), {})[values[1]] = n
            elif type is tracing.SEND_DETACHED:
                self._attached.get((process, values[0]), {}).pop(values[1], None)
            elif type is tracing.KNOWN_WORKER_ADDED:
                self._known[process, values[0], values[1]] = n
            else:
                self._known.pop((process, values[0], values[1]), None)
        yield from self._at_the_end()

    def _sent(self, n: int, values: tuple[Any, ...]) -> None:
        _, src, dst, type, id, _, about = values
        inside, about = unprofiled(type, about)
        if inside not in _FORWARD:
            return
        process = self._process(src, n)
        message = (process, about[0], about[1])
        self._left[message] = dst
        if type.endswith("_REQ"):
            self._calls[process, id] = message

    def _of_send(
        self, message: tuple[_Process, int, int], attached: int, n: int
    ) -> Iterator[Violation]:
        number = message[2]
        if message not in self._left:
            if self._released_meanwhile(message[0], message[1], attached):
                return
            yield self.run.violation(
                "sends",
                "a send function without a message",
                f"autograd message {number} to leave, or its send function to go with it",
                "it did not leave, and the send function is there",
                attached,
                n,
            )
        elif self._failed.get(message, n) < n:
            yield self.run.violation(
                "sends",
                "a send function of a call that failed",
                f"the send function of autograd message {number} to go with its call",
                "it is there",
                attached,
                n,
            )

    def _released_meanwhile(self, process: _Process, context: int, n: int) -> bool:
        """Whether the context was being released while a task did something for a message at ``n``: who
        finds then that it cannot be sent finds no context to take it back from."""
        records = self.run.records
        ended = next(
            (
                at
                for at in self.run.of(tracing.TASK_ENDED)
                if at > n and records[at][2] == records[n][2]
            ),
            len(records),
        )
        began = {records[at][2]: at for at in self.run.of(tracing.TASK_STARTED)}
        return any(
            began.get(records[at][2], at) < ended
            for at in self.run.of(tracing.CONTEXT_RELEASED)
            if at > n and records[at][1] == process[0] and records[at][4][0] == context
        )

    def _at_the_end(self) -> Iterator[Violation]:
        last = len(self.run.records) - 1
        for (process, context), functions in self._attached.items():
            for message, attached in functions.items():
                left = (process, context, message) in self._left
                if not left and not self._faults.gone_after(process[0], attached):
                    yield from self._of_send((process, context, message), attached, last)
        reached = {(src, context, dst): None for (src, context, _), dst in self._left.items()}
        for key, n in self._known.items():
            if key not in reached and not (
                self._faults.gone_after(key[0][0], n) or self._released_meanwhile(key[0], key[1], n)
            ):
                yield self.run.violation(
                    "sends",
                    "a known worker without a message",
                    f"worker {key[2]} to be reached by a message of context {key[1]}",
                    "none left for it",
                    n,
                )
        for key in reached:
            if key not in self._known:
                yield self.run.violation(
                    "sends",
                    "a message to a worker that is not known",
                    f"worker {key[2]} known to context {key[1]} on worker {key[0][0]}",
                    "it is not",
                )


RANK = 31
PROPERTIES: tuple[Property, ...] = (SENDS,)
