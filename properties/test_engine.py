"""The local engine against torch's own, on one worker: same graphs, same gradients, same hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import Function

from real.autograd import api as dist_autograd
from real.autograd.graph_task import queue_callback
from real.rpc.transport import QueueWorld
from real.worker import Worker
from sim.scheduler import SimRuntime

T = TypeVar("T")


def on_one_worker(main: Callable[[], T]) -> T:
    """What ``main()`` returns, run as the only task of a worker of its own."""
    runtime = SimRuntime(seed=0)
    worker = Worker(runtime, QueueWorld(runtime))
    worker.id = 0
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            dist_autograd._init(0)
            results.append(main())
        except Exception as error:
            errors.append(error)

    runtime.spawn(run, name="main", worker=worker, daemon=False)
    runtime.run()
    if errors:
        raise errors[0]
    return results[0]


def dist_backward(*roots: Tensor, retain_graph: bool = False) -> dict[Tensor, Tensor]:
    def main() -> dict[Tensor, Tensor]:
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, list(roots), retain_graph)
            return dist_autograd.get_gradients(context_id)

    return on_one_worker(main)


Graph = Callable[[], tuple[list[Tensor], Tensor]]
GRAPHS: dict[str, Graph] = {}


def graph(build: Graph) -> Graph:
    GRAPHS[build.__name__] = build
    return build


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_()


@graph
def chain() -> tuple[list[Tensor], Tensor]:
    x = leaf(5)
    y = x
    for _ in range(20):
        y = (y * 0.9).sin() + x
    return [x], y.sum()


@graph
def diamond_with_broadcasts() -> tuple[list[Tensor], Tensor]:
    a, b, c = leaf(3, 1), leaf(4), leaf()
    y = a * b + c
    return [a, b, c], (y * y / (b.exp() + 1)).mean()


@graph
def multiple_outputs() -> tuple[list[Tensor], Tensor]:
    x = leaf(6, 2)
    first, _, third = torch.split(x, 2)
    one, two = first.unbind()
    values, _ = third.max(dim=1)
    return [x], (one * two).sum() + values.sum()


@graph
def views_and_in_place() -> tuple[list[Tensor], Tensor]:
    x, z = leaf(4, 4), leaf(2)
    y = x * 1
    y[1:3, 0] = z
    y.t()[2].mul_(3)
    y.view(-1)[5:9].add_(y.view(-1)[0])
    return [x, z], y.tanh().sum()


@graph
def sparse_embedding() -> tuple[list[Tensor], Tensor]:
    weight = leaf(10, 3)
    rows = torch.nn.functional.embedding(torch.tensor([1, 3, 3, 9]), weight, sparse=True)
    return [weight], (rows * rows).sum()


@graph
def sparse_and_dense() -> tuple[list[Tensor], Tensor]:
    weight = leaf(10, 3)
    look_up = torch.nn.functional.embedding
    rows = [look_up(torch.tensor([i, 3]), weight, sparse=True).sum() for i in range(3)]
    return [weight], rows[0] * 2 + (weight * 3).sum() + rows[1] * rows[2]


@graph
def complex_numbers() -> tuple[list[Tensor], Tensor]:
    x, z = leaf(3), leaf(3, dtype=torch.complex64)
    return [x, z], ((x + z) * z.conj() * 1j).abs().sum()


@graph
def low_precision_and_promotion() -> tuple[list[Tensor], Tensor]:
    a, b, c = leaf(4, dtype=torch.bfloat16), leaf(4), leaf(1, dtype=torch.float64)
    return [a, b, c], ((a * b) * c + a.float()).sum()


@graph
def zero_size() -> tuple[list[Tensor], Tensor]:
    x, y = leaf(0, 3), leaf(3)
    return [x, y], (x * y).sum() + y.sum() * 2


@graph
def layers() -> tuple[list[Tensor], Tensor]:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(2 * 36, 5), torch.nn.LayerNorm(5),
    )  # fmt: skip
    lstm = torch.nn.LSTM(5, 4)
    out, _ = lstm(net(torch.randn(2, 1, 8, 8)).unsqueeze(0))
    return [*net.parameters(), *lstm.parameters()], torch.nn.functional.mse_loss(
        out, torch.ones_like(out)
    )


@graph
def attention() -> tuple[list[Tensor], Tensor]:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return list(layer.parameters()), layer(torch.randn(2, 5, 8)).pow(2).sum()


@graph
def unused_and_non_differentiable() -> tuple[list[Tensor], Tensor]:
    x, y = leaf(4), leaf(4)
    picked = torch.where(x.detach() > 0, x, y)
    x.exp()  # leads nowhere
    return [x, y], picked.sort().values[:2].sum() + (x.argmax() * y).sum()


@graph
def strided_leaf() -> tuple[list[Tensor], Tensor]:
    x = torch.randn(3, 4).t().requires_grad_()
    y = torch.randn(6)[::2].requires_grad_()
    return [x, y], (x.sum(1)[:3] * y).sum() + x.contiguous().view(-1)[2]


class Custom(Function):
    """Two tensors among other arguments; the second output is often unused."""

    @staticmethod
    def forward(ctx: Any, scale: float, a: Tensor, name: str, b: Tensor) -> Any:
        ctx.save_for_backward(a, b)
        ctx.scale = scale
        return a * scale + b, b * 2, torch.ones(2)

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor, third: Tensor) -> Any:
        _, b = ctx.saved_tensors
        assert second.shape == b.shape
        assert third.shape == (2,)
        return None, first * ctx.scale, None, first + second * 2


class Sparing(Function):
    """Does not want zeros for missing gradients."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    @staticmethod
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> Any:
        assert second is None
        return first * 2 if first is not None else None, None, None


