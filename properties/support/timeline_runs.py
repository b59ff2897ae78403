"""Runs that the tests of pictures look at: small, and known to the last message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.message import Message
from squall.sim.cluster import Cluster
from squall.sim.pictures import Recording, recording
from squall.sim.world.rules import Drop, Rule

#: seconds that every message takes
LATENCY_S = 0.001


def scaled(x: Tensor, by: float) -> Tensor:
    """What a callee computes."""
    return x * by


def passed_on(x: Tensor, by: float, to: str) -> Tensor:
    """A callee that asks somebody else."""
    result: Tensor = rpc.rpc_sync(to, scaled, args=(x, by)) + x
    return result


def fetched(rref: object) -> Tensor:
    """A callee that is given an RRef of somebody else's."""
    value: Tensor = rref.to_here()  # type: ignore[attr-defined]
    return value


def step(last: int) -> None:
    """Forward over a chain of three workers, and back."""
    with dist_autograd.context() as context_id:
        x = torch.ones(3, requires_grad=True)
        y = rpc.rpc_sync("worker1", passed_on, args=(x, 2.0, f"worker{last}"))
        dist_autograd.backward(context_id, [(y * x).sum()])


def training(*, steps: int = 1, latency: str = f"constant:{LATENCY_S}", seed: int = 7) -> Recording:
    """Worker 0 trains over a chain of three workers, ``steps`` times."""

    def main(rank: int) -> None:
        if rank == 0:
            for _ in range(steps):
                step(2)

    with Cluster(3, seed=seed, latency=latency) as cluster:
        cluster.run(main)
    return recording(cluster, title="training", replay="squall replay training")


def confirmation() -> Recording:
    """Worker 0 passes an RRef of worker 2's to worker 1, which may use it once it is confirmed."""

    def main(rank: int) -> None:
        if rank == 0:
            rref = rpc.remote("worker2", scaled, args=(torch.ones(2), 2.0))
            rref.to_here()
            rpc.rpc_sync("worker1", fetched, args=(rref,))

    with Cluster(3, latency=f"constant:{LATENCY_S}") as cluster:
        cluster.run(main)
    return recording(cluster)


@contextmanager
def lost(cluster: Cluster, nth: int, type: str) -> Iterator[None]:
    """Lose the ``nth`` message (from 1) of a type from worker 0 to worker 1."""
    seen = 0

    def rule(message: Message) -> Drop | None:
        nonlocal seen
        if message.type.name == type and (message.src, message.dst) == (0, 1):
            seen += 1
            if seen == nth:
                return Drop("it was lost")
        return None

    added: Rule = rule
    cluster.network.add_rule(added)
    yield
    cluster.network.remove_rule(added)


def hanging() -> Recording:
    """Worker 0 waits for a call without a timeout whose request is lost."""

    def main(rank: int) -> None:
        if rank == 0:
            with lost(cluster, 1, "PYTHON_CALL"):
                rpc.rpc_sync("worker1", scaled, args=(torch.ones(2), 2.0), timeout=0)

    from squall.sim.world.deadlock import Deadlock

    with Cluster(2, latency=f"constant:{LATENCY_S}") as cluster:
        try:
            cluster.run(main)
        except Deadlock as deadlock:
            waits = tuple(deadlock.waits)
            return recording(cluster, waits=waits, outcome="deadlock", title="hanging")
    raise AssertionError("nobody waited for a call whose request was lost")


def large(workers: int, calls: int) -> Recording:
    """Every worker calls its neighbour ``calls`` times, one step of training in between."""

    def main(rank: int) -> None:
        neighbour = f"worker{(rank + 1) % workers}"
        for _ in range(calls):
            with dist_autograd.context() as context_id:
                x = torch.ones(2, requires_grad=True)
                y = rpc.rpc_sync(neighbour, scaled, args=(x, 2.0))
                dist_autograd.backward(context_id, [y.sum()])

    with Cluster(workers, seed=3, latency="lognormal:0.001:0.5") as cluster:
        cluster.run(main)
    return recording(cluster, title=f"{workers} workers", replay="squall replay large")
