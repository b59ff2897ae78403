"""Passes, references and calls of four workers, two threads each, while guests come and leave."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from squall.properties.support.stress.workers import ThreadWorkers, options
from squall.properties.support.waiting import wait_for
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.runtime import run_as
from squall.real.worker import Worker, current_worker

_RESIDENTS = 4
_THREADS = 2


def scale(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    return tensor * factor


def through(rref: Any, factor: float) -> torch.Tensor:
    value: torch.Tensor = rref.to_here()
    return value * factor


def relay(to: int, rref: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Hands a reference on, which makes a fork of a fork, and goes on through it."""
    value: torch.Tensor = rpc.rpc_sync(to, through, args=(rref, 2.0))
    return value + tensor


def one_pass(rank: int, number: int) -> str | None:
    """A pass that meets itself on every worker; what is wrong with its gradient."""
    x = torch.tensor([rank + 1.0, number + 1.0], dtype=torch.float64, requires_grad=True)
    with autograd.context() as context_id:
        others = [(rank + j) % _RESIDENTS for j in range(_RESIDENTS)]
        parts = [rpc.rpc_async(to, scale, args=(x, j)) for j, to in enumerate(others)]
        kept = rpc.remote(others[1], scale, args=(x, 5.0))
        loss = rpc.rpc_sync(others[2], relay, args=(others[3], kept, x)).sum()
        loss = loss + sum(part.wait().sum() for part in parts)
        autograd.backward(context_id, [loss])
        found = autograd.get_gradients(context_id)[x].tolist()
    # 0 + 1 + 2 + 3 from the calls, 2 * 5 through the reference and 1 beside it
    return None if found == [17.0, 17.0] else f"worker {rank}, pass {number}: {found}"


def resident(rank: int, passes: int) -> list[str]:
    """Two threads of passes; what went wrong in them."""
    worker = current_worker()
    wrong: list[str] = []

    def work(thread: int) -> None:
        with run_as(worker.task()):
            for number in range(thread, passes, _THREADS):
                try:
                    complaint = one_pass(rank, number)
                except Exception as error:
                    complaint = f"worker {rank}, pass {number}: {type(error).__name__}: {error}"
                if complaint is not None:
                    wrong.append(complaint)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def guest(rank: int, leave: Callable[[], object]) -> None:
    """Leaves with a context open, with references, and with calls that nobody has answered."""
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    context = autograd._new_context()
    kept = [rpc.remote(to, scale, args=(x, 1.0)) for to in range(_RESIDENTS)]
    loss = sum(rref.to_here().sum() for rref in kept)
    autograd.backward(context.context_id, [loss])
    calls = [rpc.rpc_async(to, scale, args=(x, 3.0)) for to in range(_RESIDENTS)]
    leave()
    for call in calls:
        call.block()


def visits(guests: int, passes: int) -> list[str]:
    """What went wrong: wrong gradients, errors, and what is left on a resident at the end."""
    size = _RESIDENTS + guests
    world = ThreadWorkers([None] * size)
    together = threading.Barrier(_RESIDENTS)
    turns = [threading.Event() for _ in range(guests + 1)]
    turns[0].set()

    def process(rank: int) -> list[str]:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=options())
        if rank < _RESIDENTS:
            wrong = resident(rank, passes)
            turns[-1].wait()
            together.wait()
            wrong += left_on(world.workers[rank], guests)
            together.wait()
            rpc.shutdown(graceful=False)
            return wrong
        turn = rank - _RESIDENTS
        turns[turn].wait()
        try:
            guest(rank, lambda: rpc.shutdown(graceful=False))
        finally:
            turns[turn + 1].set()
        return []

    return [line for lines in world.run(process) for line in lines]  # type: ignore[attr-defined]


def left_on(worker: Worker, guests: int) -> list[str]:
    """What a worker still has when nothing is under way any more; waits for that.

    A value for each guest is no leftover: it left with a reference to it.
    """
    agent, references = worker.agent, worker.rref_context
    container, engine = worker.container, worker.engine
    assert agent and references and container and engine

    def counts() -> dict[str, int]:
        info = {**references.get_debug_info(), **agent.get_debug_info()}
        return {
            "contexts": container.num_autograd_contexts(),
            "passes": engine.num_backward_passes(),
            "owners": int(info["num_owner_rrefs"]) - guests,
            "forks": int(info["num_forks"]) - guests,
            "users": int(info["num_pending_users"]),
            "control messages": int(info["num_pending_futures"]),
            "calls made": int(info["agent.client_active_calls"]),
            "calls served": int(info["agent.server_active_calls"]),
        }

    try:
        wait_for(lambda: not any(counts().values()), "an empty worker")
    except AssertionError:
        return [f"left on {worker.name}: {counts()}"]
    return []
