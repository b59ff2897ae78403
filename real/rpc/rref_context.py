"""RRefContext: what one worker knows of remote references, and who must be told what.

The protocol in a sentence: the owner keeps a value while its set of known forks is not empty;
a user is kept until the owner knows it (``pending_users``), and a parent until the owner knows
its children (``pending_children``). See the note in torch/csrc/distributed/rpc/rref_impl.h;
rref_context.cpp and python_functions.cpp have what is here under the same names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import ForkId, RRefId, WorkerId
from squall.real.rpc.commands import Command, RemoteRet, RRefChildAccept, RRefForkRequest
from squall.real.rpc.constants import UNSET_RPC_TIMEOUT
from squall.real.rpc.errors import RpcError
from squall.real.rpc.message import Message, MessageType
from squall.real.rpc.rref import PY_OBJECT, TIMED_OUT, OwnerRRef, RRefForkData, UserRRef
from squall.real.rpc.rref_owners import OVER, OwnerTables
from squall.real.rpc.rref_tables import NO_AGENT
from squall.real.rpc.rref_users import UserTables

if TYPE_CHECKING:
    from squall.real.rpc.profiling import ProfiledCall
    from squall.real.rpc.py_rref import RRef
    from squall.real.rpc.worker_info import WorkerInfo
    from squall.real.worker import Worker

logger = logging.getLogger(__name__)

#: makes the command that creates an RRef, out of its id and its creator's fork id
CreationCall = Callable[[RRefId, ForkId], Command]

_LEAK = (
    "Detected RRef Leaks during shutdown. This usually occurs when the application code still "
    "holds references to RRef instances when calling shutdown(). If the program has completed "
    "correctly and the process is exiting, it is OK to ignore these leaks. However, if you "
    "program will keep running after this, these leaks could result in memory leaks on RRef "
    "owners. Please make sure all RRefs are out of scope and Python GC has deleted them before "
    "calling shutdown(): \n"
)


class RRefContext(OwnerTables, UserTables):
    """One worker's RRefs, between ``init_rpc`` and ``shutdown``."""

    # -- making RRefs -------------------------------------------------------------------

    def create_user_rref(self, owner: WorkerId, type_str: str = PY_OBJECT) -> UserRRef:
        """The creator's reference to what a call on ``owner`` will return."""
        if owner == self.worker.id:
            raise RuntimeError("Cannot create UserRRef on owner.")
        rref_id = self.gen_globally_unique_id()
        fork_id = self.gen_globally_unique_id()
        self._emit(tracing.USER_CREATED, rref_id, fork_id, owner, self.worker.id)
        return UserRRef(self, owner, rref_id, fork_id, type_str)

    def create_owner_rref(self, type_str: str = PY_OBJECT) -> OwnerRRef:
        """A reference to a value of this worker. It enters ``owners`` with its first fork."""
        owner = OwnerRRef(self, self.worker.id, self.gen_globally_unique_id(), type_str)
        owner.created = True
        return owner

    def get_or_create_rref(self, data: RRefForkData) -> OwnerRRef | UserRRef:
        """What fork data that came in a message stands for on this worker."""
        if data.owner == self.worker.id:
            return self.get_or_create_owner_rref(data.rref_id, data.type_str)
        self._emit(tracing.USER_CREATED, data.rref_id, data.fork_id, data.owner, data.parent)
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
                f"{rref!r} has been deleted. Cannot call fork an UserRRef after deletion."
            )
        fork_id = self.gen_globally_unique_id()
        data = RRefForkData(rref.owner_id, *rref.rref_id, *fork_id, self.worker.id, rref.type_str)
        if isinstance(rref, OwnerRRef):
            with self._lock:
                self._add_fork(rref.rref_id, fork_id)
                self._add_owner(rref)
        else:
            self.add_pending_child(fork_id, rref)
        return data

    def undo_fork(self, data: tuple[Any, ...]) -> None:
        """Take back a fork whose message never left."""
        fork = RRefForkData(*data)
        if fork.owner == self.worker.id:
            with self._lock:
                owner = self._del_fork(fork.rref_id, fork.fork_id)
            del owner
        else:
            self.del_pending_child(fork.fork_id)

    def discard_fork(self, data: tuple[Any, ...]) -> None:
        """Let go of a fork that came in a message nobody reads. Never raises."""
        fork = RRefForkData(*data)
        with self._lock:
            known = self.confirmed_users.get(fork.fork_id)
            taken_up = fork.fork_id in self.pending_users or (known is not None and known())
        if self.destroyed or taken_up:
            return
        try:
            if fork.owner == self.worker.id:  # nobody is to have it: no owner object is called for
                self._take_home(fork.rref_id, fork.fork_id, fork.parent)
                return
            rref = self.get_or_create_rref(fork)
            self.notify_owner_and_parent_of_fork(fork.fork_id, fork.parent, rref)
        except RuntimeError as error:
            logger.warning("fork %s could not be discarded: %s", fork.fork_id, error)

    def _take_home(self, rref_id: RRefId, fork_id: ForkId, parent: WorkerId) -> None:
        """A fork has come to the owner, who needs none: whoever sent it need not keep it."""
        if parent == self.worker.id:  # it came back to whom it was registered by
            self.del_fork_of_owner(rref_id, fork_id)
        else:
            self._accept(fork_id, parent)

    def notify_owner_and_parent_of_fork(
        self, fork_id: ForkId, parent: WorkerId, rref: OwnerRRef | UserRRef
    ) -> None:
        """Tell the owner of a new user, or the parent that its RRef has reached the owner."""
        if isinstance(rref, OwnerRRef):
            self._take_home(rref.rref_id, fork_id, parent)
        elif parent == rref.owner_id:  # registered by the owner before it was sent
            self.add_confirmed_user(fork_id, rref)
        else:
            self.add_pending_user(fork_id, rref, record=True)
            try:
                reply = self._send_control(rref.owner_id, RRefForkRequest(rref.rref_id, fork_id))
            except Exception:
                rref.deleted = True  # the owner never heard of it
                self.discard_pending_user(fork_id)
                raise
            reply.add_callback(lambda reply: self._finish_fork_request(fork_id, parent, reply))

    def _finish_fork_request(
        self, fork_id: ForkId, parent: WorkerId, reply: Future[Message]
    ) -> None:
        # The parent is told before the user's function, which waits for this, may run on here.
        confirmation = self._end_pending_user(fork_id, reply.error)
        self._accept(fork_id, parent)
        if confirmation is not None:
            if reply.error is None:
                confirmation.try_complete(None)
            else:
                confirmation.try_fail(reply.error)

    def _accept(self, fork_id: ForkId, parent: WorkerId) -> None:
        try:
            self._send_control(parent, RRefChildAccept(fork_id))
        except RuntimeError as error:
            logger.warning("%s could not accept child %s: %s", self.worker, fork_id, error)

    # -- the end ------------------------------------------------------------------------

    def del_all_users_and_unforked_owners(self, timeout_s: float = 100.0) -> None:
        """Delete this worker's users and wait until all others have deleted theirs.

        First waits until all its users are known to their owners. Gives up either wait after
        ``timeout_s`` seconds, with a log entry; never raises. Whoever waits for a creation even
        then is told that it will not come: the agents, which are quiet only when every call has
        been answered, would wait with it. Beyond PyTorch, where they do.
        """
        with self._lock:
            settled = self._changed.wait_for(
                lambda: not self.pending_users and not self.pending_children, timeout_s
            )
        if not settled:
            logger.error(
                "Timed out waiting for pending UserRRefs to be confirmed by owner and parent."
            )
        self.leaving = True
        self.give_back_users()
        self._del_doomed()
        with self._lock:
            unforked = [rref_id for rref_id in self.owners if rref_id not in self.forks]
            dropped = [self._drop_owner(rref_id) for rref_id in unforked]
        for owner in dropped:
            if owner is not None and not owner.created:
                owner.set_error(RpcError(TIMED_OUT))
        del dropped
        with self._lock:
            emptied = self._changed.wait_for(
                lambda: not self.owners and not self.pending_owners, timeout_s
            )
        if not emptied:
            logger.error("Timed out waiting for pending OwnerRRefs to be deleted.")
            self.give_up_creations(OVER)
        self.worker.shut_down = True

    def give_back_users(self) -> None:
        """Delete this worker's users. One that leaves does so after each call that it still
        serves or makes, which may have brought some: their owners would wait for them. Beyond
        PyTorch, where they do, for 100 seconds.
        """
        with self._lock:
            references = list(self.confirmed_users.values())
        for reference in references:
            user = reference()
            if user is not None:
                user.try_del()

    def destroy_instance(self, ignore_rref_leak: bool = True) -> None:
        """The end of RRefs on this worker: from here on nothing is sent.

        Raises RuntimeError for forks that were never deleted, or logs a warning if they are to
        be ignored.
        """
        with self._lock:
            self.destroyed = True
            leaks = [
                f"Leaking RRef {rref_id} with fork Id {fork_id}\n"
                for rref_id, forks in self.forks.items()
                for fork_id in forks
            ]
            if self.worker.shut_down:
                self.worker.leaked_rrefs += len(self.owners)
            owners, self.owners = self.owners, {}
            waiting, self.pending_owners = list(self.pending_owners.values()), {}
            self._pending_deletes.clear()
        for owner in owners.values():
            owner.set_error(RpcError(OVER))
        for future in waiting:
            future.try_fail(RpcError(OVER))
        if leaks and not ignore_rref_leak:
            raise RuntimeError("".join(leaks))
        if leaks:
            logger.warning("%s", _LEAK + "".join(leaks))

    def get_debug_info(self) -> dict[str, str]:
        """torch's counters, as text."""
        with self._lock:
            return {
                "num_owner_rrefs": str(len(self.owners)),
                "num_pending_futures": str(self.num_pending_futures),
                "num_pending_users": str(len(self.pending_users)),
                "num_forks": str(sum(len(forks) for forks in self.forks.values())),
            }


