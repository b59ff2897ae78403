"""Rare situations that a campaign should have reached, counted from the events of its runs.

A situation that never occurs in many thousand scenarios is a hole in the testing: what handles it
might as well not be there. So each has a name here, ``squall fuzz --stats`` prints how many
scenarios reached it, and ``--require-sometimes`` fails for one that none did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squall.model.events.fault_effects import RETRIES, faults_of
from squall.model.events.run import ALL_ENGINES, PORT_ONLY, Run
from squall.model.events.unwrapped import unprofiled
from squall.real import tracing
from squall.real.tracing import EventType

#: every situation, by name, and on which engines it can be told: of messages, calls, faults and
#: what steps came to, all know; of contexts, passes, references and tries, only the workers of the
#: port report
SITUATIONS: dict[str, frozenset[str]] = {
    "a fetch before its creation": PORT_ONLY,
    "a fork request after the deletion of its user": ALL_ENGINES,
    "a deletion before the creation it is of": ALL_ENGINES,
    "a fork request handled twice": ALL_ENGINES,
    "a deletion handled twice": ALL_ENGINES,
    "an acceptance handled twice": ALL_ENGINES,
    "a clean-up handled twice": ALL_ENGINES,
    "a clean-up during a pass": PORT_ONLY,
    "a call after the release of its context": PORT_ONLY,
    "a response after the release of its context": PORT_ONLY,
    "gradients after the end of their pass": PORT_ONLY,
    "gradients after the release of their context": PORT_ONLY,
    "a response after its timeout": ALL_ENGINES,
    "a timeout of a call that was handled": ALL_ENGINES,
    "a timeout of a call that never arrived": ALL_ENGINES,
    "a creation that timed out": PORT_ONLY,
    "a retry of RREF_USER_DELETE": PORT_ONLY,
    "a retry of RREF_FORK_REQUEST": PORT_ONLY,
    "a retry of RREF_CHILD_ACCEPT": PORT_ONLY,
    "a retry of CLEANUP_AUTOGRAD_CONTEXT_REQ": PORT_ONLY,
    "the last of all retries": PORT_ONLY,
    "a request that came twice": PORT_ONLY,
    "a response that came twice": ALL_ENGINES,
    "a message overtaken on its link": ALL_ENGINES,
    "a pass that failed": PORT_ONLY,
    "a crash during a pass": PORT_ONLY,
    "a crash of an owner": PORT_ONLY,
    "a crash with calls on the way": ALL_ENGINES,
    "a partition during a pass": PORT_ONLY,
    "a pause during a pass": PORT_ONLY,
    "a restarted worker that trains": PORT_ONLY,
    "a step that failed and succeeded in a fresh context": ALL_ENGINES,
    "a step that succeeded although something was hit": ALL_ENGINES,
}


def situations(engine: str) -> tuple[str, ...]:
    """The names of those that can be told of runs on an engine."""
    return tuple(name for name, engines in SITUATIONS.items() if not engines or engine in engines)


_RELEASED_CALLS = ("FORWARD_AUTOGRAD_REQ", "FORWARD_AUTOGRAD_RESP")
_HANDLED_TWICE = {
    "RREF_FORK_REQUEST": "a fork request handled twice",
    "RREF_USER_DELETE": "a deletion handled twice",
    "RREF_CHILD_ACCEPT": "an acceptance handled twice",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": "a clean-up handled twice",
}
_CREATIONS = ("PYTHON_REMOTE_CALL", "SCRIPT_REMOTE_CALL")


def sometimes(run: Run) -> set[str]:
    """The situations that a run has reached."""
    watch = _Watch(run)
    rules = _RULES
    records = run.records
    for n in run.of(*rules):
        _, worker, _, type, values = records[n]
        rules[type](watch, worker, n, *values)
    watch.end()
    return watch.reached


class _Watch:
    """What has happened so far, as far as the situations depend on it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.reached: set[str] = set()
        #: by the number of a copy: ids inside, and its place among those sent on its link
        self.about: dict[int, tuple[Any, ...]] = {}
        self.place: dict[int, int] = {}
        self.sent: dict[tuple[int, int], int] = {}
        self.last: dict[tuple[int, int], int] = {}
        self.arrived: set[tuple[Any, ...]] = set()
        #: (receiver, type, ids) of what came, and replies by (caller, call)
        self.came: set[tuple[Any, ...]] = set()
        #: workers to which creations came whose reference is not told
        self.untold: set[int] = set()
        self.outcomes: dict[tuple[int, int], str] = {}
        self.calls: dict[tuple[int, int], int] = {}
        self.handled: set[tuple[int, int]] = set()
        #: passes that run, contexts released, values owned, workers restarted
        self.running: set[tuple[int, int]] = set()
        self.released: set[tuple[int, int]] = set()
        self.owners: dict[int, int] = {}
        self.restarted: set[int] = set()

    # -- messages -------------------------------------------------------------------------

    def message_sent(
        self, worker: int, n: int, number: int, src: int, dst: int, type: str, *rest: Any
    ) -> None:
        self.about[number] = rest[2]
        place = self.sent[src, dst] = self.sent.get((src, dst), 0) + 1
        self.place[number] = place

    def message_delivered(
        self, worker: int, n: int, number: int, src: int, dst: int, type: str, id: int, *_: Any
    ) -> None:
        link = (src, dst)
        place = self.place.get(number, 0)
        if place < self.last.get(link, 0):
            self.reached.add("a message overtaken on its link")
        else:
            self.last[link] = place
        type, about = unprofiled(type, self.about.get(number, ()))
        if type in RETRIES:
            self._control(dst, src, type, about)
        elif type.endswith(("_RET", "_RESP", "_ACK")) or type == "EXCEPTION":
            self._answer(dst, type, id, about)
        elif about[2:3] and about[2] in _CREATIONS:
            self._creation(dst, about[3:4])
        elif type in _CREATIONS:
            self._creation(dst, about[:1])
        if type in _RELEASED_CALLS and (dst, about[0]) in self.released:
            what = "a call" if type == "FORWARD_AUTOGRAD_REQ" else "a response"
            self.reached.add(f"{what} after the release of its context")

    def _creation(self, dst: int, about: tuple[Any, ...]) -> None:
        """``about``: the reference; none where a trace does not say, as PyTorch's of TorchScript."""
        if about:
            self.came.add((dst, "creation", about[0]))
        else:
            self.untold.add(dst)

    def _control(self, dst: int, src: int, type: str, about: tuple[Any, ...]) -> None:
        key = (dst, type, src if type == "CLEANUP_AUTOGRAD_CONTEXT_REQ" else -1, about)
        if key in self.came:
            self.reached.add(_HANDLED_TWICE[type])
        self.came.add(key)
        if type == "RREF_FORK_REQUEST" and (dst, "RREF_USER_DELETE", -1, about) in self.came:
            self.reached.add("a fork request after the deletion of its user")
        elif type == "RREF_USER_DELETE" and about[0][0] == src and about[1][0] == src:
            # The creator's own user, or another one that it made of its own reference.
            self.deleted_by_creator(dst, about)
        elif type == "CLEANUP_AUTOGRAD_CONTEXT_REQ" and (dst, about[0]) in self.running:
            self.reached.add("a clean-up during a pass")

    def deleted_by_creator(self, dst: int, about: tuple[Any, ...]) -> None:
        known = (dst, "creation", about[0]) in self.came or dst in self.untold
        if about[1][1] == about[0][1] + 1 and not known:
            self.reached.add("a deletion before the creation it is of")

    def _answer(self, dst: int, type: str, id: int, about: tuple[Any, ...]) -> None:
        if (dst, id) in self.arrived:
            self.reached.add("a response that came twice")
        self.arrived.add((dst, id))
        if self.outcomes.get((dst, id)) == "timeout":
            self.reached.add("a response after its timeout")

    # -- calls ----------------------------------------------------------------------------

    def call_started(self, worker: int, n: int, id: int, *_: Any) -> None:
        self.calls[worker, id] = n

    def call_ended(self, worker: int, n: int, id: int, dst: int, outcome: str) -> None:
        self.calls.pop((worker, id), None)
        self.outcomes[worker, id] = outcome
        if outcome == "timeout" and (worker, id) in self.handled:
            self.reached.add("a timeout of a call that was handled")

    def call_retried(self, worker: int, n: int, dst: int, type: str, attempt: int, *_: Any) -> None:
        self.reached.add(f"a retry of {type}")
        if attempt >= RETRIES.get(type, 0):
            self.reached.add("the last of all retries")

    def handler_ended(
        self, worker: int, n: int, src: int, type: str, id: int, error: str | None
    ) -> None:
        if error is None:
            self.handled.add((src, id))
            if self.outcomes.get((src, id)) == "timeout":
                self.reached.add("a timeout of a call that was handled")
        elif type == "BACKWARD_AUTOGRAD_REQ":
            if "belong to is over" in error:
                self.reached.add("gradients after the end of their pass")
            elif "Could not find autograd context" in error:
                self.reached.add("gradients after the release of their context")

    def duplicate_ignored(self, worker: int, n: int, *_: Any) -> None:
        self.reached.add("a request that came twice")

    # -- contexts, passes, references -------------------------------------------------------

    def context_created(self, worker: int, n: int, context: int) -> None:
        if worker in self.restarted:
            self.reached.add("a restarted worker that trains")

    def context_released(self, worker: int, n: int, context: int) -> None:
        self.released.add((worker, context))

    def pass_started(self, worker: int, n: int, context: int, *_: Any) -> None:
        self.running.add((worker, context))

    def pass_ended(self, worker: int, n: int, context: int, error: str | None, *_: Any) -> None:
        self.running.discard((worker, context))
        if error is not None:
            self.reached.add("a pass that failed")

    def owner_pending(self, worker: int, n: int, *_: Any) -> None:
        self.reached.add("a fetch before its creation")

    def owner_created(self, worker: int, n: int, *_: Any) -> None:
        self.owners[worker] = self.owners.get(worker, 0) + 1

    def owner_deleted(self, worker: int, n: int, *_: Any) -> None:
        self.owners[worker] = self.owners.get(worker, 0) - 1

    def user_timed_out(self, worker: int, n: int, *_: Any) -> None:
        self.reached.add("a creation that timed out")

    # -- faults ---------------------------------------------------------------------------

    def fault(self, worker: int, n: int, kind: str, item: str, target: int, *_: Any) -> None:
        if kind == "crash":
            if any(each[0] == target for each in self.running):
                self.reached.add("a crash during a pass")
            if self.owners.get(target, 0) > 0:
                self.reached.add("a crash of an owner")
            if any(call[0] == target for call in self.calls):
                self.reached.add("a crash with calls on the way")
        elif kind == "partition" and self.running:
            self.reached.add("a partition during a pass")
        elif kind == "pause" and any(each[0] == target for each in self.running):
            self.reached.add("a pause during a pass")
        elif kind == "restart":
            self.restarted.add(target)

    def end(self) -> None:
        """What can be told only of the whole run."""
        if any(
            outcome == "timeout" and call not in self.handled and call not in self.arrived
            for call, outcome in self.outcomes.items()
        ):
            self.reached.add("a timeout of a call that never arrived")
        run = self.run
        if run.outcomes.got is None or run.outcomes.expected is None or not faults_of(run).hit():
            return
        for key, step in run.outcomes.got.steps.items():
            expected = run.outcomes.expected.steps[key]
            if not step.finished or step.error is not None or expected.error is not None:
                continue
            if step.first_error is not None and expected.first_error is None:
                self.reached.add("a step that failed and succeeded in a fresh context")
            elif step.first_error is None:
                self.reached.add("a step that succeeded although something was hit")


_RULES: dict[EventType, Callable[..., None]] = {
    tracing.MESSAGE_SENT: _Watch.message_sent,
    tracing.MESSAGE_DELIVERED: _Watch.message_delivered,
    tracing.CALL_STARTED: _Watch.call_started,
    tracing.CALL_ENDED: _Watch.call_ended,
    tracing.CALL_RETRIED: _Watch.call_retried,
    tracing.HANDLER_ENDED: _Watch.handler_ended,
    tracing.DUPLICATE_IGNORED: _Watch.duplicate_ignored,
    tracing.CONTEXT_CREATED: _Watch.context_created,
    tracing.CONTEXT_RELEASED: _Watch.context_released,
    tracing.PASS_STARTED: _Watch.pass_started,
    tracing.PASS_ENDED: _Watch.pass_ended,
    tracing.OWNER_PENDING: _Watch.owner_pending,
    tracing.OWNER_CREATED: _Watch.owner_created,
    tracing.OWNER_DELETED: _Watch.owner_deleted,
    tracing.USER_TIMED_OUT: _Watch.user_timed_out,
    tracing.FAULT_INJECTED: _Watch.fault,
}
