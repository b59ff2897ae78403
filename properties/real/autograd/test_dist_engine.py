"""Backward passes over several workers: what ends them, what they leave, and in which order."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from squall.properties.support.one_worker import dist_backward, leaf, on_one_worker
from squall.real import tracing
from squall.real.autograd import api as dist_autograd
from squall.real.autograd.graph_task import NEEDED, GraphTask
from squall.real.autograd.messages import AutogradMetadata, PropagateGradientsReq
from squall.real.autograd.utils import add_recv_rpc_backward
from squall.real.ids import IdSource
from squall.real.rpc import api as rpc
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster


def multiply(a: Tensor, b: Tensor) -> Tensor:
    return a * b


def back_and_forth(a: Tensor, b: Tensor, left: int) -> Tensor:
    """Hops between two workers; at each, something is added that came earlier."""
    if left == 0:
        return a * b
    there: Tensor = rpc.rpc_sync(f"worker{left % 2}", back_and_forth, args=(a * b, b, left - 1))
    return there + a


class Fails(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise ValueError("no gradient today")


def fail_in_backward(a: Tensor) -> Tensor:
    result: Tensor = Fails.apply(a)  # type: ignore[no-untyped-call]
    return result


def at_worker_0(main: Callable[[], Any], workers: int = 2, **options: Any) -> Cluster:
    """Run ``main`` on worker 0 of a cluster; afterwards nobody may have anything left."""
    with Cluster(workers, **options) as cluster:
        cluster.run(lambda rank: main() if rank == 0 else None)
        for worker in cluster.workers:
            assert worker.engine is not None
            assert worker.engine.get_debug_info() == {
                "num_current_backward_passes": 0,
                "num_autograd_contexts": 0,
            }
    return cluster


@pytest.mark.parametrize("order", ["fifo", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_gradients_over_many_hops_and_passes(order: Any, seed: int) -> None:
    def local(a: Tensor, b: Tensor, left: int) -> Tensor:
        return a * b if left == 0 else local(a * b, b, left - 1) + a

    def main() -> None:
        a, b = leaf(3, dtype=torch.float64), leaf(3, dtype=torch.float64)
        expected = torch.autograd.grad(local(a, b, 5).sum(), [a, b])
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("worker1", back_and_forth, args=(a, b, 5)).sum()
            for passes in (1, 2):
                dist_autograd.backward(context_id, [loss], retain_graph=passes == 1)
                gradients = dist_autograd.get_gradients(context_id)
                assert torch.allclose(gradients[a], expected[0] * passes)
                assert torch.allclose(gradients[b], expected[1] * passes)
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                dist_autograd.backward(context_id, [loss])

    at_worker_0(main, order=order, seed=seed, latency="lognormal:0.001:0.5")


def test_an_error_names_every_worker_that_it_came_through() -> None:
    def main() -> None:
        x = leaf(3)
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("worker1", fail_in_backward, args=(x,)).sum()
            with pytest.raises(RuntimeError) as caught:
                dist_autograd.backward(context_id, [loss])
            assert str(caught.value) == "Error on Node 0: Error on Node 1: no gradient today"
        with dist_autograd.context() as context_id:  # a fresh context is not affected
            loss = rpc.rpc_sync("worker1", multiply, args=(x, x)).sum()
            dist_autograd.backward(context_id, [loss])
            assert torch.equal(dist_autograd.get_gradients(context_id)[x], 2 * x.detach())

    at_worker_0(main)


def test_a_failed_pass_keeps_nothing_of_its_caller() -> None:
    """What the caller had is freed with the error, and does not wait for a collection."""

    class Held:
        pass

    def fails(context_id: int, loss: Tensor) -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(RuntimeError, match="no gradient today"):
            dist_autograd.backward(context_id, [loss])
        return weakref.ref(held)

    def main() -> None:
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("worker1", fail_in_backward, args=(leaf(3),)).sum()
            assert fails(context_id, loss)() is None

    at_worker_0(main)


def test_a_pass_that_waits_for_ever_ends_with_its_context() -> None:
    # The first result is not used: its send function on worker 1 never gets gradients.
    def main() -> None:
        x = leaf(3)
        context = dist_autograd._new_context()
        context_id = context._context_id()
        rpc.rpc_sync("worker1", multiply, args=(x, x))
        loss = rpc.rpc_sync("worker1", multiply, args=(x, x)).sum()
        current_task().runtime.call_later(
            5.0,
            lambda: release(worker, context_id),
        )
        with pytest.raises(RuntimeError, match="was released while worker 0 waited for gradients"):
            dist_autograd.backward(context_id, [loss])
        current_task().autograd_context_id = -1

    def release(worker: Any, context_id: int) -> None:
        worker.runtime.spawn(
            worker.container.release_context, context_id, name="release", worker=worker
        )

    with Cluster(2, latency="constant:0.01") as cluster:
        worker = cluster.workers[0]
        cluster.run(lambda rank: main() if rank == 0 else None)
        for each in cluster.workers:
            assert each.engine is not None
            assert each.engine.num_backward_passes() == 0


@pytest.mark.parametrize("seed", range(40))
def test_a_send_function_that_is_dropped_as_a_pass_begins_is_not_waited_for(seed: int) -> None:
    """Between the moment in which the pass reads them and the one in which it is known to the context,
    nobody could tell it."""

    def main() -> None:
        runtime = current_task().runtime
        with dist_autograd.context() as context_id:
            x = leaf(3)
            rpc.rpc_sync("worker1", multiply, args=(x, x))  # no gradients come for it
            context = dist_autograd._retrieve_context(context_id)
            (message,) = context.send_functions()
            drop = (context.drop_send_function, message, "of a test")
            runtime.spawn(*drop, name="drop", worker=current_worker())
            error = None
            try:
                dist_autograd.backward(context_id, [x.sum()])
            except RuntimeError as raised:
                error = str(raised)
            if error is None:  # it was dropped before
                assert torch.equal(dist_autograd.get_gradients(context_id)[x], torch.ones(3))
            else:
                assert "will come from worker 1: of a test" in error

    at_worker_0(main, order="random", seed=seed)


def test_gradients_of_a_pass_that_is_over_are_refused() -> None:
    def main() -> None:
        with dist_autograd.context() as context_id:
            x = leaf(3)
            loss = rpc.rpc_sync("worker0", multiply, args=(x, x)).sum()
            engine = current_worker().engine
            assert engine is not None
            earlier = engine._pass_ids.next()
            dist_autograd.backward(context_id, [loss], retain_graph=True)
            context = dist_autograd._retrieve_context(context_id)
            assert context.latest_pass is not None and context.latest_pass > earlier
            send = next(iter(context.send_functions().values()))
            for old in (earlier, context.latest_pass):
                metadata = AutogradMetadata(context_id, 0)
                late = PropagateGradientsReq(metadata, [torch.ones(3)], True, old)
                with pytest.raises(RuntimeError, match="is over on worker 0"):
                    engine.execute_send_function_async(context, send, late)
            dist_autograd.backward(context_id, [loss])  # and the next pass is not disturbed

    at_worker_0(main, workers=1)


def test_a_new_pass_overtakes_one_that_lost_its_root() -> None:
    def main() -> None:
        engine = current_worker().engine
        assert engine is not None
        with dist_autograd.context() as context_id:
            context = dist_autograd._retrieve_context(context_id)
            x = leaf(3)
            for _ in range(2):
                rpc.rpc_sync("worker1", multiply, args=(x * 1, x))
            first, second = context.send_functions().values()

            ids = IdSource(1)
            passes = [ids.next(), ids.next()]

            def arrive(send: Any, number: int) -> Any:
                metadata = AutogradMetadata(context_id, 0)
                request = PropagateGradientsReq(
                    metadata, [torch.ones(3)] * 2, True, passes[number - 1]
                )
                return engine.execute_send_function_async(context, send, request)

            dead = arrive(first, 1)
            current_task().runtime.sleep(1)
            assert not dead.done()
            alive = arrive(first, 2)
            assert dead.has_error()
            assert arrive(second, 2).done()
            alive.wait()
            with pytest.raises(RuntimeError, match="is over"):
                arrive(second, 1)
            assert engine.num_backward_passes() == 0

    at_worker_0(main)


def test_a_pass_that_fails_keeps_no_gradients_that_it_did_not_get_to() -> None:
    def main() -> None:
        engine = current_worker().engine
        assert engine is not None
        with dist_autograd.context() as context_id:
            context = dist_autograd._retrieve_context(context_id)
            x = leaf(3)
            for sent in (fail_in_backward(x), x * 1):
                rpc.rpc_sync("worker1", multiply, args=(sent, torch.ones(3)))
            sends = context.send_functions().values()
            request = PropagateGradientsReq(
                AutogradMetadata(context_id, 0), [torch.ones(3)], True, IdSource(1).next()
            )
            ends = [engine.execute_send_function_async(context, send, request) for send in sends]
            with pytest.raises(RuntimeError, match="no gradient today"):
                ends[0].wait()
            assert [send.get_grads() for send in sends] == [[], []]

    at_worker_0(main)


def test_only_one_pass_at_a_time_runs_in_a_context() -> None:
    def main() -> None:
        x = leaf(3)
        with dist_autograd.context() as context_id:
            y = x * 2
            other = x.sum()

            def again(_: Tensor) -> None:
                with pytest.raises(RuntimeError, match="A backward pass is already running"):
                    dist_autograd.backward(context_id, [other])

            y.register_hook(again)
            dist_autograd.backward(context_id, [y.sum()])

    at_worker_0(main, workers=1)


@pytest.mark.parametrize("state", ["idle", "in a pass", "released"])
def test_a_tensor_of_another_context_is_refused(state: str) -> None:
    """Whatever the context that it came in is doing, whose gradients stay as they are."""

    def main() -> None:
        x, z = leaf(3), leaf(3)
        other = dist_autograd._new_context()._context_id()
        y = rpc.rpc_sync("worker1", multiply, args=(x, x))
        current_task().autograd_context_id = -1

        def mixed(_: object = None) -> None:
            with dist_autograd.context() as context_id:
                with pytest.raises(RuntimeError, match=said(context_id)):
                    dist_autograd.backward(context_id, [(y + z).sum()])
                assert x not in dist_autograd.get_gradients(context_id)

        def said(context_id: int) -> str:
            if state == "released":
                return "Error on Node 0: Autograd context no longer valid"
            return (
                f"Error on Node 0: a backward pass of autograd context {context_id} has reached "
                f"tensors that came from worker 1 in autograd context {other}: "
            )

        if state == "released":
            dist_autograd._release_context(other)
            mixed()
            return
        hooked = y * 1
        if state == "in a pass":
            hooked.register_hook(torch.enable_grad()(mixed))
        else:
            mixed()
            assert dist_autograd.get_gradients(other) == {}
        dist_autograd.backward(other, [hooked.sum()])
        assert torch.equal(dist_autograd.get_gradients(other)[x], 2 * x.detach())
        dist_autograd._release_context(other)

    at_worker_0(main)


def test_a_hook_may_call_another_worker() -> None:
    def main() -> None:
        x = leaf(3)
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", multiply, args=(x, x))
            y.register_hook(
                lambda grad: rpc.rpc_sync("worker1", multiply, args=(grad, torch.full((3,), 2.0)))
            )
            y.retain_grad()
            dist_autograd.backward(context_id, [y.sum()])
            assert y.grad.tolist() == [2, 2, 2]
            assert torch.equal(dist_autograd.get_gradients(context_id)[x], 4 * x.detach())

    at_worker_0(main, latency="constant:0.01")


def test_a_call_without_grad_records_nothing_at_either_end() -> None:
    def main() -> None:
        x = leaf(3)
        with dist_autograd.context() as context_id:
            with torch.no_grad():
                rpc.rpc_sync("worker1", multiply, args=(x, x))
            context = dist_autograd._retrieve_context(context_id)
            assert context._send_functions() == context._recv_functions() == {}
            assert context._known_worker_ids() == {1}
            loss = rpc.rpc_sync("worker1", multiply, args=(x, x)).sum()
            dist_autograd.backward(context_id, [loss])  # would wait for ever otherwise

    at_worker_0(main)


def test_a_released_context_does_not_come_back() -> None:
    def main() -> None:
        container = current_worker().container
        assert container is not None
        container.release_context_if_present(5)  # the clean-up overtook the first message
        assert container.get_or_create_context(5) is None
        assert container.get_or_create_context(6) is not None
        assert container.num_autograd_contexts() == 1
        container.release_context(6)
        with pytest.raises(RuntimeError, match="Could not find autograd context with id: 6"):
            container.release_context(6)

    on_one_worker(main)


def test_a_release_while_tensors_are_joined() -> None:
    """The message has its context already, and then a release comes first: nothing is recorded."""

    class Releases(tracing.Observer):
        def anchors(self, worker: int, context: int, message: int) -> tuple[()]:
            container = current_worker().container
            assert container is not None
            container.release_context(context)
            return ()

    class Events(tracing.Tracer):
        enabled = True

        def __init__(self) -> None:
            self.observer = Releases()
            self.names: list[str] = []

        def emit(self, type: tracing.EventType, *values: object) -> None:
            self.names.append(type.name)

    def main() -> None:
        x = leaf(2)
        assert add_recv_rpc_backward(current_worker(), AutogradMetadata(5, 1), [x], 1) is None
        assert x.grad_fn is None and x.requires_grad

    events = Events()
    on_one_worker(main, tracer=events)
    assert [name for name in events.names if name.startswith(("context", "recv"))] == [
        "context_created",
        "context_released",
    ]


def test_each_needed_node_runs_once_and_its_count_is_that_of_its_edges() -> None:
    class Log(tracing.Tracer):
        enabled = True

        def __init__(self) -> None:
            self.events: list[tuple[str, tuple[Any, ...]]] = []

        def emit(self, type: tracing.EventType, *values: object) -> None:
            self.events.append((type.name, values))

    def main() -> None:
        x = leaf(3)
        y = x * 2
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [(y + y.exp() * y).sum()])

    log = Log()
    on_one_worker(main, log)
    ((_, (_, nodes, _)),) = [event for event in log.events if event[0] == "dependencies_computed"]
    assert [(name, count) for _, name, count, _ in nodes] == [
        ("torch::autograd::GraphRoot", 0),
        ("SumBackward0", 1),
        ("AddBackward0", 1),
        ("MulBackward0", 3),
        ("MulBackward0", 1),
        ("torch::autograd::AccumulateGrad", 1),
        ("ExpBackward0", 1),
    ]
    run = Counter(values[1] for name, values in log.events if name == "node_executed")
    assert run == Counter(number for number, *_ in nodes)
    assert [v for name, v in log.events if name == "gradient_accumulated"] == [(0, 5)]


class FakeNode:
    def __init__(self, *following: object) -> None:
        self.next_functions = tuple((node, 0) for node in following)


def test_what_leads_to_no_output_is_not_needed() -> None:
    leaf_node, nothing = FakeNode(), FakeNode(None)
    lost = FakeNode(nothing, None)
    useful = FakeNode(lost, leaf_node)
    root = FakeNode(useful, lost)

    def main() -> None:
        graph_task = GraphTask(current_task().runtime, None, keep_graph=False)  # type: ignore[arg-type]
        graph_task.init_to_execute(root, [(leaf_node, 0)])
        needed = {node for node, info in graph_task.exec_info.items() if info is NEEDED}
        assert needed == {root, useful}
        assert graph_task.exec_info[leaf_node].should_execute()
        assert not graph_task.exec_info[lost].should_execute()

    on_one_worker(main)


def test_continuations_of_a_device_come_back_to_the_cpu() -> None:
    """Nodes with float64 inputs stand for nodes of a device: CPU -> device -> CPU."""
    where: list[tuple[str, str]] = []

    def main() -> None:
        engine = current_worker().engine
        assert engine is not None
        devices: Any = engine._devices
        device = torch.device("cuda", 0)
        devices.enabled = True
        devices.on_stream = lambda device, graph_task, node: nullcontext()
        devices.device_of = lambda node: (
            device
            if any(m.dtype is torch.float64 for m in getattr(node, "_input_metadata", ()))
            else None
        )
        x = leaf(3)
        there = (x * 1).double()
        back = (there.exp() * there).float()
        loss = (back * 2).sum()
        for name, tensor in [("before", x * 1), ("there", there), ("back", back)]:
            tensor.register_hook(lambda _, name=name: where.append((name, current_task().name)))
        expected = torch.autograd.grad(loss, x, retain_graph=True)
        del where[:]
        x.register_hook(lambda _: where.append(("leaf", current_task().name)))
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [loss])
            assert torch.equal(dist_autograd.get_gradients(context_id)[x], expected[0])
        with dist_autograd.context() as context_id:
            failing = fail_in_backward(leaf(2).double()).float().sum()
            with pytest.raises(RuntimeError, match="Error on Node 0: no gradient today"):
                dist_autograd.backward(context_id, [failing])
        engine.shutdown()

    on_one_worker(main)
    assert where == [
        ("back", "backward"),
        ("there", "backward on cuda:0"),
        ("leaf", "backward"),
    ]


def test_a_root_may_be_given_twice_and_with_others() -> None:
    x = leaf(3)
    first, second = (x * 2).sum(), x.exp().sum()
    gradients = dist_backward(first, second, first)
    assert torch.allclose(gradients[x], 4 + x.detach().exp())
