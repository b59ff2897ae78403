"""``torch.distributed.rpc._testing``: the backend that fails and delays messages on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.real.rpc import backend_registry
from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.constants import (
    DEFAULT_INIT_METHOD,
    DEFAULT_NUM_WORKER_THREADS,
    DEFAULT_RPC_TIMEOUT_S,
)
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.worker import current_worker
from squall.sim.world.faulty_sends import FaultySends
from squall.sim.world.network import Network

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace

BACKEND = "FAULTY_TENSORPIPE"


class FaultyTensorPipeRpcBackendOptions(TensorPipeRpcBackendOptions):
    """Which messages fail, how often each, and which are delayed by how many seconds.

    Messages are named by their type, as in :class:`~squall.real.rpc.message_type.MessageType`. Raises
    RuntimeError for a negative ``num_fail_sends``.
    """

    def __init__(
        self,
        *,
        messages_to_fail: Sequence[str],
        messages_to_delay: Mapping[str, float],
        num_fail_sends: int = 0,
        num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = DEFAULT_RPC_TIMEOUT_S,
        init_method: str = DEFAULT_INIT_METHOD,
    ) -> None:
        super().__init__(
            num_worker_threads=num_worker_threads, rpc_timeout=rpc_timeout, init_method=init_method
        )
        if num_fail_sends < 0:
            raise RuntimeError("numFailSends should be non-negative")
        self.messages_to_fail = list(messages_to_fail)
        self.messages_to_delay = dict(messages_to_delay)
        self.num_fail_sends = num_fail_sends


def construct_options(
    rpc_timeout: float,
    init_method: str,
    num_worker_threads: int,
    messages_to_fail: Sequence[str],
    messages_to_delay: Mapping[str, float],
    num_fail_sends: int,
    **_: Any,
) -> FaultyTensorPipeRpcBackendOptions:
    return FaultyTensorPipeRpcBackendOptions(
        num_worker_threads=num_worker_threads,
        rpc_timeout=rpc_timeout,
        init_method=init_method,
        messages_to_fail=messages_to_fail,
        messages_to_delay=messages_to_delay,
        num_fail_sends=num_fail_sends,
    )


def init_backend(
    store: Any, name: str, rank: int, world_size: int, rpc_backend_options: Any
) -> RpcAgent:
    """Start an ordinary agent whose messages this backend's rule judges, from the first one on.

    Raises TypeError for options of another backend.
    """
    if not isinstance(rpc_backend_options, FaultyTensorPipeRpcBackendOptions):
        raise TypeError(
            "`rpc_backend_options` must be a `FaultyTensorPipeRpcBackendOptions`. "
            f"{rpc_backend_options}"
        )
    network = current_worker().world
    assert isinstance(network, Network), "this backend needs the simulated network"
    options = rpc_backend_options
    rule = FaultySends(
        rank, options.num_fail_sends, options.messages_to_fail, options.messages_to_delay
    )
    network.add_rule(rule, group=store)
    return backend_registry._init_backend(store, name, rank, world_size, rpc_backend_options)


def make_testing(space: ModuleSpace) -> ModuleType:
    """The module; importing it registers the backend on this worker."""
    if not backend_registry.backend_registered(BACKEND):
        backend_registry.register_backend(BACKEND, construct_options, init_backend)
    module = ModuleType("torch.distributed.rpc._testing")
    module.__dict__.update(
        FaultyTensorPipeAgent=RpcAgent,
        FaultyTensorPipeRpcBackendOptions=FaultyTensorPipeRpcBackendOptions,
        is_available=lambda: True,
    )
    return module
