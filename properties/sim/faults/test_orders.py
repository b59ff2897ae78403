"""Every order in which the messages of a small story can arrive, delivered by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import torch

from squall.real import tracing
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.py_rref import RRef
from squall.sim.cluster import Cluster
from squall.sim.world.garbage import settle, still_garbage

NO_TIMEOUT = 0.0


#: a message, told apart from all others of its run: source, destination, type, id
Key = tuple[int, int, int, int]


class Step:
    """One choice: which of the messages that were held then was delivered.

    ``asleep`` are those that need not be tried first here: an order in which they are was tried,
    and it is the same but for deliveries on different workers, which know nothing of each other.
    """

    def __init__(self, held: list[Key], asleep: set[Key]) -> None:
        self.left = [key for key in held if key not in asleep]
        self.asleep = asleep
        self.chosen: Key | None = None

    def choose(self) -> Key | None:
        """The next message to try, or None if there is no other one."""
        if self.chosen is not None:
            self.asleep.add(self.chosen)
        self.chosen = self.left.pop(0) if self.left else None
        return self.chosen

    def asleep_after(self) -> set[Key]:
        assert self.chosen is not None
        return {key for key in self.asleep if key[1] != self.chosen[1]}


def orders(
    story: Callable[[], Any], workers: int, check: Callable[[Any, Cluster], None]
) -> Iterator[tuple[Key, ...]]:
    """Run ``story`` on worker 0 once for each order of deliveries, and ``check`` what it gives.

    Whenever nothing else can happen at this instant one of the messages that are held is
    delivered, which is the choice. Of orders that differ only in what comes first on different
    workers, one is tried (sleep sets: Godefroid, Partial-Order Methods).
    """
    steps: list[Step] = []
    with still_garbage():
        while True:
            settle()
            if _run_once(story, workers, check, steps):
                yield tuple(step.chosen for step in steps if step.chosen is not None)
            while steps and steps[-1].choose() is None:
                steps.pop()
            if not steps:
                return


def _run_once(
    story: Callable[[], Any],
    workers: int,
    check: Callable[[Any, Cluster], None],
    steps: list[Step],
) -> bool:
    """Repeat the choices made so far and go on to the end; False if that was tried already."""
    result: list[Any] = []
    depth = 0
    with Cluster(workers, rpc_timeout_s=NO_TIMEOUT) as cluster:
        cluster.run(lambda rank: None, shutdown=False)
        runtime, network = cluster.runtime, cluster.network
        held = network.hold(where=lambda message: message.src != message.dst)
        runtime.spawn(lambda: result.append(story()), name="story", worker=cluster.workers[0])
        while True:
            runtime.run(max_time_s=runtime.now())  # the time stands still: nothing is sent again
            messages = {(m.src, m.dst, int(m.type), m.id): m for m in held.messages}
            if not messages:
                break
            if depth == len(steps):
                steps.append(Step(list(messages), steps[-1].asleep_after() if steps else set()))
                steps[-1].choose()
            chosen = steps[depth].chosen
            if chosen is None:
                return False
            depth += 1
            held.deliver(messages[chosen])
        held.release()
        assert result, "the story came to no end"
        cluster.settle()
        check(result[0], cluster)
        cluster.shutdown()
    return True


def nothing_is_left(cluster: Cluster) -> None:
    for event in cluster.trace.of(tracing.TABLES_COUNTED):
        assert event.values == (0,) * 8


def make() -> str:
    return "a value"


def fetch(rref: RRef[Any]) -> Any:
    return rref.to_here()


def test_no_order_is_left_out() -> None:
    """Three calls: six orders on the worker that is called, times six of the replies here."""
    logs = set()

    def story() -> list[int]:
        log.clear()
        calls = [rpc.rpc_async("worker1", note, args=(n,)) for n in range(3)]
        return [call.wait() for call in calls]

    def check(values: Any, cluster: Cluster) -> None:
        assert values == [0, 1, 2]
        logs.add(tuple(log))

    found = list(orders(story, 2, check))
    assert logs == set(permutations(range(3)))
    assert len(found) == 36


log: list[int] = []


def note(what: int) -> int:
    log.append(what)
    return what


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
SHARED = 150
DIAMOND = 288