@graph
def custom_functions() -> tuple[list[Tensor], Tensor]:
    a, b, plain = leaf(3), leaf(1), torch.ones(3)
    first, _, _ = Custom.apply(3.0, a, "x", b)  # type: ignore[no-untyped-call]
    other, _, _ = Custom.apply(2.0, plain, "y", first)  # type: ignore[no-untyped-call]
    spare, _ = Sparing.apply(a)  # type: ignore[no-untyped-call]
    return [a, b], (other * spare).sum()


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_are_those_of_torch(name: str) -> None:
    torch.manual_seed(3)
    leaves, loss = GRAPHS[name]()
    expected = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    actual = dist_backward(loss)
    for variable, gradient in zip(leaves, expected, strict=True):
        mine = actual.get(variable)
        if gradient is None:
            assert mine is None
            continue
        assert mine is not None
        assert (mine.layout, mine.dtype, mine.shape) == (
            gradient.layout, gradient.dtype, gradient.shape)  # fmt: skip
        assert torch.equal(mine.to_dense(), gradient.to_dense())
        assert variable.grad is None


@pytest.mark.parametrize("name", GRAPHS)
def test_strides_and_layouts_are_those_of_accumulate_grad(name: str) -> None:
    torch.manual_seed(3)
    leaves, loss = GRAPHS[name]()
    loss.backward(retain_graph=True)
    actual = dist_backward(loss)
    for variable in leaves:
        if variable.grad is not None and not variable.grad.is_sparse:
            assert actual[variable].stride() == variable.grad.stride()


@given(st.data())
def test_gradients_of_random_graphs_are_those_of_torch(data: st.DataObject) -> None:
    integer = torch.arange(1.0, 4.0, dtype=torch.float64)
    values = [integer.clone().requires_grad_() for _ in range(data.draw(st.integers(1, 4)))]
    leaves = list(values)
    for _ in range(data.draw(st.integers(1, 30))):
        back = st.integers(1, len(values))
        a, b = values[-data.draw(back)], values[-data.draw(back)]
        op = data.draw(st.sampled_from(["add", "sub", "cat", "view", "expand", "unbind", "roll"]))
        if op == "add":
            values.append(a + b)
        elif op == "sub":
            values.append(a - 2 * b)
        elif op == "cat":
            values.append(torch.cat([a, b])[1:4])
        elif op == "view":
            values.append(a.view(1, 3).squeeze(0))
        elif op == "expand":
            values.append(a.sum() * torch.ones(3, dtype=a.dtype) + b)
        elif op == "unbind":
            values.append(torch.stack([a.unbind()[0], *b.unbind()[1:]]))
        else:
            values.append(a.roll(1))
    loss = values[-1].sum()
    if loss.grad_fn is None:
        return
    expected = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    actual = dist_backward(loss)
    for variable, gradient in zip(leaves, expected, strict=True):
        assert (gradient is None) == (variable not in actual)
        if gradient is not None:
            assert torch.equal(actual[variable], gradient)


# -- hooks ------------------------------------------------------------------------------------


