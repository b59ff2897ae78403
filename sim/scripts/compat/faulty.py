"""``torch.distributed.rpc._testing``: the backend that fails and delays messages on purpose.

What torch's faulty agent does as it sends (testing/faulty_tensorpipe_agent.cpp) is a rule of the
simulated network here.
"""

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
from squall.real.rpc.errors import RpcErrorKind, make_rpc_error
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.worker import current_worker
from squall.sim.world.network import Network
from squall.sim.world.rules import Delay, Fail, Verdict

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


class FaultySends:
    """The rule of one worker: its first sends of a request fail, others come late.

    A request that is sent again is known by its payload.
    """

    def __init__(self, worker_id: int, options: FaultyTensorPipeRpcBackendOptions) -> None:
        self.worker_id = worker_id
        self.num_fail_sends = options.num_fail_sends
        self._to_fail = {_type(name): None for name in options.messages_to_fail}
        self._delays = {
            _type(name): Delay(seconds) for name, seconds in options.messages_to_delay.items()
        }
        self._failed: dict[bytes, int] = {}

    def __call__(self, message: Message) -> Verdict | None:
        if message.src != self.worker_id:
            return None
        if message.type in self._to_fail:
            count = self._failed.get(message.payload, 0)
            if count < self.num_fail_sends:
                self._failed[message.payload] = count = count + 1
                text = f"Send attempt {count} failed intentionally for {message!r}"
                return Fail(str(make_rpc_error(text, RpcErrorKind.INTENTIONAL)))
        return self._delays.get(message.type)


def _type(name: str) -> MessageType:
    """Raises ValueError for a name that no type of message has."""
    try:
        return MessageType[name]
    except KeyError:
        raise ValueError(f"No such message type: {name}") from None


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
    network.add_rule(FaultySends(rank, rpc_backend_options), group=store)
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
