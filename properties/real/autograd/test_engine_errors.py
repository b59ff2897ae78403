"""What goes wrong in a pass on one worker is told in the words of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from squall.properties.support.one_worker import dist_backward, leaf, on_one_worker
from squall.real.autograd import api as dist_autograd


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
            with pytest.raises(
                RuntimeError, match=r"Error on Node 0: .*backward through the graph"
            ):
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
