"""Every order in which the messages of a small story can arrive, delivered by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from real import tracing
from real.autograd import api as dist_autograd
from real.rpc import api as rpc
from real.rpc.py_rref import RRef
from sim.cluster import Cluster

NO_TIMEOUT = 0.0


def orders(
    story: Callable[[], Any], workers: int, check: Callable[[Any, Cluster], None]
) -> Iterator[tuple[int, ...]]:
    """Run ``story`` on worker 0 once for each order of deliveries, and ``check`` what it gives.

    Whenever nothing else can happen at this instant one of the messages that are held is delivered, which is
    the choice; an order is the list of choices. Depth first, so no order comes twice.
    """
    choices: list[tuple[int, int]] = []
    while True:
        path = _run_once(story, workers, check, choices)
        yield tuple(at for at, _ in path)
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return
        at, among = path[-1]
        choices = [*path[:-1], (at + 1, among)]


def _run_once(
    story: Callable[[], Any],
    workers: int,
    check: Callable[[Any, Cluster], None],
    choices: list[tuple[int, int]],
) -> list[tuple[int, int]]:
    path: list[tuple[int, int]] = []
    result: list[Any] = []
    with Cluster(workers, rpc_timeout_s=NO_TIMEOUT) as cluster:
        cluster.run(lambda rank: None, shutdown=False)
        runtime, network = cluster.runtime, cluster.network
        held = network.hold(where=lambda message: message.src != message.dst)
        runtime.spawn(lambda: result.append(story()), name="story", worker=cluster.workers[0])
        while True:
            runtime.run(max_time_s=runtime.now())  # the time stands still: nothing is sent again
            messages = held.messages
            if not messages:
                break
            at = choices[len(path)][0] if len(path) < len(choices) else 0
            path.append((at, len(messages)))
            held.deliver(messages[at])
        held.release()
        assert result, "the story came to no end"
        cluster.settle()
        check(result[0], cluster)
        cluster.shutdown()
    return path


def nothing_is_left(cluster: Cluster) -> None:
    for event in cluster.trace.of(tracing.TABLES_COUNTED):
        assert event.values == (0,) * 8


def make() -> str:
    return "a value"


def fetch(rref: RRef[Any]) -> Any:
    return rref.to_here()


def test_a_reference_that_is_shared_with_a_third_worker() -> None:
    """Creation, fork request, acceptance, fetch and deletes, in every order they can have."""

    def story() -> Any:
        rref = rpc.remote("worker1", make)
        call = rpc.rpc_async("worker2", fetch, args=(rref,))
        del rref
        return call.wait()

    def check(value: Any, cluster: Cluster) -> None:
        assert value == "a value"
        nothing_is_left(cluster)

    found = list(orders(story, 3, check))
    assert len(set(found)) == len(found)
    assert len(found) == SHARED


def test_gradients_that_come_back_by_two_ways() -> None:
    """A diamond over two workers: backward, and the release of the context, in every order."""

    def story() -> float:
        x = torch.ones(1, requires_grad=True)
        with dist_autograd.context() as context_id:
            ways = [rpc.rpc_async(f"worker{n}", scale, args=(x, float(n))) for n in (1, 2)]
            total = ways[0].wait() + ways[1].wait()
            dist_autograd.backward(context_id, [total.sum()])
            return float(dist_autograd.get_gradients(context_id)[x])

    def check(gradient: Any, cluster: Cluster) -> None:
        assert gradient == 3.0
        nothing_is_left(cluster)

    found = list(orders(story, 3, check))
    assert len(set(found)) == len(found)
    assert len(found) == DIAMOND


def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


#: how many orders there are: fingerprints of the protocol, which change when it does
SHARED = 0
DIAMOND = 0
