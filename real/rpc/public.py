"""The names of ``torch.distributed.rpc``, with this engine behind them.

``squall.sim.scripts.compat`` shows this module to scripts under torch's name.
"""

# ruff: noqa: F401, F822 - what is imported here is imported to be found here

from __future__ import annotations

from typing import Any

from squall.real.rpc import (
    api,
    backend_registry,
    constants,
    functions,
    internal,
    options,
    rref_proxy,
)
from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.all_gather import _barrier, _set_and_start_rpc_agent
from squall.real.rpc.api import (
    _delete_all_user_and_unforked_owner_rrefs,
    _destroy_rref_context,
    _reset_current_rpc_agent,
    _rref_context_get_debug_info,
    method_factory,
    shutdown,
)
from squall.real.rpc.backend_registry import (
    backend_registered,
    construct_rpc_backend_options,
    init_backend,
    register_backend,
)
from squall.real.rpc.calls import _wait_all, get_worker_info, rpc_async, rpc_sync
from squall.real.rpc.constants import (
    DEFAULT_INIT_METHOD,
    DEFAULT_NUM_WORKER_THREADS,
    DEFAULT_RPC_TIMEOUT_SEC,
    UNSET_RPC_TIMEOUT,
)
from squall.real.rpc.current import (
    enable_gil_profiling,
    get_current_rpc_agent,
    get_rpc_timeout,
    is_current_rpc_agent_set,
    set_rpc_timeout,
)
from squall.real.rpc.gather_states import AllGatherStates
from squall.real.rpc.init import _get_debug_info, init_rpc
from squall.real.rpc.init import _init_rpc_backend as _init_rpc_backend
from squall.real.rpc.options import RpcBackendOptions, TensorPipeRpcBackendOptions
from squall.real.rpc.py_rref import RRef, remote
from squall.real.rpc.server_profiling import (
    _disable_server_process_global_profiler as _disable_server_process_global_profiler,
)
from squall.real.rpc.server_profiling import (
    _enable_server_process_global_profiler as _enable_server_process_global_profiler,
)
from squall.real.rpc.worker_info import WorkerInfo

PyRRef = RRef
TensorPipeAgent = RpcAgent
_DEFAULT_INIT_METHOD = DEFAULT_INIT_METHOD
_DEFAULT_NUM_WORKER_THREADS = DEFAULT_NUM_WORKER_THREADS
_DEFAULT_RPC_TIMEOUT_SEC = DEFAULT_RPC_TIMEOUT_SEC
_UNSET_RPC_TIMEOUT = UNSET_RPC_TIMEOUT
_get_current_rpc_agent = get_current_rpc_agent
_is_current_rpc_agent_set = is_current_rpc_agent_set
_is_tensorpipe_available = True
_set_rpc_timeout = set_rpc_timeout

#: submodules by the name that follows ``torch.distributed.rpc.``
SUBMODULES = {
    "api": api,
    "backend_registry": backend_registry,
    "constants": constants,
    "functions": functions,
    "internal": internal,
    "options": options,
    "rref_proxy": rref_proxy,
}


def is_available() -> bool:
    return True


def __getattr__(name: str) -> Any:
    if name == "BackendType":
        return backend_registry.BackendType
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AllGatherStates",
    "BackendType",
    "PyRRef",
    "RRef",
    "RpcAgent",
    "RpcBackendOptions",
    "TensorPipeAgent",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "api",
    "backend_registered",
    "backend_registry",
    "construct_rpc_backend_options",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_backend",
    "init_rpc",
    "is_available",
    "method_factory",
    "register_backend",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]
