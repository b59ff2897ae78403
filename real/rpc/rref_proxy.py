"""Calling methods of an RRef's value where it lives (torch/distributed/rpc/rref_proxy.py)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol, cast

import torch

from squall.real.future import Future
from squall.real.process import devices_of
from squall.real.rpc.calls import rpc_async
from squall.real.rpc.constants import UNSET_RPC_TIMEOUT
from squall.real.rpc.functions import async_execution
from squall.real.rpc.profiling import profiler_of
from squall.real.rpc.rref import OwnerRRef, UserRRef
from squall.real.rpc.serialization import capture_exception
from squall.real.rpc.wire_names import label_module
from squall.real.rpc.worker_info import WorkerInfo
from squall.real.runtime import current_task
from squall.real.streams import current_streams, on_streams
from squall.real.worker import current_worker

label_module(__name__, "proxy")


_SCRIPT_MODULES = (torch.jit.ScriptModule, torch._C.ScriptModule)


class Reference(Protocol):
    """The RRef whose value is used; see :class:`squall.real.rpc.py_rref.RRef`."""

    _rref: OwnerRRef | UserRRef

    def owner(self) -> WorkerInfo: ...

    def local_value(self) -> Any: ...

    def _get_type(self, timeout: float = ..., blocking: bool = ...) -> Any: ...


def local_invoke(rref: Reference, func_name: str, args: Any, kwargs: Any) -> Any:
    """Call a method of the value; runs on the owner."""
    return getattr(rref.local_value(), func_name)(*args, **kwargs)


@async_execution
def local_invoke_async_execution(rref: Reference, func_name: str, args: Any, kwargs: Any) -> Any:
    """As :func:`local_invoke`, for a method that returns a future of its result."""
    return getattr(rref.local_value(), func_name)(*args, **kwargs)


@async_execution
def _rref_typeof_on_owner(rref: Reference) -> Future[Any]:
    """A future of the type of the value; runs on the owner.

    The call may come before the one that creates the value, and must not keep a thread of the
    pool from that.
    """
    owner = cast(OwnerRRef, rref._rref)
    owner.check()

    def type_of(_: Future[Any]) -> Any:
        try:
            return type(rref.local_value())
        except Exception as error:
            return capture_exception(current_worker(), error)

    return owner.future.map(type_of)


class RRefProxy:
    """``proxy.method(*args)`` is one call of ``rpc_api`` to the owner of ``rref``."""

    def __init__(self, rref: Reference, rpc_api: Any, timeout: float = UNSET_RPC_TIMEOUT) -> None:
        self.rref = rref
        self.rpc_api = rpc_api
        self.rpc_timeout = timeout

    def __getattr__(self, func_name: str) -> Callable[..., Any]:
        rref, rpc_api, timeout = self.rref, self.rpc_api, self.rpc_timeout

        def invoke(*args: Any, **kwargs: Any) -> Any:
            return _invoke_rpc(rref, rpc_api, func_name, timeout, args, kwargs)

        return invoke


def _invoke_rpc(
    rref: Reference, rpc_api: Any, func_name: str, timeout: float, args: Any, kwargs: Any
) -> Any:
    def call(rref_type: type) -> Any:
        return rpc_api(
            rref.owner(),
            _invoker(rref_type, func_name),
            args=(rref, func_name, args, kwargs),
            timeout=timeout,
        )

    if rpc_api is not rpc_async:
        return call(rref._get_type(timeout=timeout, blocking=True))
    # The type comes in one future and the result in another: this one is the result's.
    type_future: Future[type] = rref._get_type(timeout=timeout, blocking=False)
    result: Future[Any] = Future(what=f"{func_name} of {rref!r}")
    # What the arguments are made on: the call waits for it, whichever task makes it.
    streams = tuple(current_streams().values()) if devices_of(current_worker()) else ()
    caller, grad_enabled = current_task(), torch.is_grad_enabled()
    context_id, profiler = caller.autograd_context_id, profiler_of(caller)

    def then_call(done: Future[type]) -> None:
        # Often on the task that brought the type. In torch a call made there belongs to no
        # autograd context, and its gradients are lost.
        task = current_task()
        before, task.autograd_context_id = task.autograd_context_id, context_id
        try:
            profiled = nullcontext() if profiler is None else profiler.here()
            with torch.set_grad_enabled(grad_enabled), on_streams(streams), profiled:
                outcome = call(done.value())
        except Exception as error:
            result.try_fail(error)
            return
        finally:
            task.autograd_context_id = before
        result.unwrap = outcome.unwrap
        outcome.add_callback(result.complete_like)

    type_future.add_callback(then_call)
    return result


def _invoker(rref_type: type, func_name: str) -> Any:
    # A TorchScript module's methods are no attributes of its type.
    if issubclass(rref_type, _SCRIPT_MODULES):
        return local_invoke
    is_async = hasattr(getattr(rref_type, func_name), "_wrapped_async_rpc_function")
    return local_invoke_async_execution if is_async else local_invoke