def rref_context(worker: Worker) -> RRefContext:
    """The worker's context. Raises RuntimeError outside ``init_rpc`` … ``shutdown``."""
    context = worker.rref_context
    if context is None:
        raise RuntimeError(NO_AGENT)
    return context


# -- rpc.remote -------------------------------------------------------------------------------


def remote(
    worker: Worker,
    dst: WorkerInfo,
    call: CreationCall,
    *,
    timeout_s: float = UNSET_RPC_TIMEOUT,
    force_grad_recording: bool = False,
    profiled: ProfiledCall | None = None,
) -> RRef[Any]:
    """Send ``call(rref_id, fork_id)`` to ``dst`` and return a reference to what it returns.

    Does not wait. ``timeout_s`` (-1 the default, 0 none) is for the creation: an RRef that was
    not created in time raises at its next use.
    """
    context = rref_context(worker)
    if dst.id == worker.id:
        return _remote_to_self(context, call, timeout_s, force_grad_recording, profiled)
    user = context.create_user_rref(dst.id)
    try:
        command = call(user.rref_id, user.fork_id)
        user.type_str = getattr(command, "type_str", PY_OBJECT)
        context.add_pending_user(user.fork_id, user)
        reply = _send(
            worker, dst.id, command.to_message(), timeout_s, force_grad_recording, profiled
        )
    except BaseException:
        user.deleted = True  # the owner never hears of it
        context.discard_pending_user(user.fork_id)
        raise
    _watch_creation(context, user.rref_id, user.fork_id, reply)
    user.creation_future = reply.map(_nothing)
    from squall.real.rpc.py_rref import RRef

    return RRef._wrap(user)


