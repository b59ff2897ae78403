"""The owner's tables: values, the forks that keep them, and those who ask too early.

Beyond PyTorch: a delete that overtakes what introduces its fork is remembered, a late copy of
a message registers nothing, and whoever waits for a value that can no longer come is told so.
(torch/csrc/distributed/rpc/rref_context.cpp)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from squall.real import tracing
from squall.real.future import Future, completed, failed
from squall.real.ids import PROCESS_ID_BITS, ForkId, RRefId, WorkerId
from squall.real.rpc.errors import RpcError
from squall.real.rpc.remembered import remember
from squall.real.rpc.rref import PY_OBJECT, TIMED_OUT, OwnerRRef
from squall.real.rpc.rref_session import RRefSession

#: what whoever waits for a value, or brings one, is told when RRefs are over on its worker
OVER = "RPC has been shut down on the owner of the RRef."


class OwnerTables:
    """``owners``, ``pending_owners`` and ``forks`` of one worker.

    ``new_owner`` makes an owner object, which is in no table yet; it is a method of what these tables
    are a part of, and does not keep that.
    """

    def __init__(
        self,
        session: RRefSession,
        new_owner: weakref.WeakMethod[Callable[[RRefId, str], OwnerRRef]],
    ) -> None:
        self._session = session
        self._lock = session.lock
        self._emit = session.emit
        self._maker = new_owner
        self.owners: dict[RRefId, OwnerRRef] = {}
        #: asked for before their creation came
        self.pending_owners: dict[RRefId, Future[OwnerRRef]] = {}
        self.forks: dict[RRefId, dict[ForkId, None]] = {}
        #: forks that have been deleted, so that nothing late registers them (again)
        self._deleted_forks: dict[ForkId, None] = {}
        #: why an RRef of this owner has no value to give any more
        self._ended: dict[RRefId, str] = {}
        #: RRefs whose creating call is being handled
        self._creating: dict[RRefId, None] = {}

    def _new_owner(self, rref_id: RRefId, type_str: str) -> OwnerRRef:
        make = self._maker()
        assert make is not None, "whoever asks has what these tables are a part of"
        return make(rref_id, type_str)

    # -- finding owners -----------------------------------------------------------------

    def get_or_create_owner_rref(self, rref_id: RRefId, type_str: str = PY_OBJECT) -> OwnerRRef:
        """The owner object, made now if a user told of the RRef before its creation came."""
        waiting: Future[OwnerRRef] | None = None
        with self._lock:
            owner = self.owners.get(rref_id)
            if owner is not None:
                return owner
            owner = self._new_owner(rref_id, type_str)
            # Whoever reads a request of a group that this worker has left is told so: nobody will
            # bring the value any more.
            ended = OVER if self._session.destroyed else self._ended.get(rref_id)
            if ended is None:
                self.add_owner(owner)
                waiting = self.pending_owners.pop(rref_id, None)
        if ended is not None:
            owner.created = True  # as far as it ever will be
            owner.set_error(RpcError(ended))
        elif waiting is not None:
            waiting.try_complete(owner)
        if ended is None and not self._creator_is_there(rref_id):
            self._creator_ended(rref_id)
        return owner

    def get_owner_rref(self, rref_id: RRefId, *, force_created: bool = False) -> Future[OwnerRRef]:
        """A future of the owner object, which may not exist yet.

        It fails if the RRef is known to have no value any more, as none has when RRefs are over
        here. With ``force_created`` the object must exist, else RuntimeError is raised.
        """
        runtime = self._session.worker.runtime
        with self._lock:
            owner = self.owners.get(rref_id)
            ended = OVER if owner is None and self._session.destroyed else None
            if owner is None and ended is None and not force_created:
                ended = self._ended.get(rref_id)
                waiting = self.pending_owners.get(rref_id)
                if ended is None and waiting is None:
                    waiting = Future(runtime=runtime, what=f"creation of RRef {rref_id}")
                    self.pending_owners[rref_id] = waiting
                    self._emit(tracing.OWNER_PENDING, rref_id)
        if owner is not None:
            return completed(owner, runtime=runtime)
        if force_created:
            raise RuntimeError(ended or f"Expected OwnerRRef with id {rref_id} to be created.")
        if ended is not None:
            return failed(RpcError(ended), runtime=runtime)
        assert waiting is not None
        if not self._creator_is_there(rref_id):
            self._creator_ended(rref_id)
        return waiting

    def _creator_is_there(self, rref_id: RRefId) -> bool:
        """Whether the process that is to send the creating call, or has sent it, has not ended."""
        worker = self._session.worker
        if worker.agent is None or rref_id.created_on == worker.id:
            return True
        return worker.agent.is_there(rref_id.created_on, rref_id.local_id >> PROCESS_ID_BITS)

    def process_ended(self, worker_id: WorkerId) -> None:
        """Tell whoever waits for a creation by a worker that is gone that it will not come."""
        for rref_id in self._missing():
            if rref_id.created_on == worker_id and not self._creator_is_there(rref_id):
                self._creator_ended(rref_id)

    def _creator_ended(self, rref_id: RRefId) -> None:
        with self._lock:
            if rref_id in self._creating:  # the call is here, and ends with a value or an error
                return
        error = (
            f"worker {rref_id.created_on}, which was to create the value of {rref_id}, has ended"
        )
        self.creation_failed(rref_id, error)

    def _missing(self) -> list[RRefId]:
        """The RRefs that somebody knows of and whose creating call has not come."""
        with self._lock:
            told_of = [rref_id for rref_id, owner in self.owners.items() if not owner.created]
            missing = [*self.pending_owners, *told_of]
            return [rref_id for rref_id in missing if rref_id not in self._creating]

    # -- the owner's side of a creation ---------------------------------------------------

    def creation_started(self, rref_id: RRefId) -> None:
        """The call that creates the RRef is here; its function may take long."""
        with self._lock:
            self._creating[rref_id] = None

    def create_owner_of_remote(self, rref_id: RRefId, fork_id: ForkId, type_str: str) -> OwnerRRef:
        """The owner object for the result of a call; the creator's fork is registered.

        If the creator is gone already and nobody else has a fork, the object is in no table; nor is
        it if the call came to a group that is over, which had tables of its own.
        Raises RuntimeError if the creator's fork is known: the call came twice.
        """
        with self._lock:
            begun = rref_id in self._creating
            self._creating.pop(rref_id, None)
            if fork_id in self.forks.get(rref_id, ()):
                raise RuntimeError(f"Got fork notification twice on the same RRef {fork_id}")
            ended = self._ended.get(rref_id) or (None if begun else OVER)
            waiting = None
            owner = self.owners.get(rref_id)
            if owner is None:
                owner = self._new_owner(rref_id, type_str)
            owner.created = True
            owner.type_str = type_str
            if ended is None:
                if fork_id not in self._deleted_forks:
                    self.register_fork(rref_id, fork_id)
                if rref_id in self.forks:
                    self.add_owner(owner)
                else:  # a fetch that comes later is not to wait for it
                    self.drop_owner(rref_id)
                    self._remember_deleted(rref_id)
                waiting = self.pending_owners.pop(rref_id, None)
                self._tell_if_empty()
        if ended is not None:
            owner.set_error(RpcError(ended))
        elif waiting is not None:
            waiting.try_complete(owner)
        return owner

    def creation_failed(self, rref_id: RRefId, error: str) -> None:
        """The call that would have created the RRef failed, or its creator gave it up.

        Whoever asks or has asked for the value gets the error. No effect once it exists.
        """
        with self._lock:
            self._creating.pop(rref_id, None)
            owner = self.owners.get(rref_id)
            if (owner is not None and owner.created) or rref_id in self._ended:
                return
            self.drop_owner(rref_id)
            remember(self._ended, rref_id, error)
            self._emit(tracing.OWNER_FAILED, rref_id, error)
            waiting = self.pending_owners.pop(rref_id, None)
            self._tell_if_empty()
        if owner is not None:
            owner.created = True  # as far as it ever will be
            owner.set_error(RpcError(error))
        if waiting is not None:
            waiting.try_fail(RpcError(error))

    def give_up_creations(self, error: str) -> None:
        """Every creation that somebody waits for and that has not come has failed."""
        for rref_id in self._missing():
            self.creation_failed(rref_id, error)

    def drop_unforked(self) -> None:
        """Drop the owners that nobody has a fork of.

        Not those that were only told of: their creation is under way, and brings a fork with it,
        or its creator tells that it has given up.
        """
        with self._lock:
            for rref_id, owner in list(self.owners.items()):
                if owner.created and rref_id not in self.forks:
                    self.drop_owner(rref_id)

    # -- forks --------------------------------------------------------------------------

    def add_self_as_fork(self, owner: OwnerRRef) -> None:
        """Keep a creation on oneself in the table until its reply: its id serves as fork id."""
        with self._lock:
            self.add_owner(owner)
            self.register_fork(owner.rref_id, owner.rref_id)

    def add_fork_of_owner(self, rref_id: RRefId, fork_id: ForkId) -> None:
        """Register a fork. Raises RuntimeError if it is registered."""
        with self._lock:
            if fork_id in self.forks.get(rref_id, ()):
                raise RuntimeError(f"Got fork notification twice on the same RRef {fork_id}")
            self.register_fork(rref_id, fork_id)

    def add_fork_of_owner_if_not_present(self, rref_id: RRefId, fork_id: ForkId) -> None:
        """Register a fork that a user told of, unless it is known, or deleted already."""
        with self._lock:
            if fork_id not in self.forks.get(rref_id, ()) and fork_id not in self._deleted_forks:
                self.register_fork(rref_id, fork_id)

    def del_fork_of_owner(self, rref_id: RRefId, fork_id: ForkId) -> OwnerRRef | None:
        """Delete a fork, for good: nothing that comes later registers it.

        Returns the owner object if this was its last fork, for the caller to let go.
        """
        with self._lock:
            remember(self._deleted_forks, fork_id, None)
            return self.unregister_fork(rref_id, fork_id)

    def del_abandoned_fork(self, rref_id: RRefId, fork_id: ForkId) -> OwnerRRef | None:
        """Delete the fork of a creator that never heard of the creation.

        Unless the creating call has come, the RRef will have no value.
        """
        owner = self.del_fork_of_owner(rref_id, fork_id)
        if rref_id not in self._creating:
            self.creation_failed(rref_id, TIMED_OUT)
        return owner

    # -- for whoever holds the lock -------------------------------------------------------

    def take_all(self) -> tuple[list[OwnerRRef], list[Future[OwnerRRef]]]:
        """Empty the tables: the owner objects, and what waits for those that have not come."""
        owners, self.owners = self.owners, {}
        waiting, self.pending_owners = self.pending_owners, {}
        return list(owners.values()), list(waiting.values())

    def add_owner(self, owner: OwnerRRef) -> None:
        if owner.rref_id not in self.owners:
            self.owners[owner.rref_id] = owner
            if owner.future.error is None:  # else whoever asks when it is gone is told why
                self._ended.pop(owner.rref_id, None)
            self._emit(tracing.OWNER_CREATED, owner.rref_id)

    def drop_owner(self, rref_id: RRefId) -> OwnerRRef | None:
        owner = self.owners.pop(rref_id, None)
        if owner is not None:
            self._emit(tracing.OWNER_DELETED, rref_id)
            if rref_id not in self._ended:
                self._remember_deleted(rref_id)
            self._tell_if_empty()
        return owner

    def _remember_deleted(self, rref_id: RRefId) -> None:
        text = f"OwnerRRef with RRefId = {rref_id} has been deleted."
        remember(self._ended, rref_id, text)

    def _tell_if_empty(self) -> None:
        if not self.owners and not self.pending_owners:
            self._session.changed.notify_all()

    def register_fork(self, rref_id: RRefId, fork_id: ForkId) -> None:
        self.forks.setdefault(rref_id, {})[fork_id] = None
        self._emit(tracing.FORK_ADDED, rref_id, fork_id)

    def unregister_fork(self, rref_id: RRefId, fork_id: ForkId) -> OwnerRRef | None:
        forks = self.forks.get(rref_id)
        if forks is None or fork_id not in forks:
            return None
        del forks[fork_id]
        self._emit(tracing.FORK_DELETED, rref_id, fork_id)
        if forks:
            return None
        del self.forks[rref_id]
        owner = self.owners.get(rref_id)
        # Without its creation, which is under way, it was only told of: it stays for that.
        return self.drop_owner(rref_id) if owner is not None and owner.created else None
