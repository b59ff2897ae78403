"""What a script for stock PyTorch can do of a fault plan: sleeps, threads, and the settings of the
backend FAULTY_TENSORPIPE, whose agent fails or delays all messages of a type that it sends.

A kind says what that is for its items by :meth:`squall.sim.faults.fault.Fault.on_stock`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: the types that the settings may name (testing/faulty_tensorpipe_agent.cpp): what is sent inside
#: an autograd context, and answers, are none of them
NAMED = frozenset(
    {
        "CLEANUP_AUTOGRAD_CONTEXT_REQ",
        "PYTHON_CALL",
        "PYTHON_REMOTE_CALL",
        "PYTHON_RREF_FETCH_CALL",
        "RREF_CHILD_ACCEPT",
        "RREF_FORK_REQUEST",
        "RREF_USER_DELETE",
        "SCRIPT_CALL",
        "SCRIPT_REMOTE_CALL",
        "SCRIPT_RREF_FETCH_CALL",
    }
)


@dataclass
class StockSettings:
    """What a script does instead of a plan. ``rpc_timeout_s``: how long a call of it may take."""

    rpc_timeout_s: float
    #: seconds that the process of a rank sleeps before it joins the group
    start_delays_s: dict[int, float] = field(default_factory=dict)
    #: threads of the agent of a rank; None: of every rank
    threads: dict[int | None, int] = field(default_factory=dict)
    #: seconds by which messages of a type come late, by the rank that sends them
    delays_s: dict[int | None, dict[str, float]] = field(default_factory=dict)
    #: types of messages whose first sends fail, by the rank that sends them
    failing: dict[int | None, list[str]] = field(default_factory=dict)
    #: how many sends of each such message fail
    fail_sends: int = 0

    @property
    def is_faulty(self) -> bool:
        """Whether it needs the backend FAULTY_TENSORPIPE."""
        return bool(self.delays_s or self.failing)

    def delay(self, src: int | None, types: tuple[str, ...], seconds: float) -> None:
        """Messages of these types that ``src`` sends (None: everybody) come late."""
        late = self.delays_s.setdefault(src, {})
        for type in types:
            late[type] = max(seconds, late.get(type, 0.0))

    def fail(self, src: int | None, types: tuple[str, ...], times: int) -> None:
        """The first sends of each message of these types that ``src`` sends fail."""
        failing = self.failing.setdefault(src, [])
        failing += [type for type in types if type not in failing]
        self.fail_sends = max(self.fail_sends, times)
