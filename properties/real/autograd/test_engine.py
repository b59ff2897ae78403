"""The local engine against torch's own, on one worker: the same graphs, the same gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import Function

from squall.properties.support.one_worker import dist_backward, leaf

Graph = Callable[[], tuple[list[Tensor], Tensor]]
GRAPHS: dict[str, Graph] = {}


def graph(build: Graph) -> Graph:
    GRAPHS[build.__name__] = build
    return build


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


@pytest.mark.parametrize("columns_first", [False, True])
def test_hooks_see_sums_with_the_strides_of_torch(columns_first: bool) -> None:
    seen = []
    y = leaf(2, 3) * 1
    y.register_hook(lambda grad: seen.append(grad.stride()))
    terms = [(y * torch.randn(2, 3)).sum(), (y.t() * torch.randn(3, 2)).sum()]
    loss = terms[not columns_first] + terms[columns_first]
    loss.backward(retain_graph=True)
    dist_backward(loss)
    assert seen[0] == seen[1]


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
