"""RRefContext: what one worker knows of remote references, and who must be told what.

The protocol in a sentence: the owner keeps a value while its set of known forks is not empty;
a user is kept until the owner knows it (``pending_users``), and a parent until the owner knows
its children (``pending_children``). See the note in torch/csrc/distributed/rpc/rref_impl.h;
rref_context.cpp and python_functions.cpp have what is here under the same names.
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import ForkId, RRefId, WorkerId
from squall.real.process import Process
from squall.real.rpc.commands import RRefChildAccept, RRefForkRequest
from squall.real.rpc.errors import RpcError
from squall.real.rpc.message import Message
from squall.real.rpc.rref import PY_OBJECT, OwnerRRef, RRefForkData, UserRRef
from squall.real.rpc.rref_owners import OVER, OwnerTables
from squall.real.rpc.rref_session import NO_AGENT, RRefSession
from squall.real.rpc.rref_users import UserTables

logger = logging.getLogger(__name__)

#: logged before the list of leaks, whose lines begin as in torch: "Leaking RRef"
_LEAK = (
    "RPC is shut down while other workers still refer to values of this one. References that the "
    "program keeps, also in cycles that nobody has collected yet, are the usual reason: drop them "
    "before shutdown() if the program goes on afterwards.\n"
)


class RRefContext:
    """One worker's RRefs, between ``init_rpc`` and ``shutdown``."""

    def __init__(self, worker: Process) -> None:
        self.worker = worker
        #: the worker gives back all users that it has, or gets from here on
        self.leaving = False
        self._session = RRefSession(worker)
        self.owner_tables = OwnerTables(self._session, weakref.WeakMethod(self._new_owner))
        self.user_tables = UserTables(self._session)
        if worker.tracer.enabled:
            worker.tracer.made(self)

    @property
    def to_be_told(self) -> int:
        """How many owners are still to be told of a user that is gone."""
        return self.user_tables.deletes_due

    # -- making RRefs -------------------------------------------------------------------

    def create_user_rref(self, owner: WorkerId, type_str: str = PY_OBJECT) -> UserRRef:
        """The creator's reference to what a call on ``owner`` will return."""
        if owner == self.worker.id:
            raise RuntimeError("Cannot create UserRRef on owner.")
        rref_id = self._session.gen_globally_unique_id()
        fork_id = self._session.gen_globally_unique_id()
        self._session.emit(tracing.USER_CREATED, rref_id, fork_id, owner, self.worker.id)
        return UserRRef(self, owner, rref_id, fork_id, type_str)

    def create_owner_rref(self, type_str: str = PY_OBJECT) -> OwnerRRef:
        """A reference to a value of this worker. It enters ``owners`` with its first fork."""
        owner = self._new_owner(self._session.gen_globally_unique_id(), type_str)
        owner.created = True
        return owner

    def _new_owner(self, rref_id: RRefId, type_str: str) -> OwnerRRef:
        return OwnerRRef(self, self.worker.id, rref_id, type_str)

    def get_or_create_rref(self, data: RRefForkData) -> OwnerRRef | UserRRef:
        """What fork data that came in a message stands for on this worker."""
        if data.owner == self.worker.id:
            return self.owner_tables.get_or_create_owner_rref(data.rref_id, data.type_str)
        self._session.emit(
            tracing.USER_CREATED, data.rref_id, data.fork_id, data.owner, data.parent
        )
        return UserRRef(self, data.owner, data.rref_id, data.fork_id, data.type_str)

    # -- pickling and unpickling ----------------------------------------------------------

    def prepare_child_fork(self, rref: OwnerRRef | UserRRef) -> RRefForkData:
        """The data of a new fork, to be put into a message.

        An owner registers the fork at once, a user is kept until the child accepts: both before
        anything is sent. Raises RuntimeError for an RRef that cannot be shared any more.
        """
        rref.check()
        if isinstance(rref, UserRRef) and rref.deleted:
            raise RuntimeError(
                # Programs look for the second sentence.
                f"{rref!r} has been deleted. Cannot call fork an UserRRef after deletion."
            )
        fork_id = self._session.gen_globally_unique_id()
        data = RRefForkData(rref.owner_id, *rref.rref_id, *fork_id, self.worker.id, rref.type_str)
        if isinstance(rref, OwnerRRef):
            with self._session.lock:
                self.owner_tables.register_fork(rref.rref_id, fork_id)
                self.owner_tables.add_owner(rref)
        else:
            self.user_tables.add_pending_child(fork_id, rref)
        return data

    def undo_fork(self, data: tuple[Any, ...]) -> None:
        """Take back a fork whose message never left."""
        fork = RRefForkData(*data)
        if fork.owner == self.worker.id:
            with self._session.lock:
                owner = self.owner_tables.unregister_fork(fork.rref_id, fork.fork_id)
            del owner
        else:
            self.user_tables.del_pending_child(fork.fork_id)

    def discard_fork(self, data: tuple[Any, ...]) -> None:
        """Let go of a fork that came in a message nobody reads, unless it was taken up or let go
        before. Never raises."""
        fork = RRefForkData(*data)
        if self._session.destroyed or not self.user_tables.arrives(fork.fork_id):
            return
        try:
            if fork.owner == self.worker.id:  # nobody is to have it: no owner object is called for
                self._take_home(fork.rref_id, fork.fork_id, fork.parent)
                return
            self._take_up(fork)
        except RuntimeError as error:
            logger.warning("fork %s could not be discarded: %s", fork.fork_id, error)

    def take_up_fork(self, data: tuple[Any, ...]) -> OwnerRRef | UserRRef:
        """What fork data that came in a message stands for; its owner and its parent are told."""
        fork = RRefForkData(*data)
        self.user_tables.arrives(fork.fork_id)
        return self._take_up(fork)

    def _take_up(self, fork: RRefForkData) -> OwnerRRef | UserRRef:
        rref = self.get_or_create_rref(fork)
        self.notify_owner_and_parent_of_fork(fork.fork_id, fork.parent, rref)
        return rref

    def _take_home(self, rref_id: RRefId, fork_id: ForkId, parent: WorkerId) -> None:
        """A fork has come to the owner, who needs none: whoever sent it need not keep it."""
        if parent == self.worker.id:  # it came back to whom it was registered by
            self.owner_tables.del_fork_of_owner(rref_id, fork_id)
        else:
            self._accept(fork_id, parent)

    def notify_owner_and_parent_of_fork(
        self, fork_id: ForkId, parent: WorkerId, rref: OwnerRRef | UserRRef
    ) -> None:
        """Tell the owner of a new user, or the parent that its RRef has reached the owner."""
        if isinstance(rref, OwnerRRef):
            self._take_home(rref.rref_id, fork_id, parent)
        elif parent == rref.owner_id:  # registered by the owner before it was sent
            self.user_tables.add_confirmed_user(fork_id, rref)
        else:
            self.user_tables.add_pending_user(fork_id, rref, record=True)
            try:
                reply = self._session.send_control(
                    rref.owner_id, RRefForkRequest(rref.rref_id, fork_id)
                )
            except Exception:
                rref.deleted = True  # the owner never heard of it
                self.user_tables.discard_pending_user(fork_id)
                raise
            reply.add_callback(lambda reply: self._finish_fork_request(fork_id, parent, reply))

    def _finish_fork_request(
        self, fork_id: ForkId, parent: WorkerId, reply: Future[Message]
    ) -> None:
        # The parent is told before the user's function, which waits for this, may run on here.
        confirmation = self.user_tables.end_pending_user(fork_id, reply.error)
        self._accept(fork_id, parent)
        if confirmation is not None:
            if reply.error is None:
                confirmation.try_complete(None)
            else:
                confirmation.try_fail(reply.error)

    def _accept(self, fork_id: ForkId, parent: WorkerId) -> None:
        try:
            self._session.send_control(parent, RRefChildAccept(fork_id))
        except RuntimeError as error:
            logger.warning("%s could not accept child %s: %s", self.worker, fork_id, error)

    # -- what happens to RRefs ------------------------------------------------------------

    def schedule_del_user(
        self, owner: WorkerId, rref_id: RRefId, fork_id: ForkId, abandoned: bool
    ) -> None:
        """See :meth:`UserTables.schedule_del_user`."""
        self.user_tables.schedule_del_user(owner, rref_id, fork_id, abandoned)

    def process_ended(self, worker_id: WorkerId) -> None:
        """See :meth:`UserTables.process_ended` and :meth:`OwnerTables.process_ended`."""
        self.user_tables.process_ended(worker_id)
        # Not here: whoever tells of the end has not recorded it yet.
        self.worker.runtime.spawn(
            self.owner_tables.process_ended, worker_id, name="peer lost", worker=self.worker
        )

    # -- the end ------------------------------------------------------------------------

    def del_all_users_and_unforked_owners(self, timeout_s: float = 100.0) -> None:
        """Delete this worker's users and wait until all others have deleted theirs.

        First waits until all its users are known to their owners. Gives up either wait after
        ``timeout_s`` seconds, with a log entry; never raises. Whoever waits for a creation even
        then is told that it will not come: the agents, which are quiet only when every call has
        been answered, would wait with it. Beyond PyTorch, where they do.
        """
        users, owners = self.user_tables, self.owner_tables
        with self._session.lock:
            settled = self._session.changed.wait_for(
                lambda: not users.pending_users and not users.pending_children, timeout_s
            )
        if not settled:
            logger.error(
                "some users of RRefs are still unknown to their owners: shutting down all the same"
            )
        self.leaving = True
        self.give_back_users()
        users.tell_of_pending_deletes()
        owners.drop_unforked()
        with self._session.lock:
            emptied = self._session.changed.wait_for(
                lambda: not owners.owners and not owners.pending_owners, timeout_s
            )
        if not emptied:
            logger.error(
                "some values of RRefs are still in use elsewhere: shutting down all the same"
            )
            owners.give_up_creations(OVER)
        self.worker.shut_down = True

    def give_back_users(self) -> None:
        """Delete this worker's users. One that leaves does so after each call that it still
        serves or makes, which may have brought some: their owners would wait for them. Beyond
        PyTorch, where they do, for 100 seconds.
        """
        with self._session.lock:
            references = list(self.user_tables.confirmed_users.values())
        for reference in references:
            user = reference()
            if user is not None:
                user.try_del()

    def destroy_instance(self, ignore_rref_leak: bool = True) -> None:
        """The end of RRefs on this worker: from here on nothing is sent.

        Raises RuntimeError for forks that were never deleted, or logs a warning if they are to
        be ignored.
        """
        with self._session.lock:
            self._session.destroyed = True
            leaks = [
                f"Leaking RRef {rref_id} with fork Id {fork_id}\n"
                for rref_id, forks in self.owner_tables.forks.items()
                for fork_id in forks
            ]
            owners, waiting = self.owner_tables.take_all()
            users, confirmations = self.user_tables.take_all()
        del users  # not before the lock is free: the last references may go
        for owner in owners:
            owner.set_error(RpcError(OVER))
        for future in waiting:
            future.try_fail(RpcError(OVER))
        for confirmation in confirmations:
            confirmation.try_fail(RpcError(OVER))
        if leaks and not ignore_rref_leak:
            raise RuntimeError("".join(leaks))
        if leaks:
            logger.warning("%s", _LEAK + "".join(leaks))

    def abandon(self) -> None:
        """The process has ended as it was: nothing is sent any more, and nobody is told."""
        self._session.destroyed = True

    @property
    def num_pending_futures(self) -> int:
        """Control messages that have not been answered."""
        return self._session.num_pending_futures

    def get_debug_info(self) -> dict[str, str]:
        """torch's counters, as text."""
        with self._session.lock:
            return {
                "num_owner_rrefs": str(len(self.owner_tables.owners)),
                "num_pending_futures": str(self._session.num_pending_futures),
                "num_pending_users": str(len(self.user_tables.pending_users)),
                "num_forks": str(sum(len(forks) for forks in self.owner_tables.forks.values())),
            }


def rref_context(worker: Process) -> RRefContext:
    """The worker's context. Raises RuntimeError outside ``init_rpc`` … ``shutdown``."""
    context = worker.rref_context
    if not isinstance(context, RRefContext):
        raise RuntimeError(NO_AGENT)
    return context