def hooked_graph(log: list[object]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """A loss whose nodes and tensors have hooks of every kind, all writing to ``log``."""
    x, w = leaf(3), leaf(3)
    y = x * w
    a, b = torch.stack([y, y * 2]).unbind()
    z = a.exp() + b
    unused = z.sin()

    def note(name: str) -> Callable[..., None]:
        def hook(*args: Any) -> None:
            log.append((name, *(shown(arg) for arg in args), torch.is_grad_enabled()))

        return hook

    def shown(value: Any) -> object:
        if isinstance(value, tuple):
            return tuple(shown(v) for v in value)
        return None if value is None else value.tolist()

    for name, tensor in [("x", x), ("y", y), ("a", a), ("b", b), ("z", z), ("unused", unused)]:
        tensor.register_hook(note(f"tensor {name}"))
    y.register_hook(lambda grad: grad * 2)
    y.register_hook(note("tensor y again"))
    x.register_hook(lambda grad: grad + 1)
    for name, node in [
        ("y", y.grad_fn),
        ("unbind", a.grad_fn),
        ("x", y.grad_fn.next_functions[0][0]),  # type: ignore[union-attr]
    ]:
        assert node is not None
        node.register_prehook(note(f"pre {name}"))
        node.register_prehook(lambda grads: tuple(g * 3 for g in grads))
        node.register_hook(note(f"post {name}"))
    a.grad_fn.register_hook(lambda outputs, inputs: (outputs[0] * 5,))  # type: ignore[union-attr]
    retained = [y, b, z]
    for tensor in retained:
        tensor.retain_grad()
    return [x, w], retained, z.sum()


def test_hooks_are_called_once_and_in_the_order_of_torch() -> None:
    torch.manual_seed(0)
    expected_log: list[object] = []
    leaves, retained, loss = hooked_graph(expected_log)
    loss.backward()
    torch.manual_seed(0)
    log: list[object] = []
    my_leaves, my_retained, my_loss = hooked_graph(log)
    gradients = dist_backward(my_loss)
    assert log == expected_log
    for theirs, mine in zip(leaves, my_leaves, strict=True):
        assert theirs.grad is not None
        assert torch.equal(theirs.grad, gradients[mine])
    for theirs, mine in zip(retained, my_retained, strict=True):
        assert theirs.grad is not None
        assert mine.grad is not None
        assert torch.equal(theirs.grad, mine.grad)


def test_post_accumulate_grad_hooks_are_left_out_as_torch_leaves_them_out() -> None:
    # Torch's distributed engine never touches .grad and so never calls them; seen on torch 2.13.
    called: list[Tensor] = []
    x = leaf(2)
    x.register_post_accumulate_grad_hook(called.append)
    dist_backward((x * 2).sum())
    assert called == []


def test_removed_hooks_are_not_called() -> None:
    x = leaf(2)
    y = x * 2
    log: list[str] = []
    for handle in (
        y.register_hook(lambda _: log.append("tensor")),
        y.grad_fn.register_prehook(lambda _: log.append("pre")),  # type: ignore[union-attr]
        y.grad_fn.register_hook(lambda *_: log.append("post")),  # type: ignore[union-attr]
    ):
        handle.remove()
    dist_backward(y.sum())
    assert log == []


@pytest.mark.parametrize(
    ("kind", "hook"),
    [
        ("tensor", lambda grad: grad[:1]),
        ("tensor", lambda grad: grad.double()),
        ("tensor", lambda grad: 3),
        ("pre", lambda grads: grads[0]),
        ("pre", lambda grads: (grads[0], grads[0])),
        ("post", lambda outputs, inputs: 3),
        ("post", lambda outputs, inputs: (outputs[0], outputs[0])),
        ("post", lambda outputs, inputs: (outputs[0][:1], None)),
    ],
)
def test_bad_results_of_hooks_raise_what_torch_raises(kind: str, hook: Any) -> None:
    def build() -> Tensor:
        y = leaf(3) * 2
        node: Any = y.grad_fn
        {"tensor": y.register_hook, "pre": node.register_prehook, "post": node.register_hook}[
            kind
        ](hook)
        return y.sum()

    with pytest.raises((RuntimeError, TypeError)) as theirs:
        build().backward()
    with pytest.raises(RuntimeError) as mine:
        dist_backward(build())
    assert str(mine.value) == f"Error on Node 0: {theirs.value}"


def test_final_callbacks_run_after_the_last_node() -> None:
    log: list[str] = []
    x = leaf(2)
    y = x * 2
    y.register_hook(lambda _: queue_callback(lambda: log.append("final")))
    x.register_hook(lambda _: log.append("leaf"))
    dist_backward(y.sum())
    assert log == ["leaf", "final"]


# -- errors -----------------------------------------------------------------------------------


def returning(result: Callable[[Tensor], Any]) -> Tensor:
    """A loss over a Function of a tensor and a number that returns ``result`` in backward."""

    class F(Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor, b: object) -> Tensor:
            return a.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return result(grad)

    output: Tensor = F.apply(leaf(3), 4)  # type: ignore[no-untyped-call]
    return output.sum()


@pytest.mark.parametrize(
    "result",
    [
        lambda grad: grad,
        lambda grad: (grad, None, None, grad),
        lambda grad: (grad, grad),
        lambda grad: (3, None),
        lambda grad: (torch.ones(7), None),
        lambda grad: (torch.ones(2, 2), None),
        lambda grad: (grad.to("meta"), None),
        lambda grad: 1 / 0,
    ],
)
def test_errors_of_functions_have_the_text_of_torch(result: Callable[[Tensor], Any]) -> None:
    with pytest.raises((RuntimeError, ArithmeticError)) as theirs:
        returning(result).backward()
    with pytest.raises(RuntimeError) as mine:
        dist_backward(returning(result))
    assert str(mine.value) == f"Error on Node 0: {theirs.value}"


@pytest.mark.parametrize(
    "result",
    [
        lambda grad: (grad, None, None, None),
        lambda grad: (None, None),
        lambda grad: (grad.double(), None),
        lambda grad: (grad.long(), None),
        lambda grad: (grad.expand(2, 3), None),
        lambda grad: (grad.to_sparse(), None),
        lambda grad: (torch.ones(1), None),
    ],
)
def test_what_torch_forgives_is_forgiven(result: Callable[[Tensor], Any]) -> None:
    def run(backward: Callable[[Tensor], object]) -> tuple[bool, str]:
        try:
            backward(returning(result))
        except RuntimeError as error:
            return False, str(error).removeprefix("Error on Node 0: ")
        return True, ""

    assert run(dist_backward) == run(lambda loss: loss.backward())


def test_a_graph_serves_once_unless_it_is_retained() -> None:
    x = leaf(3)
    loss = (x.exp() * x).sum()

    def main() -> None:
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [loss], retain_graph=True)
            first = dist_autograd.get_gradients(context_id)[x].clone()
            dist_autograd.backward(context_id, [loss])
            second = dist_autograd.get_gradients(context_id)[x]
            assert torch.equal(second, first * 2)
            with pytest.raises(RuntimeError, match=r"Error on Node 0: .*backward through the graph"):
                dist_autograd.backward(context_id, [loss])

    on_one_worker(main)


