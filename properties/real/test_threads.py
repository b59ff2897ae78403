"""The same engine on real threads: workers in one process, messages through queues."""

from __future__ import annotations

import sys
import threading

import pytest
import torch

from squall.real.autograd import api as dist_autograd
from squall.real.autograd.functions import SendRpcBackward
from squall.real.autograd.messages import AutogradMetadata, PropagateGradientsReq
from squall.real.ids import IdSource
from squall.real.rpc import api as rpc
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.transport import QueueWorld
from squall.real.runtime import run_as
from squall.real.threads import ThreadRuntime
from squall.real.worker import Worker, current_worker


def on_threads(size: int, main) -> list[object]:  # type: ignore[no-untyped-def]
    """Run ``main(rank)`` on ``size`` workers, each on a thread of its own."""
    runtime = ThreadRuntime()
    world = QueueWorld(runtime)
    results: list[object] = [None] * size
    errors: list[BaseException] = []

    def process(rank: int) -> None:
        worker = Worker(runtime, world, name=f"worker{rank}")
        with run_as(worker.task()):
            try:
                rpc.init_rpc(
                    f"worker{rank}",
                    rank=rank,
                    world_size=size,
                    rpc_backend_options=TensorPipeRpcBackendOptions(init_method="queue://test"),
                )
                results[rank] = main(rank)
                rpc.shutdown()
            except BaseException as error:
                errors.append(error)
                raise

    threads = [threading.Thread(target=process, args=(r,), daemon=True) for r in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    alive = [thread for thread in threads if thread.is_alive()]
    runtime.close()
    if errors:
        raise errors[0]
    assert not alive, "a worker hangs"
    return results


def scale(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    return tensor * factor


def relay(to: str, tensor: torch.Tensor) -> torch.Tensor:
    return rpc.rpc_sync(to, scale, args=(tensor, 3.0)) + 1


def test_a_step_through_three_workers_on_threads() -> None:
    def main(rank: int) -> object:
        if rank != 0:
            return None
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with dist_autograd.context() as context_id:
            remote = rpc.remote("worker2", scale, args=(x, 5.0))
            loss = (rpc.rpc_sync("worker1", relay, args=("worker2", x)) * remote.to_here()).sum()
            dist_autograd.backward(context_id, [loss])
            return dist_autograd.get_gradients(context_id)[x].tolist()

    # loss = sum((3x + 1) * 5x), so d loss / dx = 30x + 5
    assert on_threads(3, main)[0] == [35.0, 65.0]


def test_many_passes_at_once_on_threads() -> None:
    def main(rank: int) -> object:
        x = torch.tensor([float(rank + 1)], requires_grad=True)
        totals = []
        for _ in range(10):
            with dist_autograd.context() as context_id:
                y = rpc.rpc_sync(f"worker{(rank + 1) % 3}", scale, args=(x, 2.0))
                dist_autograd.backward(context_id, [(y * y).sum()])
                totals.append(dist_autograd.get_gradients(context_id)[x].item())
        return totals

    # d (2x)^2 / dx = 8x
    assert on_threads(3, main) == [[8.0 * (rank + 1)] * 10 for rank in range(3)]


class Model:
    def __init__(self) -> None:
        self.w = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w

    def grad(self, context_id: int) -> torch.Tensor:
        return dist_autograd.get_gradients(context_id)[self.w]


def doubled(x: torch.Tensor, hops: int, rank: int) -> torch.Tensor:
    """Two calls to the next worker at once, in one of which it goes on: 30x after three hops."""
    if hops == 0:
        return x * 2
    to = (rank + 1) % 4
    far = rpc.rpc_async(f"worker{to}", doubled, args=(x * 2, hops - 1, to))
    near = rpc.rpc_async(f"worker{to}", doubled, args=(x, 0, to))
    return far.wait() + near.wait()


@pytest.mark.deep("12 s of real threads")
def test_fifty_passes_of_four_workers_that_meet_on_every_worker() -> None:
    """Several first gradients of one pass arrive at once, and passes of all workers together."""

    def main(rank: int) -> object:
        model = rpc.remote(f"worker{(rank + 2) % 4}", Model)
        wrong: list[object] = []
        for number in range(50):
            x = torch.tensor([rank + 1.0, number + 1.0], dtype=torch.float64, requires_grad=True)
            with dist_autograd.context() as context_id:
                others = [
                    rpc.rpc_async(f"worker{(rank + j) % 4}", scale, args=(x, j)) for j in (1, 2, 3)
                ]
                loss = sum(other.wait().sum() for other in others)
                loss = loss + model.rpc_sync().forward(x).sum() + doubled(x, 3, rank).sum()
                dist_autograd.backward(context_id, [loss])
                mine = dist_autograd.get_gradients(context_id)[x].tolist()
                theirs = model.rpc_sync().grad(context_id).tolist()
            # 1 + 2 + 3 from the others, (2, 3) from the model, 30 from the calls in calls
            if mine != [38.0, 39.0] or theirs != x.tolist():
                wrong.append((number, mine, theirs))
        return wrong

    between = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert on_threads(4, main) == [[], [], [], []]
    finally:
        sys.setswitchinterval(between)


def race_of_two_gradients() -> tuple[int, list[float], int]:
    """Both gradients of a pass arrive at once: how many were answered, what came of them, and how
    many passes are left."""
    worker = current_worker()
    engine = worker.engine
    assert engine is not None
    context = dist_autograd._new_context()
    x = torch.tensor([1.0], requires_grad=True)
    sends = [SendRpcBackward([x * 2], 1), SendRpcBackward([x * 3], 1)]
    for message_id, send in enumerate(sends):
        context.add_send_function(send, message_id)
    pass_id = IdSource(1).next()
    together = threading.Barrier(2)
    answered: list[SendRpcBackward] = []

    def arrive(send: SendRpcBackward) -> None:
        with run_as(worker.task()):
            together.wait(10)
            metadata = AutogradMetadata(context.context_id, sends.index(send))
            request = PropagateGradientsReq(metadata, [torch.ones(1)], False, pass_id)
            engine.execute_send_function_async(context, send, request).wait()
            answered.append(send)

    threads = [threading.Thread(target=arrive, args=(send,)) for send in sends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    gradient = context.get_gradients()[x].tolist()
    dist_autograd._release_context(context.context_id)
    return len(answered), gradient, engine.num_backward_passes()


def test_two_first_gradients_of_a_pass_race() -> None:
    """Both may take themselves for the first on their worker: one begins the pass, one joins it."""
    between = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        (outcomes,) = on_threads(1, lambda rank: [race_of_two_gradients() for _ in range(200)])
    finally:
        sys.setswitchinterval(between)
    assert outcomes == [(2, [5.0], 0)] * 200
