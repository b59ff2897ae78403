"""Who embeds a worker may step in on it: here on real threads, without any simulator."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
import torch

from squall.real.autograd import api as dist_autograd
from squall.real.interceptor import Interceptor, Place
from squall.real.rpc import api as rpc
from squall.real.rpc.message import Message
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.transport import QueueWorld
from squall.real.runtime import TaskOwner, run_as
from squall.real.threads import ThreadRuntime
from squall.real.worker import Worker


class Quota(Interceptor):
    """Lets a worker call so many functions of its users, and notes everything."""

    def __init__(self, functions: int) -> None:
        self.left = functions
        self.places: list[Place] = []
        self.done_with: SimpleQueue[str] = SimpleQueue()

    def at(self, worker: TaskOwner, place: Place) -> None:
        self.places.append(place)
        if place == "udf":
            if not self.left:
                raise PermissionError(f"{worker.name} has called enough")
            self.left -= 1

    def handled(self, worker: TaskOwner, message: Message) -> None:
        self.done_with.put(f"{message.type.name} on {worker.name}")


def alone(interceptor: Interceptor, main: Callable[[], Any]) -> Any:
    """What ``main`` returns on the only worker of a group."""
    runtime = ThreadRuntime()
    worker = Worker(runtime, QueueWorld(runtime), name="alone")
    worker.interceptor = interceptor
    try:
        with run_as(worker.task()):
            options = TensorPipeRpcBackendOptions(init_method="queue://alone")
            rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
            try:
                return main()
            finally:
                rpc.shutdown(graceful=False)
    finally:
        runtime.close()


def test_an_interceptor_may_refuse_a_call_and_is_told_when_a_message_is_done_with() -> None:
    quota = Quota(functions=1)

    def main() -> list[str]:
        assert rpc.rpc_sync("alone", max, args=(1, 2)) == 2
        with pytest.raises(RuntimeError, match="alone has called enough"):
            rpc.rpc_sync("alone", max, args=(3, 4))
        return sorted(quota.done_with.get(timeout=60) for _ in range(4))

    done_with = alone(quota, main)
    assert quota.places == ["pickle", "unpickle", "udf", "pickle", "unpickle"] * 2
    assert done_with == ["PYTHON_CALL on alone"] * 2 + ["PYTHON_RET on alone"] * 2


def test_what_is_raised_at_a_node_or_its_hooks_ends_the_pass() -> None:
    class Refusal(Interceptor):
        def __init__(self, refused: Place) -> None:
            self.refused = refused

        def at(self, worker: TaskOwner, place: Place) -> None:
            if place == self.refused:
                raise PermissionError(f"no {place} on {worker.name}")

    def main() -> None:
        x = torch.ones(1, requires_grad=True)
        y = 2 * x
        y.register_hook(lambda grad: None)
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [y.sum()])

    alone(Refusal("udf"), main)
    for refused in ("node", "hook"):
        with pytest.raises(RuntimeError, match=f"no {refused} on alone"):
            alone(Refusal(refused), main)