@contextmanager
def raises_like_torch(text: str) -> Iterator[None]:
    with pytest.raises(RuntimeError) as caught:
        yield
    assert str(caught.value) == text


def test_unfit_roots_raise_the_texts_of_torch() -> None:
    x = leaf(3)

    def main() -> None:
        with dist_autograd.context() as context_id:
            with raises_like_torch("No tensors provided for gradient computation."):
                dist_autograd.backward(context_id, [])
            with raises_like_torch("requires_grad not set on root"):
                dist_autograd.backward(context_id, [torch.ones(1)])
            with raises_like_torch(" is not a scalar, all roots need to be scalar"):
                dist_autograd.backward(context_id, [x * 2])
            with raises_like_torch(" does not have a valid gradient function."):
                dist_autograd.backward(context_id, [leaf(1)])
            with raises_like_torch("Could not find autograd context with id: 77"):
                dist_autograd.backward(77, [x.sum()])
            with pytest.raises(TypeError, match=r"backward\(\): incompatible function arguments"):
                dist_autograd.backward("x", [x.sum()])
            with pytest.raises(TypeError, match="incompatible function arguments"):
                dist_autograd.backward(context_id, x.sum())
            with pytest.raises(TypeError, match="incompatible function arguments"):
                dist_autograd.backward(context_id, [1])
            with raises_like_torch("Already have an autograd context id for this thread."):
                dist_autograd._new_context()
        with raises_like_torch(f"Could not find autograd context with id: {context_id}"):
            dist_autograd.get_gradients(context_id)

    on_one_worker(main)
