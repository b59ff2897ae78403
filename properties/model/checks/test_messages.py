"""Messages that are not due, and due ones that are missing without harm."""

from __future__ import annotations

import pytest

from squall.model.checks.registry import named_property
from squall.model.events.digest import Record
from squall.model.events.run import Run
from squall.properties.support.planted import first_said
from squall.real import tracing

MESSAGES = named_property("messages")


def said(*records: Record) -> list[str]:
    return [violation.what for violation in MESSAGES.check(Run(records, workers=2))]


def sent(number: int, type: str, id: int = 7) -> Record:
    return 0.0, 0, 1, tracing.MESSAGE_SENT, (number, 0, 1, type, id, 10, ())


def test_a_message_is_sent_once() -> None:
    assert said(sent(1, "PYTHON_CALL"), sent(2, "PYTHON_CALL", 8)) == []
    assert said(sent(1, "PYTHON_CALL"), sent(2, "PYTHON_CALL")) == ["a request was sent twice"]
    assert said(sent(1, "PYTHON_RET"), sent(2, "EXCEPTION")) == ["a request was answered twice"]


def test_a_copy_that_the_network_made_is_not_counted() -> None:
    fault: Record = (
        0.0, 0, 1, tracing.FAULT_INJECTED,
        ("duplicate", "messages[0]", -1, 0, 1, "PYTHON_CALL", 1, 1, ""),
    )  # fmt: skip
    assert said(sent(1, "PYTHON_CALL"), fault, sent(2, "PYTHON_CALL")) == []


def test_a_request_is_taken_up_once() -> None:
    taken: Record = (0.0, 1, 5, tracing.HANDLER_STARTED, (0, "PYTHON_CALL", 7))
    assert said(taken) == []
    assert said(taken, taken) == ["a request was taken up twice"]


def release(known: tuple[int, ...], told: tuple[int, ...]) -> list[str]:
    added = [(0.0, 0, 1, tracing.KNOWN_WORKER_ADDED, (5, to)) for to in known]
    calls = [
        (1.0, 0, 1, tracing.CALL_STARTED, (id, to, "CLEANUP_AUTOGRAD_CONTEXT_REQ", 60.0, (5,)))
        for id, to in enumerate(told)
    ]
    return said(*added, (1.0, 0, 1, tracing.CONTEXT_RELEASED, (5,)), *calls)


def test_a_release_is_told_to_all_who_know_of_it_and_to_nobody_else() -> None:
    name = "a CLEANUP_AUTOGRAD_CONTEXT_REQ was sent"
    assert release((1, 2), (1, 2)) == []
    assert release((1, 2), (1,)) == [f"{name} too rarely"]
    assert release((1, 2), (1, 2, 2)) == [f"{name} too often"]
    assert release((1,), (1, 0)) == [f"{name} though it is not due"]


@pytest.mark.parametrize(
    ("place", "old", "new", "what"),
    [
        (
            "rpc.rref_context:RRefContext.notify_owner_and_parent_of_fork",
            "parent == rref.owner_id:",
            "False:",
            "a RREF_FORK_REQUEST was sent though it is not due",
        ),
        (
            "rpc.rref_context:RRefContext._finish_fork_request",
            "self._accept(fork_id, parent)\n",
            "self._accept(fork_id, parent)\n    self._accept(fork_id, parent)\n",
            "a RREF_CHILD_ACCEPT was sent too often",
        ),
        (
            "autograd.container:DistAutogradContainer._send_release_context_rpc",
            "for worker_id in known_workers:",
            "for worker_id in known_workers[1:]:",
            "a CLEANUP_AUTOGRAD_CONTEXT_REQ was sent too rarely",
        ),
        (
            "rpc.agent:RpcAgent._answer",
            "self._world.send(self._group, reply)\n",
            "self._world.send(self._group, reply)\n"
            "            self._world.send(self._group, reply)\n",
            "a request was answered twice",
        ),
    ],
)
def test_a_planted_bug_is_told(place: str, old: str, new: str, what: str) -> None:
    found = first_said("messages", place, old, new)
    assert what in {violation.what for violation in found}
