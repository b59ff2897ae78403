"""RRef: what users hold (torch/csrc/distributed/rpc/py_rref.cpp)."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar, cast

import torch

from squall.real.autograd import api as dist_autograd
from squall.real.autograd.messages import RRefBackwardReq
from squall.real.future import Future, completed, plain_errors
from squall.real.rpc.calls import begin_remote, rpc_async, rpc_sync
from squall.real.rpc.constants import UNSET_RPC_TIMEOUT
from squall.real.rpc.fetch import fetch
from squall.real.rpc.profiling import ProfiledCall
from squall.real.rpc.rref import OwnerRRef, RRefForkData, UserRRef
from squall.real.rpc.rref_context import RRefContext
from squall.real.rpc.rref_proxy import RRefProxy, _rref_typeof_on_owner
from squall.real.rpc.rref_session import NO_AGENT
from squall.real.rpc.serialization import RemoteException, handle_exception, register_rref_type
from squall.real.rpc.time_limit import seconds
from squall.real.rpc.worker_info import WorkerInfo
from squall.real.tracing import RREF_FETCHED
from squall.real.worker import current_worker_or_none

T = TypeVar("T")

#: a context id that was not given
NO_CONTEXT_ID = -1


class RRef(Generic[T]):
    """A reference to a value of type ``T`` on some worker.

    ``RRef(value)`` refers to a value of this worker; ``rpc.remote`` gives a reference to what a
    call returns. Passing one to another worker forks it; dropping the last one everywhere
    lets the owner drop the value. ``type_hint`` is for values that are TorchScript modules.
    """

    def __init__(self, value: T, type_hint: Any = None) -> None:
        if type_hint is not None and not isinstance(value, torch.jit.ScriptModule):
            raise RuntimeError(
                "type_hint is for values that are a ScriptModule, which this one is not"
            )
        if isinstance(value, torch.jit.ScriptModule) and type_hint is None:
            # torch's tests look for the words up to the comma.
            raise RuntimeError(
                "The RRef being created contains a ScriptModule, so type_hint has to name its "
                "ModuleInterface"
            )
        owner = _running_context().create_owner_rref()
        owner.set_value(value)
        self._set(owner)

    def _set(self, rref: OwnerRRef | UserRRef) -> None:
        self._rref = rref
        self._profiling_future: Future[Any] | None = None
        self._type: Any = None
        #: the future that was given to whoever asked first and did not want to wait
        self._type_future: Future[Any] | None = None

    @classmethod
    def _wrap(cls, rref: OwnerRRef | UserRRef) -> RRef[Any]:
        wrapper = cls.__new__(cls)
        wrapper._set(rref)
        return wrapper

    # -- who and where ------------------------------------------------------------------

    def is_owner(self) -> bool:
        """Whether the value lives on this worker."""
        return isinstance(self._rref, OwnerRRef)

    def owner(self) -> WorkerInfo:
        """The worker that has the value."""
        agent = self._rref.context.worker.agent
        if agent is None:
            raise RuntimeError(NO_AGENT)
        return agent.get_worker_info(self._rref.owner_id)

    def owner_name(self) -> str:
        return self.owner().name

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of this reference; also true once its creation has failed."""
        rref = self._rref
        return True if isinstance(rref, OwnerRRef) else rref.confirmed

    # -- the value ----------------------------------------------------------------------

    def to_here(self, timeout: float = UNSET_RPC_TIMEOUT) -> T:
        """A copy of the value, fetched from the owner; the value itself on the owner.

        Blocks. ``timeout`` in seconds: -1 the default, 0 none; without effect on the owner.
        Raises the exception, in its type, that the creating function raised, and RuntimeError
        for a failed creation, a deleted reference and a timeout.
        """
        rref = self._rref
        if isinstance(rref, OwnerRRef):
            return self.local_value()
        with plain_errors():
            value = fetch(rref, seconds(timeout))
        return cast(T, handle_exception(value))

    def local_value(self) -> T:
        """The value itself, once it is there. Raises RuntimeError on a worker that is no owner."""
        rref = self._rref
        if isinstance(rref, UserRRef):
            here = rref.context.worker.agent
            raise RuntimeError(
                f"For {rref!r}, can't call localValue() on user "
                f"{here.info if here is not None else rref.context.worker}. "
                f"Call it on owner {self.owner()}"
            )
        tracer = rref.context.worker.tracer
        try:
            value = rref.get_value()
        except Exception as error:
            if tracer.enabled:
                tracer.emit(RREF_FETCHED, tuple(rref.rref_id), str(error))
            raise
        if tracer.enabled:
            tracer.emit(RREF_FETCHED, tuple(rref.rref_id), error_of(value))
        return cast(T, handle_exception(value))

    def rpc_sync(self, timeout: float = UNSET_RPC_TIMEOUT) -> RRefProxy:
        """``rref.rpc_sync().method(*args)`` calls a method of the value, on its owner."""
        return self._proxy(rpc_sync, timeout)

    def rpc_async(self, timeout: float = UNSET_RPC_TIMEOUT) -> RRefProxy:
        """As :meth:`rpc_sync`; the method's result comes in a future."""
        return self._proxy(rpc_async, timeout)

    def remote(self, timeout: float = UNSET_RPC_TIMEOUT) -> RRefProxy:
        """As :meth:`rpc_sync`; the method's result stays there, as an RRef."""
        return self._proxy(remote, timeout)

    def _proxy(self, rpc_api: Any, timeout: float) -> RRefProxy:
        return RRefProxy(self, rpc_api, seconds(timeout))

    def _get_type(self, timeout: float = UNSET_RPC_TIMEOUT, blocking: bool = True) -> Any:
        """The type of the value, or with ``blocking`` False a future of it.

        Asks the owner the first time; a failure is not remembered.
        """
        known = self._type
        rref = self._rref
        asked = self._type_future
        if not blocking and asked is not None and asked.error is None:
            return asked
        if known is not None:
            return known if blocking else completed(known, runtime=rref.context.worker.runtime)
        future: Future[Any]
        if isinstance(rref, OwnerRRef):
            rref.check()
            future = rref.future.map(_type_of)
        else:
            future = rpc_async(self.owner(), _rref_typeof_on_owner, args=(self,), timeout=timeout)
        if blocking:
            try:
                known = self._type = future.wait()
            finally:
                # The error's frames would hold the future that holds the error.
                del future
            return known

        def remember(done: Future[Any]) -> Any:
            self._type = done.value()
            return self._type

        self._type_future = future.map(remember)
        return self._type_future

    # -- autograd -----------------------------------------------------------------------

    def backward(
        self, dist_autograd_ctx_id: int = NO_CONTEXT_ID, retain_graph: bool = False
    ) -> None:
        """Run backward from the value, a scalar tensor, on its owner.

        Without a context id, which only the owner may leave out, this is an ordinary local
        backward. Raises RuntimeError.
        """
        rref = self._rref
        if isinstance(rref, OwnerRRef):
            backward_owner_rref(dist_autograd_ctx_id, retain_graph, rref.get_value())
            return
        if dist_autograd_ctx_id == NO_CONTEXT_ID:
            raise RuntimeError("User RRefs require 'dist_autograd_ctx_id' to be specified")
        if not rref.timed_out:  # a creation that takes too long may come yet
            rref.check()
        agent = rref.context.worker.agent
        if agent is None:
            raise RuntimeError(NO_AGENT)
        request = RRefBackwardReq(rref.rref_id, dist_autograd_ctx_id, retain_graph)
        future = agent.send(rref.owner_id, request.to_message())
        try:
            with plain_errors():
                future.wait()
        finally:
            del future

    # -- futures of the creation ----------------------------------------------------------

    def _get_future(self) -> Future[None]:
        """A future that is done when the creation is, for an RRef made here by ``rpc.remote``."""
        future = self._rref.creation_future
        if future is None:
            raise RuntimeError(f"{self} was not created by rpc.remote() on this worker")
        return future

    def _get_profiling_future(self) -> Future[Any]:
        if self._profiling_future is None:
            raise RuntimeError("Profiling future has not been set!")
        return self._profiling_future

    def _set_profiling_future(self, future: Future[Any]) -> None:
        self._profiling_future = future

    # -- pickling -----------------------------------------------------------------------

    def _serialize(self) -> tuple[Any, ...]:
        """Fork: the data from which the receiver makes its own reference."""
        return tuple(self._rref.context.prepare_child_fork(self._rref))

    @staticmethod
    def _deserialize(data: tuple[Any, ...]) -> RRef[Any]:
        """The receiver's reference; its owner and its parent are told."""
        if len(data) != len(RRefForkData._fields):
            raise RuntimeError("Pickled RRefForkData must contain 7 numbers.")
        return RRef._wrap(_running_context().take_up_fork(data))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise RuntimeError(
            # torch's tests look for the first half, programs for the second.
            "Can not pickle rref in python pickler, rref can only be pickled when using RPC"
        )

    def __repr__(self) -> str:
        rref = self._rref
        if isinstance(rref, OwnerRRef):
            return f"OwnerRRef({rref.rref_id!s})"
        return f"UserRRef(RRefId = {rref.rref_id!s}, ForkId = {rref.fork_id!s})"


