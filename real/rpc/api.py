"""The names of torch.distributed.rpc.api, and the life of RPC on a worker.

What PyTorch keeps here in module globals is in :mod:`squall.real.rpc.state`, once a worker.
"""

# ruff: noqa: F401 - most of what is imported here is imported to be found here

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from squall.real.future import Future
from squall.real.rpc.all_gather import (
    _all_gather,
    _barrier,
    _broadcast_to_followers,
    _gather_to_leader,
    _init_rpc_states,
    _set_and_start_rpc_agent,
    _wait_all_workers,
)
from squall.real.rpc.calls import (
    _invoke_rpc,
    _wait_all,
    collected_futures,
    get_worker_info,
    rpc_async,
    rpc_sync,
    to_worker_info,
)
from squall.real.rpc.constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from squall.real.rpc.current import (
    get_current_rpc_agent,
    get_rpc_timeout,
    initialized,
    is_current_rpc_agent_set,
    require_initialized,
    set_rpc_timeout,
)
from squall.real.rpc.dynamic_group import leave_group
from squall.real.rpc.gather_states import AllGatherStates
from squall.real.rpc.init import init_rpc as init_rpc
from squall.real.rpc.internal import PythonUDF, RPCExecMode, _internal_rpc_pickler
from squall.real.rpc.py_rref import RRef, remote
from squall.real.rpc.state import replaceable, rpc_state
from squall.real.rpc.worker_info import WorkerInfo
from squall.real.worker import current_worker

__all__ = [
    "AllGatherStates",
    "RRef",
    "get_worker_info",
    "method_factory",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

# The names that torch's own tests and other libraries use.
PyRRef = RRef
_get_current_rpc_agent = get_current_rpc_agent
_is_current_rpc_agent_set = is_current_rpc_agent_set
_require_initialized = require_initialized
_set_rpc_timeout = set_rpc_timeout


def shutdown(graceful: bool = True, timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """End RPC on this worker.

    ``graceful``: first wait until all workers have come here and nothing is under way between
    them; ``timeout`` in seconds limits each such wait, 0 means no limit. RPC is shut down on this
    worker whatever is raised: RuntimeError when time is up, before ``init_rpc``, or for an RRef
    leak if those are not ignored.
    """
    worker, agent = initialized()
    if not graceful:
        _finalize_shutdown()
        if worker.container is not None:
            worker.container.group_left()
        return
    try:
        # An agent of another backend may have no say in this.
        if not getattr(agent, "is_static_group", True):
            leave_group(agent, timeout)
            return
        replaceable(worker, _wait_all_workers)(timeout)
        replaceable(worker, _delete_all_user_and_unforked_owner_rrefs)()
        agent.join(shutdown=True, timeout=timeout)
    finally:
        _finalize_shutdown()


def _finalize_shutdown() -> None:
    worker, agent = initialized()
    try:
        _destroy_rref_context(rpc_state(worker).ignore_rref_leak)
    finally:
        agent.shutdown()
        _reset_current_rpc_agent()


def _delete_all_user_and_unforked_owner_rrefs(
    timeout: timedelta = timedelta(seconds=100),
) -> None:
    """Delete this worker's user RRefs and wait for the others to delete theirs."""
    context = initialized()[0].rref_context
    if context is not None:
        context.del_all_users_and_unforked_owners(timeout.total_seconds())


def _destroy_rref_context(ignore_rref_leak: bool) -> None:
    """Forget all RRefs. Raises RuntimeError for a leak unless it is to be ignored."""
    context = initialized()[0].rref_context
    if context is not None:
        context.destroy_instance(ignore_rref_leak)


def _rref_context_get_debug_info() -> dict[str, str]:
    """torch's counters of RRefs, as text; empty before ``init_rpc``."""
    context = current_worker().rref_context
    return context.get_debug_info() if context is not None else {}


def _reset_current_rpc_agent() -> None:
    current_worker().reset_agent()


def _to_worker_info(to: Any) -> WorkerInfo:
    return to_worker_info(get_current_rpc_agent(), to)


@contextlib.contextmanager
def _use_rpc_pickler(rpc_pickler: Any) -> Iterator[None]:
    """Let ``rpc_pickler.serialize`` pickle this worker's calls inside."""
    state = rpc_state(current_worker())
    state.pickler = rpc_pickler
    try:
        yield
    finally:
        state.pickler = None


def method_factory(method_name: str, docstring: str | None) -> Callable[..., Any]:
    """A function that calls the method of that name of an RRef."""

    def method(self: RRef[Any], *args: Any, **kwargs: Any) -> Any:
        return getattr(self, method_name)(*args, **kwargs)

    method.__name__ = method_name
    method.__doc__ = docstring
    return method


class _ThreadLocal:
    """What the running task has collected for ``_wait_all``."""

    @property
    def future_list(self) -> list[Future[Any]]:
        """Raises AttributeError outside ``_wait_all``."""
        collected = collected_futures()
        if collected is None:
            raise AttributeError("future_list")
        return collected


_thread_local_var = _ThreadLocal()