def _remote_to_self(
    context: RRefContext,
    call: CreationCall,
    timeout_s: float,
    force_grad_recording: bool,
    profiled: ProfiledCall | None,
) -> RRef[Any]:
    worker = context.worker
    owner = context.create_owner_rref()
    # The RRef's id in the place of the fork's tells the handler that the object exists.
    command = call(owner.rref_id, owner.rref_id)
    owner.type_str = getattr(command, "type_str", PY_OBJECT)
    context.add_self_as_fork(owner)
    try:
        reply = _send(
            worker, worker.id, command.to_message(), timeout_s, force_grad_recording, profiled
        )
    except BaseException:
        context.del_fork_of_owner(owner.rref_id, owner.rref_id)
        raise
    rref_id = owner.rref_id
    reply.add_callback(lambda reply: finish_creating_owner_rref(context, rref_id, reply))
    owner.creation_future = reply.map(_nothing)
    from squall.real.rpc.py_rref import RRef

    return RRef._wrap(owner)


def _send(
    worker: Worker,
    to: int,
    message: Message,
    timeout_s: float,
    force_grad_recording: bool,
    profiled: ProfiledCall | None,
) -> Future[Message]:
    from squall.real.autograd.utils import send_message_with_autograd

    return send_message_with_autograd(
        worker,
        to,
        message,
        force_grad_recording=force_grad_recording,
        timeout_s=timeout_s,
        profiled=profiled,
    )


def _nothing(reply: Future[Message]) -> None:
    reply.raw_value()


def _watch_creation(
    context: RRefContext, rref_id: RRefId, fork_id: ForkId, reply: Future[Message]
) -> None:
    """Confirm the user when the reply comes. The callback holds ids, never the user."""
    reply.add_callback(lambda reply: confirm_pending_user(context, rref_id, fork_id, reply))


def confirm_pending_user(
    context: RRefContext, rref_id: RRefId, fork_id: ForkId, reply: Future[Message]
) -> None:
    """The creation has been answered, or has failed: the user's wait is over either way."""
    error = reply.error
    if error is None:
        error = _check_answer(rref_id, fork_id, reply.raw_value())
    if error is not None:
        context.get_pending_user(fork_id).abandoned = True
    context.del_pending_user(fork_id, error)


def finish_creating_owner_rref(
    context: RRefContext, rref_id: RRefId, reply: Future[Message]
) -> None:
    """The creation on oneself has been answered: the table lets the object go unless forked."""
    error = reply.error
    if error is None:
        error = _check_answer(rref_id, rref_id, reply.raw_value())
    if error is not None:
        owner = context.get_owner_rref(rref_id, force_created=True).raw_value()
        owner.handle_error(error)
        owner.set_error(RpcError(TIMED_OUT) if owner.timed_out else error)
    context.del_fork_of_owner(rref_id, rref_id)


def _check_answer(rref_id: RRefId, fork_id: ForkId, message: Message) -> RpcError | None:
    if message.type == MessageType.REMOTE_RET:
        answer = RemoteRet.from_message(message)
        if answer.rref_id == rref_id and answer.fork_id == fork_id:
            return None
    return RpcError(f"{message!r} does not answer the creation of RRef {rref_id}")