PyRRef = RRef
register_rref_type(RRef)


def remote(
    to: Any, func: Any, args: Any = None, kwargs: Any = None, timeout: float = UNSET_RPC_TIMEOUT
) -> RRef[Any]:
    """Run ``func(*args, **kwargs)`` on worker ``to``, which keeps the result as its owner.

    Returns at once; uses of the RRef raise what went wrong. ``to`` and ``timeout`` as in
    :func:`squall.real.rpc.calls.rpc_sync`.
    """
    made, profiled = begin_remote(to, func, args, kwargs, timeout)
    rref = RRef._wrap(made)
    return rref if profiled is None else _profile_creation(rref, profiled)


def _profile_creation(rref: RRef[Any], profiled: ProfiledCall) -> RRef[Any]:
    """Let the range of the call end with the creation."""

    def end(created: Future[None]) -> None:
        profiled.end()
        created.raw_value()

    rref._set_profiling_future(rref._get_future().map(end))
    return rref


def _type_of(done: Future[Any]) -> type:
    with plain_errors():  # users wait for it
        value = done.raw_value()
    return type(handle_exception(value))


def error_of(value: Any) -> str | None:
    """What a trace says of a value that stands for an exception."""
    return value.exception_type.__name__ if isinstance(value, RemoteException) else None


def backward_owner_rref(context_id: int, retain_graph: bool, value: Any) -> None:
    """Backward from the value of an RRef: local without a context id, else distributed.

    Raises what the creating function raised; torch says there that it finds no tensor.
    """
    value = handle_exception(value)
    if not isinstance(value, torch.Tensor):
        raise RuntimeError("RRef should contain a tensor for .backward()")
    if context_id == NO_CONTEXT_ID:
        value.backward(retain_graph=retain_graph)
        return
    dist_autograd.backward(context_id, [value], retain_graph)


def _running_context() -> RRefContext:
    worker = current_worker_or_none()
    context = None if worker is None else worker.rref_context
    if context is None:
        raise RuntimeError(NO_AGENT)
    return context
