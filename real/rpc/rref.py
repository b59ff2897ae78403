"""The two ends of a remote reference: the owner, which has the value, and its users.

(torch/csrc/distributed/rpc/rref_impl.h)
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from squall.real.future import Future
from squall.real.ids import ForkId, GlobalUniqueId, RRefId, WorkerId
from squall.real.process import Process, devices_of
from squall.real.rpc.errors import RpcError, RpcErrorKind, rpc_error_kind
from squall.real.tracing import OWNER_VALUE_SET

#: the type of an RRef whose value may be any Python object
PY_OBJECT = "PyObject"

#: torch's tests look for "RRef creation"; the text is part of traces, and so of the digests of runs
TIMED_OUT = (
    "RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner "
    "node does not exist."
)


class RRefForkData(NamedTuple):
    """A fork on the wire: flat, as torch's ``_serialize`` gives it."""

    owner: WorkerId
    rref_created_on: WorkerId
    rref_local_id: int
    fork_created_on: WorkerId
    fork_local_id: int
    parent: WorkerId
    type_str: str

    @property
    def rref_id(self) -> RRefId:
        return GlobalUniqueId(self.rref_created_on, self.rref_local_id)

    @property
    def fork_id(self) -> ForkId:
        return GlobalUniqueId(self.fork_created_on, self.fork_local_id)


class RRefHome(Protocol):
    """What an RRef asks of where it was made; see
    :class:`squall.real.rpc.rref_context.RRefContext`."""

    worker: Process

    def prepare_child_fork(self, rref: OwnerRRef | UserRRef) -> RRefForkData: ...

    def schedule_del_user(
        self, owner: WorkerId, rref_id: RRefId, fork_id: ForkId, abandoned: bool
    ) -> None: ...


class _RRefBase:
    """What owner and user have in common.

    ``creation_future``: done when the creation by ``rpc.remote`` is, if it was made here.
    """

    __slots__ = (
        "__weakref__",
        "_failure",
        "context",
        "creation_future",
        "owner_id",
        "rref_id",
        "timed_out",
        "type_str",
    )

    def __init__(
        self, context: RRefHome, owner_id: WorkerId, rref_id: RRefId, type_str: str
    ) -> None:
        self.context = context
        self.owner_id = owner_id
        self.rref_id = rref_id
        self.type_str = type_str
        self.timed_out = False
        self.creation_future: Future[None] | None = None
        self._failure: str | None = None
        tracer = context.worker.tracer
        if tracer.enabled:
            tracer.made(self)

    @property
    def failed(self) -> bool:
        """Whether the creation is known to have failed."""
        return self.timed_out or self._failure is not None

    def handle_error(self, error: BaseException) -> None:
        """Mark the RRef by what became of its creation; each later use then raises."""
        if rpc_error_kind(error) is RpcErrorKind.UNKNOWN:
            self._failure = str(error)
        else:
            self.timed_out = True

    def check(self) -> None:
        """Raises RuntimeError if the creation is known to have failed."""
        if self.timed_out:
            raise RuntimeError(TIMED_OUT)
        if self._failure is not None:
            raise RuntimeError(self._failure)


class OwnerRRef(_RRefBase):
    """The one instance that holds the value, or the error that came instead of it."""

    __slots__ = ("created", "future")

    def __init__(
        self, context: RRefHome, owner_id: WorkerId, rref_id: RRefId, type_str: str
    ) -> None:
        super().__init__(context, owner_id, rref_id, type_str)
        self.future: Future[Any] = Future(
            # Not the object itself: the two would keep each other.
            runtime=context.worker.runtime,
            what=("value of RRef", rref_id),
            devices=devices_of(context.worker),
        )
        #: False while only users have told of it and the call that creates it has not come
        self.created = False

    def get_value(self) -> Any:
        """Wait for the value. Raises the error that came instead."""
        self.check()
        self.future.block()
        error = self.future.error
        if error is not None:
            # A new one each time: the stored one would collect the frames of every reader.
            self.check()
            raise RuntimeError(str(error))
        return self.future.raw_value()

    def has_value(self) -> bool:
        return self.future.is_done

    def set_value(self, value: Any) -> bool:
        """Set the value, once; False if value or error is there already."""
        if not self.future.try_complete(value):
            return False
        tracer = self.context.worker.tracer
        if tracer.enabled:
            tracer.emit(OWNER_VALUE_SET, tuple(self.rref_id), None)
        return True

    def set_error(self, error: BaseException) -> bool:
        """Set an error in the place of the value; False if either is there already."""
        text = str(error)
        if not self.future.try_fail(RpcError(text)):
            return False
        tracer = self.context.worker.tracer
        if tracer.enabled:
            tracer.emit(OWNER_VALUE_SET, tuple(self.rref_id), text)
        return True

    def __repr__(self) -> str:
        return f"OwnerRRef(rref_id={self.rref_id!s})"


class UserRRef(_RRefBase):
    """A reference to a value elsewhere.

    While it waits for the owner's confirmation or for that of a child, a table of the context
    holds it; when the last reference goes, the owner is told.
    """

    __slots__ = ("_untold", "abandoned", "confirmed", "deleted", "fork_id")

    def __init__(
        self,
        context: RRefHome,
        owner_id: WorkerId,
        rref_id: RRefId,
        fork_id: ForkId,
        type_str: str,
    ) -> None:
        super().__init__(context, owner_id, rref_id, type_str)
        self.fork_id = fork_id
        self.confirmed = False
        #: the owner has been told, or will be without anybody's doing, that it is gone
        self.deleted = False
        # Popping the only element is atomic between threads: whoever gets it tells the owner.
        self._untold = [True]
        #: it is the creator, and the owner's answer to the creation has not come
        self.abandoned = False

    def try_del(self) -> None:
        """Tell the owner that this user is gone, unless it has been told."""
        if not self.deleted:
            try:
                self._untold.pop()
            except IndexError:
                return
            self.deleted = True
            self.context.schedule_del_user(
                self.owner_id, self.rref_id, self.fork_id, self.abandoned
            )

    def __del__(self) -> None:
        # May run anywhere, even inside a section that holds a lock: it only makes a note.
        self.try_del()

    def __repr__(self) -> str:
        return f"UserRRef(rref_id={self.rref_id!s}, fork_id={self.fork_id!s})"
