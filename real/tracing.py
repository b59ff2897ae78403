"""The vocabulary of events, and the tracer that real code reports to.

A fact is an event: its type, the virtual time, the worker, the task, and values. Values are
plain (int, float, str, bool, None, bytes or tuples of these), so that a trace can be written
down, compared and hashed. Names of fields are given once, here, with the type.

Checks and pictures read events. What needs the live tensors of a pass (the single-process
reference) is an :class:`Observer`; it looks and must not change anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class EventType:
    """The name of a kind of event and the names of its values, in order."""

    __slots__ = ("fields", "name")
    registry: dict[str, EventType] = {}  # noqa: RUF012 - one vocabulary for the process

    def __init__(self, name: str, fields: str = "") -> None:
        self.name = name
        self.fields = tuple(fields.split())
        EventType.registry[name] = self

    def __repr__(self) -> str:
        return f"EventType({self.name!r}, {' '.join(self.fields)!r})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (EventType.registry.__getitem__, (self.name,))


# fmt: off
# -- tasks ------------------------------------------------------------------------------------
TASK_STARTED = EventType("task_started", "name parent cause")  # cause: message number or -1
TASK_ENDED = EventType("task_ended", "error")  # text of what it died of, or None

# -- messages (reported by whatever carries them; number: of this copy of the message) ---------
# type: the MessageType's name; id: matches a response to its request; about: decoded ids
MESSAGE_SENT = EventType("message_sent", "number src dst type id size_bytes about")
MESSAGE_DELIVERED = EventType("message_delivered", "number src dst type id latency_s")
MESSAGE_DROPPED = EventType("message_dropped", "number src dst type id reason")

# -- calls, as the agent that makes them sees them ----------------------------------------------
CALL_STARTED = EventType("call_started", "id dst type timeout_s about")  # about: decoded ids
CALL_ENDED = EventType("call_ended", "id dst outcome")  # ok | error | timeout
CALL_RETRIED = EventType("call_retried", "dst type attempt delay_s")
TIMEOUT_SET = EventType("timeout_set", "timeout_s")  # of calls that are given none of their own
HANDLER_STARTED = EventType("handler_started", "src type id")
HANDLER_ENDED = EventType("handler_ended", "src type id error")  # error: text or None
HANDLER_RESUMED = EventType("handler_resumed", "src type id")  # its RRef arguments are confirmed
UDF_STARTED = EventType("udf_started", "name")
UDF_ENDED = EventType("udf_ended", "name error")

# -- RRefs; rref and fork are (created_on, local_id) --------------------------------------------
USER_CREATED = EventType("user_created", "rref fork owner parent")  # parent: worker id
USER_PENDING = EventType("user_pending", "rref fork")
USER_CONFIRMED = EventType("user_confirmed", "rref fork")
USER_TIMED_OUT = EventType("user_timed_out", "rref fork")
USER_DELETED = EventType("user_deleted", "rref fork")
USER_DISCARDED = EventType("user_discarded", "rref fork")  # its owner was never told of it
CHILD_PENDING = EventType("child_pending", "rref fork child")
CHILD_ACCEPTED = EventType("child_accepted", "child")
OWNER_CREATED = EventType("owner_created", "rref")
OWNER_PENDING = EventType("owner_pending", "rref")  # asked for before its creation
OWNER_VALUE_SET = EventType("owner_value_set", "rref error")
OWNER_DELETED = EventType("owner_deleted", "rref")
OWNER_FAILED = EventType("owner_failed", "rref error")  # it will have no value
FORK_ADDED = EventType("fork_added", "rref fork")
FORK_DELETED = EventType("fork_deleted", "rref fork")
RREF_FETCHED = EventType("rref_fetched", "rref error")
# What a worker's tables hold, counted by whoever runs it when nothing is under way any more.
TABLES_COUNTED = EventType(
    "tables_counted",
    "owners forks pending_users pending_children pending_owners confirmed_users contexts passes",
)

# What is there beyond these when nothing is under way: attribute of a class, how much it holds, and
# an example of that; and objects that nobody uses: their class, how many there are, and one of them.
LEFT_BEHIND = EventType("left_behind", "where count example")
STILL_ALIVE = EventType("still_alive", "type count example")
# A worker has left its group without waiting for others; its references are gone with the group.
GROUP_LEFT = EventType("group_left", "")

# -- autograd contexts --------------------------------------------------------------------------
CONTEXT_CREATED = EventType("context_created", "context")
CONTEXT_RELEASED = EventType("context_released", "context")
KNOWN_WORKER_ADDED = EventType("known_worker_added", "context known")
KNOWN_WORKER_REMOVED = EventType("known_worker_removed", "context known")  # nothing went there
SEND_ATTACHED = EventType("send_attached", "context message to tensors")
SEND_DETACHED = EventType("send_detached", "context message")  # no gradient will come for it
RECV_ATTACHED = EventType("recv_attached", "context message sender tensors")

# -- backward passes; number: of the node in this pass, the roots first ---------------------------
# roots: how many roots the caller gave (0 on a worker that was reached by a gradient)
PASS_STARTED = EventType("pass_started", "context roots retain_graph outstanding")
# nodes: what the engine found, per node (number, name, dependency count, needed). graph: what
# there is, by another walk, per node (number, edges, shapes of its inputs, message): an edge is
# (number, which input of that node), or None; message: of a send or recv function, else -1
DEPENDENCIES_COMPUTED = EventType("dependencies_computed", "context nodes graph")
NODE_EXECUTED = EventType("node_executed", "context number")  # for a leaf: its gradient captured
GRADIENTS_SENT = EventType("gradients_sent", "context message to")
GRADIENTS_RECEIVED = EventType("gradients_received", "context message first")
GRADIENT_ACCUMULATED = EventType("gradient_accumulated", "context number")
# what is left then: entries still to come, nodes half fed, nodes with dependencies
PASS_ENDED = EventType("pass_ended", "context error outstanding not_ready dependencies")

# -- process groups: collectives, sends and receives of members ----------------------
# number: of the collective in its group, or the tag of a send or receive; size_bytes: what is sent
OPERATION_STARTED = EventType("operation_started", "group member kind number size_bytes")
OPERATION_ENDED = EventType("operation_ended", "group member kind number error")  # text or None

# -- faults, as whoever injects them reports ------------------------------------------------------
# kind: see sim/faults/plan.py; item: which one of the plan, or what was done by hand; worker, src, dst:
# -1 if it is about none; nth: which message of its type on its link, from 1, 0 if nobody counts;
# number: of that copy, or -1; detail: how, how much
FAULT_INJECTED = EventType("fault_injected", "kind item worker src dst type nth number detail")
FAULTS_HEALED = EventType("faults_healed", "")  # from here on none is injected
# A worker hears that the process of a peer, counted from 0, has ended; as whoever carries messages reports.
PEER_ENDED = EventType("peer_ended", "worker peer process")
DUPLICATE_IGNORED = EventType("duplicate_ignored", "src type id")  # by the agent that it came to
# fmt: on


class Observer:
    """Sees live objects at the points where a reference can be computed. Changes nothing.

    Each method is given the id of the worker where it happens.
    """

    #: True while the observer itself runs ``torch.autograd`` over the joined graph
    walking: bool = False

    def sending(self, worker: int, context: int, message: int, tensors: Sequence[Tensor]) -> None:
        """``tensors``, all requiring grad, leave in autograd message ``message``."""

    def anchors(self, worker: int, context: int, message: int) -> Sequence[Tensor]:
        """What the recv function of ``message`` should name as its inputs in torch's graph.

        The engine treats recv functions as leaves and never follows them; an observer that
        answers with the tensors that were sent joins the graphs of all workers into one that
        plain ``torch.autograd`` can walk. One tensor for each one sent, or none.
        """
        return ()

    def backward_started(
        self,
        worker: int,
        context: int,
        pass_id: int,
        roots: Sequence[Tensor],
        retain_graph: bool,
    ) -> None:
        """A user called ``backward``, which begins a pass; nothing of it has run yet."""

    def accumulating(
        self, worker: int, context: int, pass_id: int, leaf: Tensor, grad: Tensor
    ) -> None:
        """``grad``, which that pass has found, is about to be added to what ``leaf`` has."""

    def propagating(self, worker: int, context: int, pass_id: int) -> None:
        """Gradients which that pass has found are about to be sent to another worker."""

    def pass_over(self, worker: int, context: int, pass_id: int) -> None:
        """The worker's part of a pass is over, with or without an error."""

    def backward_ended(
        self, worker: int, context: int, pass_id: int, error: BaseException | None
    ) -> None:
        """That call of ``backward`` is about to return or raise."""

    def gradients(self, worker: int, context: int, grads: Mapping[Tensor, Tensor]) -> None:
        """``grads`` is the live map of accumulated gradients; called as a pass starts there."""

    def context_released(self, worker: int, context: int) -> None: ...


class Tracer:
    """What a worker reports its events to. This one keeps nothing."""

    #: live objects are shown to it; None: to nobody
    observer: Observer | None = None
    #: False: the caller need not even build the values of an event
    enabled: bool = False

    def emit(self, type: EventType, *values: object) -> None:
        """Report an event on behalf of the running task."""

    def made(self, thing: object) -> None:
        """Show an object that has to be gone, without any collection of garbage, once nothing is
        under way and nobody uses it. Whoever looks for it then keeps it weakly."""


NULL_TRACER = Tracer()
