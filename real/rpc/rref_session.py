"""What the tables of one process's RRefs share: the lock, the ids, and messages that are retried."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import PROCESS_ID_BITS, GlobalUniqueId, WorkerId
from squall.real.rpc.commands import Command
from squall.real.rpc.constants import RREF_MAX_RETRIES

if TYPE_CHECKING:
    from squall.real.process import Process
    from squall.real.rpc.message import Message

logger = logging.getLogger(__name__)

#: torch's tests look for the words up to "framework"
NO_AGENT = (
    "Current RPC agent is not set! Did you initialize the RPC framework? RPC runs on a worker "
    "from rpc.init_rpc to rpc.shutdown."
)

_IDS = "rref ids"


class RRefSession:
    """One process's RRefs between ``init_rpc`` and ``shutdown``. One lock guards all tables.

    Nothing that could run other code (a destructor, a callback, a send) happens while it is
    held: whatever leaves a table is let go after the lock.
    """

    def __init__(self, worker: Process) -> None:
        self.worker = worker
        #: the end of RRefs on this worker: nothing is sent any more
        self.destroyed = False
        self.num_pending_futures = 0
        self.lock = worker.runtime.lock("RRef tables")
        #: somebody may wait for a table to be empty
        self.changed = worker.runtime.condition(self.lock, "RRefs to be confirmed or deleted")
        # Ids go on where an earlier RPC session of this process left off.
        self._ids: itertools.count[int] = worker.locals.setdefault(
            _IDS, itertools.count(worker.incarnation << PROCESS_ID_BITS)
        )

    def gen_globally_unique_id(self) -> GlobalUniqueId:
        """An id for an RRef, a fork or a profiled call: one counter serves all three."""
        return GlobalUniqueId(self.worker.id, next(self._ids))

    def emit(self, type: tracing.EventType, *values: GlobalUniqueId | WorkerId | str) -> None:
        tracer = self.worker.tracer
        if tracer.enabled:
            tracer.emit(type, *[tuple(v) if isinstance(v, tuple) else v for v in values])

    def send_control(self, to: WorkerId, command: Command) -> Future[Message]:
        """Send until it is heard. Raises RuntimeError if the agent does not run."""
        agent = self.worker.agent
        if agent is None:
            raise RuntimeError(NO_AGENT)
        with self.lock:
            self.num_pending_futures += 1
        try:
            reply = agent.send_with_retries(to, command.to_message(), RREF_MAX_RETRIES)
        except Exception:
            self._one_answered(None)
            raise
        reply.add_callback(self._one_answered)
        return reply

    def _one_answered(self, reply: Future[Message] | None) -> None:
        with self.lock:
            self.num_pending_futures -= 1
        if reply is not None and reply.error is not None and not self.destroyed:
            logger.warning("%r was not heard: %s", reply.what, reply.error)
