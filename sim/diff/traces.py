"""What a run shows of the causes of known differences: rules ask for it, nothing compares it.

====================  =============================================================================
``("late", worker)``     calls of passes that failed when their context was gone on their worker
``("revived", worker)``  calls in a context that this worker handled after its release there
``("doubled", worker)``  requests to enter a fork that came to this worker a second time
``("unsent",)``          calls that could not be sent
``("lost",)``            messages of the RRef protocol that were lost on the way
``("lost call",)``       calls in a context that were lost on the way
====================  =============================================================================
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from squall.model.events.run import Run
from squall.real.tracing import (
    CALL_ENDED,
    FAULT_INJECTED,
    HANDLER_ENDED,
    HANDLER_STARTED,
    MESSAGE_DROPPED,
    MESSAGE_SENT,
)

TRACES = frozenset({"late", "revived", "doubled", "unsent", "lost", "lost call"})

_SRC, _TYPE, _ID, _ABOUT = map(MESSAGE_SENT.fields.index, ("src", "type", "id", "about"))
_FORK = "RREF_FORK_REQUEST"
_PROTOCOL = frozenset({_FORK, "RREF_CHILD_ACCEPT", "RREF_USER_DELETE"})


def traces_of(run: Run) -> dict[tuple[Any, ...], int]:
    return dict(_Reader(run).counts)


class _Reader:
    def __init__(self, run: Run) -> None:
        self.counts: Counter[tuple[Any, ...]] = Counter()
        #: by (caller, id): what a call is, and the context that it names
        self._calls: dict[tuple[int, int], tuple[str, Any]] = {}
        #: (worker, context) where it has been released
        self._released: set[tuple[int, Any]] = set()
        self._forks: set[tuple[int, int, int]] = set()
        take = {
            MESSAGE_SENT: self._sent,
            HANDLER_STARTED: self._started,
            HANDLER_ENDED: self._handled,
            CALL_ENDED: self._ended,
            FAULT_INJECTED: self._fault,
            MESSAGE_DROPPED: self._dropped,
        }
        for n in run.of(*take):
            _, worker, _, event, values = run.records[n]
            take[event](worker, values)

    def _sent(self, _: int, values: Any) -> None:
        src, type, about = values[_SRC], str(values[_TYPE]), values[_ABOUT]
        if type.endswith("_REQ") and about:
            self._calls[src, values[_ID]] = (type, about[0])
            if type == "CLEANUP_AUTOGRAD_CONTEXT_REQ":
                self._released.add((src, about[0]))

    def _started(self, worker: int, values: Any) -> None:
        src, type, id = values
        if type == "CLEANUP_AUTOGRAD_CONTEXT_REQ" and (src, id) in self._calls:
            self._released.add((worker, self._calls[src, id][1]))
        elif type == _FORK:
            self.counts["doubled", worker] += (worker, src, id) in self._forks
            self._forks.add((worker, src, id))

    def _handled(self, worker: int, values: Any) -> None:
        type, context = self._calls.get((values[0], values[2]), ("", None))
        if type == "FORWARD_AUTOGRAD_REQ" and (worker, context) in self._released:
            self.counts["revived", worker] += 1

    def _ended(self, worker: int, values: Any) -> None:
        id, _, outcome = values
        type, context = self._calls.get((worker, id), ("", None))
        late = type == "BACKWARD_AUTOGRAD_REQ" and (worker, context) in self._released
        self.counts["late", worker] += late and outcome != "ok"

    def _fault(self, _: int, values: Any) -> None:
        self.counts["unsent",] += values[0] == "fail"

    def _dropped(self, _: int, values: Any) -> None:
        type = values[MESSAGE_DROPPED.fields.index("type")]
        self.counts["lost",] += type in _PROTOCOL
        self.counts["lost call",] += type == "FORWARD_AUTOGRAD_REQ"
