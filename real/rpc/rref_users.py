"""The user's tables: who waits for the owner, whose children do, and who is gone.

(torch/csrc/distributed/rpc/rref_context.cpp)
"""

from __future__ import annotations

import logging
import weakref
from collections import deque

from squall.real import tracing
from squall.real.future import Future, collect_all
from squall.real.ids import ForkId, RRefId, WorkerId
from squall.real.rpc.commands import RRefUserDelete
from squall.real.rpc.errors import RpcError
from squall.real.rpc.remembered import remember
from squall.real.rpc.rref import UserRRef
from squall.real.rpc.rref_session import RRefSession
from squall.real.runtime import current_task

logger = logging.getLogger(__name__)


class _PendingUser:
    __slots__ = ("confirmation", "rref")

    def __init__(self, rref: UserRRef, confirmation: Future[None] | None) -> None:
        self.rref = rref
        self.confirmation = confirmation


class UserTables:
    """``pending_users``, ``confirmed_users`` and ``pending_children`` of one worker."""

    def __init__(self, session: RRefSession) -> None:
        self._session = session
        self._worker = session.worker
        self._lock = session.lock
        self._emit = session.emit
        self.pending_users: dict[ForkId, _PendingUser] = {}
        self.confirmed_users: dict[ForkId, weakref.ref[UserRRef]] = {}
        #: by the child's fork, the parent
        self.pending_children: dict[ForkId, UserRRef] = {}
        #: the forks that came in messages to this worker, which has taken them up or let them go
        self._arrived: dict[ForkId, None] = {}
        #: users that are gone and whose owners have not been told yet
        self._pending_deletes: deque[tuple[WorkerId, RRefId, ForkId, bool]] = deque()
        self._deleter_due = False
        #: tasks that tell owners just now
        self._tellers = 0

    # -- arriving -----------------------------------------------------------------------

    def arrives(self, fork_id: ForkId) -> bool:
        """A message has brought a fork. False if one did before: a copy of it, or the same one
        that is read a second time to let go of what is in it."""
        with self._lock:
            if fork_id in self._arrived:
                return False
            remember(self._arrived, fork_id, None)
        return True

    # -- pending and confirmed ------------------------------------------------------------

    def add_pending_child(self, fork_id: ForkId, rref: UserRRef) -> None:
        """Keep ``rref`` until its child says that the owner knows it."""
        with self._lock:
            self.pending_children[fork_id] = rref
            self._emit(tracing.CHILD_PENDING, rref.rref_id, rref.fork_id, fork_id)

    def del_pending_child(self, fork_id: ForkId) -> None:
        """No effect if the child is not pending: a copy of the message may have come first."""
        with self._lock:
            parent = self.pending_children.pop(fork_id, None)
            if parent is not None:
                self._emit(tracing.CHILD_ACCEPTED, fork_id)
                self._notify_if_settled()
        del parent  # not before the lock is free: the last reference may go

    def add_pending_user(self, fork_id: ForkId, rref: UserRRef, *, record: bool = False) -> None:
        """Keep ``rref`` until the owner knows it; with ``record``, the task's request waits."""
        recorded = current_task().pending_rrefs if record else None
        confirmation: Future[None] | None = None
        if recorded is not None:
            confirmation = Future(runtime=self._worker.runtime, what=f"confirmation of {rref!r}")
            recorded.append(confirmation)
        with self._lock:
            if fork_id in self.pending_users:
                raise RuntimeError("Inconsistent states: attempt to add the same UserRRef twice.")
            self.pending_users[fork_id] = _PendingUser(rref, confirmation)
            self._emit(tracing.USER_PENDING, rref.rref_id, fork_id)

    def discard_pending_user(self, fork_id: ForkId) -> None:
        """Forget a user of which the owner was never told."""
        with self._lock:
            pending = self.pending_users.pop(fork_id, None)
            if pending is not None:
                self._emit(tracing.USER_DISCARDED, pending.rref.rref_id, fork_id)
            self._notify_if_settled()
        del pending

    def end_pending_user(self, fork_id: ForkId, error: BaseException | None) -> Future[None] | None:
        """The owner has answered, or never will; what waits for that, for the caller to end."""
        with self._lock:
            pending = self.pending_users.pop(fork_id, None)
            if pending is None:
                return None
            rref = pending.rref
            if error is not None:
                rref.handle_error(error)
                self._emit(tracing.USER_TIMED_OUT, rref.rref_id, fork_id)
            rref.confirmed = True
            self.confirmed_users[fork_id] = weakref.ref(rref)
            self._emit(tracing.USER_CONFIRMED, rref.rref_id, fork_id)
            self._notify_if_settled()
        return pending.confirmation

    def add_confirmed_user(self, fork_id: ForkId, rref: UserRRef) -> None:
        """A user that the owner knew before it existed."""
        with self._lock:
            rref.confirmed = True
            self.confirmed_users[fork_id] = weakref.ref(rref)
            self._emit(tracing.USER_CONFIRMED, rref.rref_id, fork_id)

    def get_pending_user(self, fork_id: ForkId) -> UserRRef:
        """Raises RuntimeError if the user is not pending (any more)."""
        with self._lock:
            pending = self.pending_users.get(fork_id)
        if pending is None:
            raise RuntimeError(f"Could not find UserRRef instance, {fork_id}")
        return pending.rref

    def _notify_if_settled(self) -> None:
        if not self.pending_users and not self.pending_children:
            self._session.changed.notify_all()

    def process_ended(self, worker_id: WorkerId) -> None:
        """The values of a worker are gone with its process: each later use of a user raises.

        Beyond PyTorch, where a new process of that rank would be asked for what it never had.
        """
        with self._lock:
            users = [pending.rref for pending in self.pending_users.values()]
            users += self.pending_children.values()
            confirmed = [reference() for reference in self.confirmed_users.values()]
            users += [user for user in confirmed if user is not None]
        for user in users:
            if user.owner_id == worker_id and not user.failed:
                user.handle_error(
                    RpcError(f"worker {worker_id}, which owned the value of {user!r}, has ended")
                )
        del users, confirmed  # the last references may go

    # -- seen while a request is unpickled -------------------------------------------------

    def record_pending_rrefs(self) -> None:
        """From here on, the task keeps the confirmations of the users it unpickles."""
        current_task().pending_rrefs = []

    def wait_for_pending_rrefs(self) -> Future[None] | None:
        """Stop recording: a future of all confirmations so far, None if there are none."""
        task = current_task()
        confirmations, task.pending_rrefs = task.pending_rrefs, None
        if not confirmations:
            return None

        def first_error(done: Future[list[Future[None]]]) -> None:
            for confirmation in done.raw_value():
                confirmation.raw_value()

        return collect_all(confirmations).map(first_error)

    def clear_pending_rrefs(self) -> None:
        """Stop recording and forget: the request is answered with an error."""
        current_task().pending_rrefs = None

    # -- deletion -----------------------------------------------------------------------

    @property
    def deletes_due(self) -> int:
        """How many users are gone without their owners having been told."""
        return len(self._pending_deletes) + self._tellers

    def take_all(self) -> tuple[list[UserRRef], list[Future[None]]]:
        """RRefs are over on this worker: nobody is told of users that are gone, and none is kept for
        an answer. Those that were, and what waits for them, for whoever ends all of it.

        The lock must be held. Beyond PyTorch, where they stay, and with them what they refer to.
        """
        self._pending_deletes.clear()
        pending = list(self.pending_users.values())
        users = [each.rref for each in pending] + list(self.pending_children.values())
        self.pending_users.clear()
        self.pending_children.clear()
        return users, [each.confirmation for each in pending if each.confirmation is not None]

    def schedule_del_user(
        self, owner: WorkerId, rref_id: RRefId, fork_id: ForkId, abandoned: bool
    ) -> None:
        """Have a task tell the owner soon. Safe anywhere, also in a destructor."""
        if self._session.destroyed:
            return
        self._pending_deletes.append((owner, rref_id, fork_id, abandoned))
        if not self._deleter_due:
            self._deleter_due = True
            self._worker.runtime.call_later(0.0, self._wake_deleter)

    def _wake_deleter(self) -> None:
        self._deleter_due = False
        if self._pending_deletes and not self._session.destroyed:
            self._worker.runtime.spawn(
                self.tell_of_pending_deletes, name="rref delete", worker=self._worker
            )

    def tell_of_pending_deletes(self) -> None:
        """Tell the owners of all users that are gone."""
        with self._lock:
            self._tellers += 1
        try:
            self._tell()
        finally:
            with self._lock:
                self._tellers -= 1
        if self._worker.agent is not None:
            self._worker.agent.told_of_users()

    def _tell(self) -> None:
        while self._pending_deletes:
            try:
                pending = self._pending_deletes.popleft()
            except IndexError:  # another thread was faster
                return
            self.del_user(*pending)

    def del_user(
        self, owner: WorkerId, rref_id: RRefId, fork_id: ForkId, abandoned: bool = False
    ) -> None:
        """Tell the owner that a user is gone, unless RRefs are over on this worker."""
        with self._lock:
            self.confirmed_users.pop(fork_id, None)
            if self._session.destroyed:
                return
            self._emit(tracing.USER_DELETED, rref_id, fork_id)
        try:
            self._session.send_control(owner, RRefUserDelete(rref_id, fork_id, abandoned))
        except RuntimeError as error:
            logger.debug("the owner of %s was not told of a deletion: %s", rref_id, error)
