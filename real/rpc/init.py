"""init_rpc: from nothing to a worker of a group (torch/distributed/rpc/__init__.py)."""

from __future__ import annotations

import logging
from numbers import Integral
from types import NoneType
from typing import Any

from squall.real.autograd import api as dist_autograd
from squall.real.rpc import backend_registry
from squall.real.rpc.all_gather import _init_rpc_states
from squall.real.rpc.current import initialized, is_current_rpc_agent_set
from squall.real.rpc.dynamic_group import count_process
from squall.real.rpc.options import RpcBackendOptions
from squall.real.rpc.rendezvous import dynamic_store_key, store_key
from squall.real.rpc.state import rpc_state
from squall.real.rpc.store import Store
from squall.real.runtime import current_task_or_none
from squall.real.worker import current_worker

logger = logging.getLogger(__name__)


def init_rpc(
    name: Any,
    backend: Any = None,
    rank: Any = -1,
    world_size: Any = None,
    rpc_backend_options: Any = None,
) -> None:
    """Join the group of ``world_size`` workers as number ``rank``, called ``name``.

    Returns when all of them can be called. Without ``world_size`` the group is one that workers
    join and leave at any time, and those that are in it can be called. ``backend`` is a member of ``BackendType``; the
    options say where the workers meet. Raises TypeError, ValueError or RuntimeError for bad
    arguments, for a group that contradicts itself, and if RPC is initialized already.
    """
    if current_task_or_none() is None:
        raise RuntimeError("init_rpc was called outside every task of a runtime")
    worker = current_worker()
    backend, options = _backend_and_options(backend, rpc_backend_options)
    schemes = worker.world.schemes
    if world_size:
        key = store_key(options.init_method, rank, world_size, schemes)
    else:
        key = dynamic_store_key(options.init_method, rank, schemes)
    _validate_rpc_args(backend, name, rank, world_size, options)
    if is_current_rpc_agent_set():
        raise RuntimeError("RPC is already initialized")
    state = rpc_state(worker)
    store = worker.world.store(f"{key}/rpc_prefix_{state.init_count}")
    if not world_size:
        count_process(worker, store, rank)
    # Autograd first: once the group stands, a peer's backward pass may come at any time.
    dist_autograd._init(rank)
    state.init_count += 1
    _init_rpc_backend(backend, store, name, rank, world_size, options)


def _backend_and_options(backend: Any, options: Any) -> tuple[Any, RpcBackendOptions]:
    if backend is not None and not backend_registry.is_backend(backend):
        raise TypeError("Argument backend must be a member of BackendType")
    if options is not None and not isinstance(options, RpcBackendOptions):
        raise TypeError("Argument rpc_backend_options must be an instance of RpcBackendOptions")
    types = backend_registry.BackendType
    if backend is None:
        backend = types.TENSORPIPE if options is None else _backend_of_options(types, options)
    if options is None:
        options = backend_registry.construct_rpc_backend_options(backend)
    return backend, options


def _backend_of_options(types: Any, options: RpcBackendOptions) -> Any:
    for candidate in types:
        made = backend_registry.construct_rpc_backend_options(candidate)
        if isinstance(options, type(made)):
            if candidate is not types.TENSORPIPE:
                logger.warning(
                    "init_rpc was given no backend; its options are those of %(backend)s, so "
                    "that is used. Pass `backend=%(backend)s` to silence this warning.",
                    {"backend": candidate},
                )
            return candidate
    raise TypeError(f"Could not infer backend for options {options}")


def _validate_rpc_args(backend: Any, name: Any, rank: Any, world_size: Any, options: Any) -> None:
    for value, wanted in (
        (name, str),
        (rank, Integral),
        (world_size, Integral | NoneType),
        (options, RpcBackendOptions),
    ):
        if not isinstance(value, wanted):
            raise RuntimeError(
                f"Argument {value} must be of type {wanted} but got type {type(value)}"
            )


def _init_rpc_backend(
    backend: Any,
    store: Store | None = None,
    name: str | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Start this worker's agent by ``backend``. Raises RuntimeError if there is one."""
    if is_current_rpc_agent_set():
        raise RuntimeError("RPC is already initialized")
    agent = backend_registry.init_backend(
        backend,
        store=store,
        name=name,
        rank=rank,
        world_size=world_size,
        rpc_backend_options=rpc_backend_options,
    )
    _init_rpc_states(agent)


def _get_debug_info() -> dict[str, Any]:
    """Counters of RRefs and of the agent, as text, and of autograd, as numbers."""
    worker, agent = initialized()
    context = worker.rref_context
    info: dict[str, Any] = {} if context is None else dict(context.get_debug_info())
    info.update(agent.get_debug_info())
    info.update(dist_autograd._get_debug_info())
    return info
