"""Which call carries what: from the worker that makes it to the task that handles it, and back."""

from __future__ import annotations

from typing import NamedTuple

#: types of the calls that are followed
GRADIENTS, RELEASE = "BACKWARD_AUTOGRAD_REQ", "CLEANUP_AUTOGRAD_CONTEXT_REQ"
CARRIED = frozenset({GRADIENTS, RELEASE})

#: who makes a call, and its id
Call = tuple[int, int]


class Gradients(NamedTuple):
    """Those of a pair in a pass."""

    context: int
    number: int
    pair: int


class Calls:
    """The calls of a run that carry gradients, or the release of a context."""

    def __init__(self) -> None:
        self._gradients: dict[Call, Gradients] = {}
        #: by call: the context
        self._releases: dict[Call, int] = {}
        #: by task: gradients that it is about to send, and the request that it handles
        self._leaving: dict[int, Gradients] = {}
        self._at_work: dict[int, Call] = {}
        #: by context and worker: calls that have brought its release there
        self._brought: dict[tuple[int, int], list[Call]] = {}

    def leaves(self, task: int, gradients: Gradients) -> None:
        """The next call of a task carries these."""
        self._leaving[task] = gradients

    def gradients_called(self, task: int, call: Call) -> Gradients | None:
        """A task makes a call for the gradients that it was about to send, if it was."""
        gradients = self._leaving.pop(task, None)
        if gradients is not None:
            self._gradients[call] = gradients
        return gradients

    def release_called(self, call: Call, context: int) -> None:
        self._releases[call] = context

    def handles(self, worker: int, task: int, call: Call) -> None:
        """A task of a worker is at the request of a call."""
        self._at_work[task] = call
        if call in self._releases:
            self._brought.setdefault((self._releases[call], worker), []).append(call)

    def releases_at_work(self, context: int, worker: int) -> list[Call]:
        """The calls that have brought the release of a context to a worker."""
        return self._brought.get((context, worker), [])

    def gradients_of(self, call: Call) -> Gradients | None:
        return self._gradients.get(call)

    def release_of(self, call: Call) -> int | None:
        return self._releases.get(call)

    def gradients_at(self, task: int) -> Gradients | None:
        """What the request has brought that a task is at, or was at last."""
        call = self._at_work.get(task)
        return None if call is None else self._gradients.get(call)

    def release_at(self, task: int) -> Call | None:
        """The call that has brought a release, to the task that handles it."""
        call = self._at_work.get(task)
        return call if call in self._releases else None
