"""Accumulation: what is taken over, what is copied, and what is added in place."""

from __future__ import annotations

import torch
from torch import Tensor

from squall.real.autograd.accumulate import accumulate_grad, is_non_overlapping_and_dense
from squall.real.autograd.input_buffer import InputBuffer


def sparse(*rows: int) -> Tensor:
    return torch.sparse_coo_tensor(
        torch.tensor([list(rows)]), torch.ones(len(rows), 2), (4, 2), check_invariants=False
    )


def test_the_first_gradient_is_taken_over_if_nobody_else_has_it() -> None:
    variable = torch.zeros(3, requires_grad=True)
    grads: dict[Tensor, Tensor] = {}
    holder = [torch.ones(3)]
    address = holder[0].data_ptr()
    accumulate_grad(grads, variable, holder)
    assert grads[variable].data_ptr() == address


def test_a_shared_gradient_is_copied() -> None:
    variable = torch.zeros(3, requires_grad=True)
    shared = torch.ones(3)
    view = [torch.ones(6)[:3]]
    other_view_of_it = view[0].view(3)
    for holder in ([shared], view):
        grads: dict[Tensor, Tensor] = {}
        accumulate_grad(grads, variable, holder)
        grads[variable].add_(1)
    assert shared.tolist() == other_view_of_it.tolist() == [1, 1, 1]


def test_a_gradient_of_another_layout_is_copied_into_that_of_the_variable() -> None:
    grads: dict[Tensor, Tensor] = {}
    variable = torch.zeros(2, 3).t().requires_grad_()
    accumulate_grad(grads, variable, [torch.ones(3, 2)])
    assert grads[variable].stride() == variable.stride() == (1, 3)
    gappy = torch.zeros(6)[::2].requires_grad_()
    accumulate_grad(grads, gappy, [torch.ones(1).expand(3)])
    assert grads[gappy].is_contiguous()


def test_dense_and_sparse_gradients_add_up_in_any_order() -> None:
    variable = torch.zeros(4, 2, requires_grad=True)
    orders: list[list[Tensor]] = [
        [torch.ones(4, 2), sparse(0, 2, 2)],
        [sparse(0, 2, 2), torch.ones(4, 2)],
    ]
    for order in orders:
        grads: dict[Tensor, Tensor] = {}
        for grad in order:
            accumulate_grad(grads, variable, [grad])
        assert not grads[variable].is_sparse
        assert grads[variable][:, 0].tolist() == [2, 1, 3, 1]
    grads = {}
    accumulate_grad(grads, variable, [sparse(0)])
    kept = grads[variable]
    accumulate_grad(grads, variable, [sparse(0, 3)])
    assert grads[variable] is kept
    assert kept.to_dense()[:, 0].tolist() == [2, 0, 0, 1]


def test_a_buffer_never_writes_to_a_tensor_that_it_was_given() -> None:
    given = [torch.ones(4, 2), sparse(1), torch.ones(4, 2), sparse(1, 3), torch.ones(4, 2)]
    for start in range(len(given)):
        buffer = InputBuffer(2)
        for grad in given[start:] + given[:start]:
            buffer.add(1, grad)
        buffer.add(1, None)
        total = buffer.buffer[1]
        assert total is not None
        assert total.to_dense()[:, 0].tolist() == [3, 5, 3, 4]
        assert buffer.buffer[0] is None
    assert [grad.to_dense().sum().item() for grad in given] == [8, 2, 8, 4, 8]


def test_dense_without_overlap() -> None:
    assert is_non_overlapping_and_dense(torch.zeros(2, 3, 4).permute(2, 0, 1))
    assert is_non_overlapping_and_dense(torch.zeros(2, 1, 3).expand(2, 1, 3).transpose(0, 2))
    assert not is_non_overlapping_and_dense(torch.zeros(6)[::2])
    assert not is_non_overlapping_and_dense(torch.zeros(3, 1).expand(3, 2))
