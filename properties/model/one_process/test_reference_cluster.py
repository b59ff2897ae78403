"""The oracle looks at real passes: it agrees with them, sees what is wrong, and leaves no trace."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from squall.model.events.graph import message_graph, unanswered
from squall.model.one_process.reference import GradientSummary
from squall.real.autograd import api as dist_autograd
from squall.real.autograd.context import DistAutogradContext
from squall.real.autograd.graph_task import GraphTask
from squall.real.rpc import api as rpc
from squall.real.runtime import current_task
from squall.real.tracing import PASS_ENDED
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.world import scheduler
from squall.sim.world.reference_hook import attach, joint_reference


def play(
    main: Callable[[int], Any], *, workers: int = 3, observe: bool = True, **options: Any
) -> tuple[GradientSummary, Cluster]:
    reference = joint_reference(exact=options.pop("exact", False))
    options.setdefault("latency", "lognormal:0.001:0.5")
    with Cluster(workers, observer=reference if observe else None, **options) as cluster:
        attach(reference, cluster.runtime)
        cluster.run(main)
        assert reference._contexts == {}
        return reference.summary(), cluster


def integers(count: int) -> Tensor:
    """Integer-valued float64: every order of summation gives the same bits."""
    return torch.arange(1.0, count + 1, dtype=torch.float64).requires_grad_()


def weight() -> Tensor:
    """One parameter for each worker."""
    found: Tensor = current_worker().locals.setdefault("weight", integers(3))
    return found


def hop(x: Tensor, left: int) -> Tensor:
    y = x * weight()
    if left == 0:
        return y
    to = f"worker{(current_worker().id + 1) % 3}"
    there: Tensor = rpc.rpc_sync(to, hop, args=(y, left - 1))
    return there + y


def nested(rank: int) -> None:
    if rank == 0:
        for depth in range(5):
            with dist_autograd.context() as cid:
                dist_autograd.backward(cid, [hop(integers(3), depth).sum()])


def concurrent(rank: int) -> None:
    """All workers at once, each through the parameters of all."""
    for depth in (1, 3, 4):
        with dist_autograd.context() as cid:
            dist_autograd.backward(cid, [hop(integers(3), depth).sum()])


def several_passes(rank: int) -> None:
    if rank != 0:
        return
    with dist_autograd.context() as cid:
        y = hop(integers(3), 2)
        dist_autograd.backward(cid, [y[0], y[1]], retain_graph=True)
        dist_autograd.backward(cid, [y.sum()], retain_graph=True)
        dist_autograd.backward(cid, [y[2]])


def pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a * weight(), b * 2


def unused_outputs(rank: int) -> None:
    if rank == 0:
        with dist_autograd.context() as cid:
            a, b = integers(3), integers(3)
            _, used = rpc.rpc_sync("worker1", pair, args=(a, b))
            dist_autograd.backward(cid, [used.sum()])
            assert dist_autograd.get_gradients(cid)[a].tolist() == [0.0, 0.0, 0.0]


def in_place(rank: int) -> None:
    if rank == 0:
        with dist_autograd.context() as cid:
            x = integers(3) * 2
            y = rpc.rpc_async("worker1", hop, args=(x, 0))
            x.add_(5).mul_(3)
            z = y.wait()
            z *= 2
            z[0] += x[1]
            dist_autograd.backward(cid, [z.sum() + x.sum()])


def embed(indices: Tensor) -> Tensor:
    found: nn.Embedding = current_worker().locals.setdefault(
        "embedding", nn.Embedding(10, 2, sparse=True, dtype=torch.float64)
    )
    with torch.no_grad():
        found.weight.copy_(torch.arange(20.0).reshape(10, 2))
    result: Tensor = found(indices)
    return result


def sparse(rank: int) -> None:
    if rank == 0:
        for _ in range(2):
            with dist_autograd.context() as cid:
                first = rpc.rpc_sync("worker1", embed, args=(torch.tensor([1, 1, 3]),))
                second = rpc.rpc_sync("worker1", embed, args=(torch.tensor([3, 7]),))
                loss = first.sum() * 2 + (second * second).sum()
                dist_autograd.backward(cid, [loss], retain_graph=True)
                dist_autograd.backward(cid, [first.sum(), second.sum()])


@pytest.mark.parametrize("order", ["fifo", "random"])
@pytest.mark.parametrize(
    "main", [nested, concurrent, several_passes, unused_outputs, in_place, sparse]
)
def test_the_gradients_of_a_cluster_are_those_of_one_process(
    main: Callable[[int], None], order: str
) -> None:
    for seed in range(3):
        summary, cluster = play(main, order=order, seed=seed, exact=True)
        assert summary.mismatches == []
        assert summary.not_comparable == []
        assert summary.compared == summary.passes > 0
        assert summary.max_deviation == 0.0
        again = play(main, order=order, seed=seed, observe=False)[1]
        assert again.trace.digest() == cluster.trace.digest()


class Double(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        Double.calls += 1
        return grad * 2


log: list[str] = []


def hooked(x: Tensor) -> Tensor:
    y = x * weight()
    y.register_hook(lambda grad: log.append("product") or grad * 3)
    return Double.apply(y)  # type: ignore[no-any-return]


def with_hooks(rank: int) -> None:
    if rank == 0:
        x = integers(3)
        x.register_hook(lambda grad: log.append("leaf") or grad * 5)
        node = x.expand_as(x).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        node.register_prehook(lambda grads: log.append("pre") or (grads[0] * 7,))
        x.register_post_accumulate_grad_hook(lambda x: log.append("never"))
        with dist_autograd.context() as cid:
            y = rpc.rpc_sync("worker1", hooked, args=(x,))
            y.retain_grad()
            y.register_hook(lambda grad: log.append("received"))
            dist_autograd.backward(cid, [y.sum()])
            assert y.grad is not None


def test_hooks_and_custom_functions_run_once() -> None:
    log.clear()
    Double.calls = 0
    summary, _ = play(with_hooks)
    assert (summary.mismatches, summary.not_comparable) == ([], [])
    assert summary.compared == 1
    assert log == ["received", "product", "leaf", "pre"]
    assert Double.calls == 1


def calling_back(rank: int) -> None:
    if rank == 0:
        with dist_autograd.context() as cid:
            y = rpc.rpc_sync("worker1", hop, args=(integers(3), 0))
            y.register_hook(lambda grad: rpc.rpc_sync("worker2", torch.mul, args=(grad, 2)))
            dist_autograd.backward(cid, [y.sum()])


def test_a_hook_that_calls_other_workers_makes_a_pass_incomparable() -> None:
    summary, _ = play(calling_back)
    assert summary.mismatches == []
    (reason,) = summary.not_comparable
    assert "a task waits, but nobody runs the simulation" in reason
    assert summary.equal is None


def test_a_broken_engine_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    accumulate = DistAutogradContext.accumulate_grad

    def forgetful(
        self: DistAutogradContext, graph_task: GraphTask, variable: Tensor, grads: list[Tensor]
    ) -> bool:
        return current_worker().id == 1 or accumulate(self, graph_task, variable, grads)

    monkeypatch.setattr(DistAutogradContext, "accumulate_grad", forgetful)
    summary, _ = play(nested)
    assert not summary.equal
    assert "no worker has a gradient, expected one" in summary.mismatches[0]

    def twice(
        self: DistAutogradContext, graph_task: GraphTask, variable: Tensor, grads: list[Tensor]
    ) -> bool:
        accumulate(self, graph_task, variable, [grads[0].clone()])
        return accumulate(self, graph_task, variable, grads)

    monkeypatch.setattr(DistAutogradContext, "accumulate_grad", twice)
    summary, _ = play(nested)
    assert "element [0] is 2.0, expected 1.0" in summary.mismatches[0]


def test_the_messages_of_a_run_make_a_graph() -> None:
    _, cluster = play(nested)
    contexts = {e["context"]: None for e in cluster.trace if "context" in e.type.fields}
    last = list(contexts)[-1]
    graph = message_graph(cluster.trace, last)
    # Four calls there and four results back, round the circle of three.
    assert graph.number_of_edges() == 8
    assert all(complete for _, _, complete in graph.edges(data="complete"))
    assert unanswered(cluster.trace, last) == []


def backward_of_plain_torch(rank: int) -> None:
    if rank == 0:
        with dist_autograd.context():
            x = integers(3)
            y = rpc.rpc_sync("worker1", hop, args=(x, 0))
            with pytest.raises(RuntimeError, match="this graph came from another worker"):
                y.sum().backward()
            assert x.grad is None


@pytest.mark.parametrize("observe", [True, False])
def test_plain_backward_does_not_leave_its_worker(observe: bool) -> None:
    # With and without the reference; stock PyTorch refuses with an internal assertion.
    play(backward_of_plain_torch, observe=observe)


def test_always_forking_comes_to_the_same() -> None:
    reference = joint_reference(fork_always=True, exact=True)
    with Cluster(3, observer=reference) as cluster:
        cluster.run(nested)
    summary = reference.summary()
    assert (summary.equal, summary.compared, summary.mismatches) == (True, 5, [])


def unreleased(rank: int) -> None:
    """What a worker leaves that ends in the middle of a context; the graph leads to its module."""
    if rank == 0:
        cid = dist_autograd._new_context().context_id
        x = integers(3)
        y = hop(x, 2)
        dist_autograd.backward(cid, [y.sum()])
        current_worker().locals["kept"] = x, y


def test_a_run_that_leaves_a_context_is_freed() -> None:
    """No collector looks into the graph, which leads from what was sent to who watches."""
    reference = joint_reference()
    with Cluster(3, observer=reference) as cluster:
        cluster.run(unreleased, shutdown=False)
    assert reference._contexts != {}
    watched = weakref.ref(reference)
    del reference, cluster
    gc.collect()
    assert watched() is None


def slow_back(x: Tensor) -> Tensor:
    y = x * weight()
    y.register_hook(lambda grad: current_task().runtime.sleep(1.0))
    return y


def relay(x: Tensor) -> Tensor:
    result: Tensor = rpc.rpc_sync("worker2", slow_back, args=(x,))
    return result


def micro_batches(rank: int) -> None:
    """Gradients of several messages reach worker1 at once, and all of them go on to worker2."""
    if rank == 0:
        for _ in range(5):
            with dist_autograd.context() as cid:
                calls = [rpc.rpc_async("worker1", relay, args=(integers(3),)) for _ in range(4)]
                dist_autograd.backward(cid, [torch.stack([c.wait() for c in calls]).sum()])


def test_a_pass_waits_for_what_any_message_of_it_has_set_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # While the first message is still starting the pass, the second may have sent gradients.
    monkeypatch.setattr(scheduler, "PREEMPTION", 0.5)
    for seed in range(40):
        _, cluster = play(micro_batches, order="random", seed=seed, latency="0", observe=False)
        ended = [event.worker for event in cluster.trace.of(PASS_ENDED)]
        assert ended == [2, 1, 0] * 5, seed
