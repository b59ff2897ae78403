"""Backends by name (torch/distributed/rpc/backend_registry.py).

``TENSORPIPE``, which is what scripts ask for, and ``SQUALL`` both mean this engine. Which other
backends there are is a matter of each worker, as it is of each process in PyTorch:
``BackendType`` read off this module is the enum of the running worker.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.all_gather import _init_rpc_states, _start_barrier
from squall.real.rpc.constants import (
    DEFAULT_INIT_METHOD,
    DEFAULT_NUM_WORKER_THREADS,
    DEFAULT_RPC_TIMEOUT_S,
)
from squall.real.rpc.devices import check_device_maps, tell_devices
from squall.real.rpc.dynamic_group import join_group
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.rendezvous import gather_group, rejoin_group
from squall.real.rpc.state import rpc_state
from squall.real.rpc.store import Store
from squall.real.worker import current_worker, current_worker_or_none

if TYPE_CHECKING:
    from squall.real.rpc.options import RpcBackendOptions

__all__ = [
    "BackendType",  # noqa: F822 - see __getattr__
    "BackendValue",
    "backend_registered",
    "construct_rpc_backend_options",
    "init_backend",
    "register_backend",
]


class BackendValue(NamedTuple):
    """What a backend is: how its options are made, and how its agent is."""

    construct_rpc_backend_options_handler: Callable[..., Any]
    init_backend_handler: Callable[..., Any]


def _enum(members: dict[str, BackendValue]) -> Any:
    make: Any = enum.Enum  # its functional form is beyond the type checker
    made = make("BackendType", list(members.items()), module=__name__)
    made.__doc__ = "The registered RPC backends."
    made.__repr__ = lambda member: f"BackendType.{member.name}"
    return made


def _construct_options(
    rpc_timeout: float,
    init_method: str,
    num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
    _transports: Any = None,
    _channels: Any = None,
    **_: Any,
) -> TensorPipeRpcBackendOptions:
    return TensorPipeRpcBackendOptions(
        rpc_timeout=rpc_timeout,
        init_method=init_method,
        num_worker_threads=num_worker_threads,
        _transports=_transports,
        _channels=_channels,
    )


def _init_backend(
    store: Any, name: str, rank: int, world_size: int | None, rpc_backend_options: Any
) -> RpcAgent:
    """Form the group and start this worker's agent in it; None joins one of no fixed size.

    Raises TypeError for wrong arguments and what :func:`gather_group` raises.
    """
    if not isinstance(store, Store):
        raise TypeError(f"`store` must be a c10d::Store. {store}")
    if not isinstance(rpc_backend_options, TensorPipeRpcBackendOptions):
        raise TypeError(
            f"`rpc_backend_options` must be a `TensorPipeRpcBackendOptions`. {rpc_backend_options}"
        )
    if not world_size:
        return join_group(store, name, rank, rpc_backend_options)
    worker = current_worker()
    # Those who were in the group with an earlier process of this rank do not meet again.
    group = rejoin_group(store, name, rank) if worker.incarnation else None
    if group is None:
        tell_devices(store, name, rank, rpc_backend_options)
        members = gather_group(store, name, rank, world_size)
        devices = check_device_maps(store, members.infos, name)
    else:
        members = group
        devices = check_device_maps(store, members.infos, name)
    agent = RpcAgent(
        worker,
        info=members.infos[rank],
        store=store,
        members=members,
        num_worker_threads=rpc_backend_options.num_worker_threads,
        rpc_timeout_s=rpc_backend_options.rpc_timeout,
    )
    agent.use_devices(devices)
    try:
        _init_rpc_states(agent)
        if group is None:
            store.barrier("started", world_size)
            if not worker.world.connected:
                _start_barrier(rpc_backend_options.rpc_timeout)
                # Nobody may leave before the leader has told everybody.
                store.barrier("ready", world_size)
    except BaseException:
        agent.shutdown()
        worker.reset_agent()
        raise
    return agent


_THIS_ENGINE = BackendValue(_construct_options, _init_backend)
_SQUALL = BackendValue(
    lambda *args, **kwargs: _construct_options(*args, **kwargs),
    lambda **kwargs: _init_backend(**kwargs),
)
_DEFAULT_TYPE = _enum({"TENSORPIPE": _THIS_ENGINE, "SQUALL": _SQUALL})


def _backend_type() -> Any:
    worker = current_worker_or_none()
    if worker is None:
        return _DEFAULT_TYPE
    return rpc_state(worker).backend_type or _DEFAULT_TYPE


def __getattr__(name: str) -> Any:
    if name == "BackendType":
        return _backend_type()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_backend(value: object) -> bool:
    """Whether ``value`` is a member of ``BackendType``, of this or an earlier state of it."""
    return isinstance(value, enum.Enum) and isinstance(value.value, BackendValue)


def backend_registered(backend_name: str) -> bool:
    return backend_name in _backend_type().__members__


def register_backend(
    backend_name: str,
    construct_rpc_backend_options_handler: Callable[..., Any],
    init_backend_handler: Callable[..., Any],
) -> Any:
    """Add a backend on this worker and give its member of ``BackendType``.

    ``init_backend_handler`` is given ``store``, ``name``, ``rank``, ``world_size`` and
    ``rpc_backend_options`` by name and returns the agent. Raises RuntimeError for a name that
    is taken.
    """
    if backend_registered(backend_name):
        raise RuntimeError(f"RPC backend {backend_name}: already registered")
    members = {member.name: member.value for member in _backend_type()}
    value = BackendValue(construct_rpc_backend_options_handler, init_backend_handler)
    extended = _enum({**members, backend_name: value})
    rpc_state(current_worker()).backend_type = extended
    return extended[backend_name]


def construct_rpc_backend_options(
    backend: Any,
    rpc_timeout: float = DEFAULT_RPC_TIMEOUT_S,
    init_method: str = DEFAULT_INIT_METHOD,
    **kwargs: Any,
) -> RpcBackendOptions:
    options: RpcBackendOptions = backend.value.construct_rpc_backend_options_handler(
        rpc_timeout, init_method, **kwargs
    )
    return options


def init_backend(backend: Any, *args: Any, **kwargs: Any) -> Any:
    """Make and start the agent of a backend; see :func:`register_backend`."""
    return backend.value.init_backend_handler(*args, **kwargs)
