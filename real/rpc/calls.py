"""rpc_sync, rpc_async and remote (torch/distributed/rpc/api.py, csrc/.../python_functions.cpp).

What is called decides what travels: a torch operator goes by the name of its schema, anything
else as a pickled Python function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.jit import ScriptFunction
from torch.jit._builtins import _find_builtin

from squall.real.autograd.utils import send_message_with_autograd, unwrap_forward_response
from squall.real.future import Future, wait_all
from squall.real.rpc.builtin import make_script_call, make_script_remote_call
from squall.real.rpc.commands import Command, PythonCall, PythonRemoteCall
from squall.real.rpc.constants import UNSET_RPC_TIMEOUT
from squall.real.rpc.current import initialized
from squall.real.rpc.profiling import ProfiledCall, profiled_call
from squall.real.rpc.rref import OwnerRRef, UserRRef
from squall.real.rpc.rref_creation import CreationCall, create_rref
from squall.real.rpc.serialization import (
    Pickled,
    PythonUDF,
    RemoteException,
    deserialize,
    discard_forks,
    dump,
    handle_exception,
)
from squall.real.rpc.state import rpc_state
from squall.real.rpc.time_limit import seconds
from squall.real.rpc.worker_info import WorkerInfo
from squall.real.runtime import current_task

if TYPE_CHECKING:
    from squall.real.ids import ForkId, RRefId
    from squall.real.process import Process
    from squall.real.rpc.agent import RpcAgent
    from squall.real.rpc.builtin import TorchScript
    from squall.real.rpc.message import Message

#: where a task keeps the futures that ``_wait_all`` will wait for
_COLLECTED = "rpc futures to wait for"


def rpc_sync(
    to: Any, func: Any, args: Any = None, kwargs: Any = None, timeout: float = UNSET_RPC_TIMEOUT
) -> Any:
    """Run ``func(*args, **kwargs)`` on worker ``to`` and give its result.

    ``to``: name, id or WorkerInfo. ``timeout`` in seconds: -1 the default of the agent, 0 none.
    Raises ValueError and TypeError as the function raised them and RuntimeError for any other
    exception of it, for a timeout, and where the call cannot be made.
    """
    return _invoke_rpc(to, func, args, kwargs, timeout, "sync").wait()


def rpc_async(
    to: Any, func: Any, args: Any = None, kwargs: Any = None, timeout: float = UNSET_RPC_TIMEOUT
) -> Future[Any]:
    """As :func:`rpc_sync`, without waiting: the result, or what is raised, is in the future."""
    future = _invoke_rpc(to, func, args, kwargs, timeout, "async")
    collected = collected_futures()
    if collected is not None:
        collected.append(future)
    return future


def begin_remote(
    to: Any, func: Any, args: Any, kwargs: Any, timeout: Any
) -> tuple[OwnerRRef | UserRRef, ProfiledCall | None]:
    """Have worker ``to`` run ``func(*args, **kwargs)`` and keep the result: a reference to it.

    Returns at once; with the call as the profiler of this task sees it, if there is one.
    """
    worker, agent = initialized()
    operator = _operator(func)
    dst = to_worker_info(agent, to)
    timeout_s = seconds(timeout)
    args = args if args else ()
    kwargs = kwargs if kwargs else {}
    profiled = profiled_call(worker, "remote", func, operator, dst)
    call: CreationCall
    forks: list[Any] = []
    try:
        if operator is not None:
            call, forks = make_script_remote_call(worker, operator, args, kwargs)
        else:
            call, forks = _make_python_remote_call(worker, func, args, kwargs)
        rref = create_rref(
            worker,
            dst,
            call,
            timeout_s=timeout_s,
            force_grad_recording=operator is None,
            profiled=profiled,
        )
    except BaseException:
        discard_forks(worker, forks)
        if profiled is not None:
            profiled.end()
        raise
    return rref, profiled


def _make_python_remote_call(
    worker: Process, func: Any, args: Any, kwargs: Any
) -> tuple[CreationCall, list[Any]]:
    is_async, func = _asynchronous(func)
    payload, tensors, forks = _pickle_call(worker, PythonUDF(func, args, kwargs))

    def call(rref_id: RRefId, fork_id: ForkId) -> Command:
        return PythonRemoteCall(payload, tensors, rref_id, fork_id, is_async)

    return call, forks


def get_worker_info(worker_name: Any = None) -> WorkerInfo:
    """The name and id of a worker given by name, id or WorkerInfo; of this one for None.

    Raises RuntimeError if the group has no such worker.
    """
    _, agent = initialized()
    return agent.get_worker_info(worker_name)


def to_worker_info(agent: RpcAgent, to: Any) -> WorkerInfo:
    """The destination of a call. Raises ValueError, or RuntimeError for an unknown worker."""
    if isinstance(to, WorkerInfo):
        return to
    if isinstance(to, str | int):
        return agent.get_worker_info(to)
    raise ValueError(f"Cannot get WorkerInfo from name {to}")


def _invoke_rpc(to: Any, func: Any, args: Any, kwargs: Any, timeout: Any, mode: str) -> Future[Any]:
    worker, agent = initialized()
    if not callable(func):
        raise TypeError("function should be callable.")
    operator = _operator(func)
    dst = to_worker_info(agent, to)
    timeout_s = seconds(timeout)
    args = args if args else ()
    kwargs = kwargs if kwargs else {}
    profiled = profiled_call(worker, mode, func, operator, dst)
    call: Command
    forks: list[Any] = []
    try:
        if operator is not None:
            call, forks = make_script_call(worker, operator, args, kwargs)
        else:
            is_async, func = _asynchronous(func)
            payload, tensors, forks = _pickle_call(worker, PythonUDF(func, args, kwargs))
            call = PythonCall(payload, tensors, is_async)
        response = send_message_with_autograd(
            worker,
            dst.id,
            call.to_message(),
            force_grad_recording=operator is None,
            timeout_s=timeout_s,
            profiled=profiled,
        )
    except BaseException:
        discard_forks(worker, forks)
        if profiled is not None:
            profiled.end()
        raise
    return _python_future(worker, response, profiled)


def _operator(func: Any) -> str | TorchScript | None:
    """What goes by the name of its schema: the name of a torch operator, a TorchScript function."""
    operator: str | None = _find_builtin(func)
    return func if operator is None and isinstance(func, ScriptFunction) else operator


def _asynchronous(func: Any) -> tuple[bool, Any]:
    """Whether ``func`` returns a future, and what to send in its place."""
    inner = getattr(func, "_wrapped_async_rpc_function", None)
    if inner is None:
        return False, func
    return True, inner if isinstance(inner, ScriptFunction) else func


def _pickle_call(worker: Process, udf: PythonUDF) -> Pickled:
    pickler = rpc_state(worker).pickler
    if pickler is None:
        return dump(worker, udf)
    payload, tensors = pickler.serialize(udf)
    return Pickled(payload, tensors, [])


def _python_future(
    worker: Process, response: Future[Message], profiled: ProfiledCall | None
) -> Future[Any]:
    """The result of a call as Python sees it.

    The reply is read under the grad mode of the call, on whichever task it comes in.
    """
    result: Future[Any] = Future(
        runtime=worker.runtime,
        what=response.what,
        unwrap=raise_remote_exception,
        devices=response.devices(),
    )
    grad_enabled = torch.is_grad_enabled()

    def convert(response: Future[Message]) -> None:
        error = response.error
        if profiled is not None:
            profiled.end()
        if error is not None:
            # What kind of error it was stands in the text: callers know RuntimeError only.
            result.try_fail(RuntimeError(str(error)))
            return
        try:
            here = torch.is_grad_enabled()
            if here == grad_enabled:
                value = _read(worker, response.raw_value())
            else:
                with torch.set_grad_enabled(grad_enabled):
                    value = _read(worker, response.raw_value())
        except Exception as failure:
            result.try_fail(failure)
        else:
            result.try_complete(value)

    response.add_callback(convert)
    return result


def _read(worker: Process, message: Message) -> Any:
    message = unwrap_forward_response(worker, message)
    return deserialize(worker, message.payload, message.tensors)


def raise_remote_exception(value: Any) -> Any:
    """``value``, unless it stands for an exception: that is raised as ``rpc_sync`` does.

    Only ValueError and TypeError keep their type; the text starts with the name of the original
    one (torch/csrc/jit/python/pybind_utils.h, toPyJitFuture).
    """
    if type(value) is not RemoteException:
        return value
    try:
        handle_exception(value)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, ValueError):
            raise ValueError(text) from None
        if isinstance(error, TypeError):
            raise TypeError(text) from None
        raise RuntimeError(text) from None
    return None


def collected_futures() -> list[Future[Any]] | None:
    """The futures that ``_wait_all`` will wait for; None outside of it."""
    return current_task().locals.get(_COLLECTED)


@contextlib.contextmanager
def _wait_all() -> Iterator[None]:
    """Wait, on leaving, for every future that ``rpc_async`` returned to this task inside."""
    locals = current_task().locals
    outer = locals.get(_COLLECTED)
    collected: list[Future[Any]] = []
    locals[_COLLECTED] = collected
    try:
        yield
    finally:
        try:
            wait_all(collected)
        finally:
            if outer is None:
                del locals[_COLLECTED]
            else:
                locals[_COLLECTED] = outer
