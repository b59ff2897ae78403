"""Tensors arrive with the layout that they were sent with, and share memory as they did."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from squall.model.program.cargo import CargoPart, Layout
from squall.model.program.cargo_values import facts, tensor_of, without_gaps, write
from squall.model.program.validated import plain
from squall.real.rpc.tensor_copies import copy_tensor, copy_tensors


@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize("grad", [False, True])
def test_a_copy_has_the_layout_of_the_tensor_and_memory_of_its_own(
    layout: Layout, grad: bool
) -> None:
    sent = tensor_of(plain(CargoPart(layout=layout, grad=grad, seed=3)))
    if type(sent) is not torch.Tensor:
        sent = sent.detach()  # a parameter travels as the tensor that it has
    copy = copy_tensor(sent)
    assert facts([copy]) == facts([without_gaps(sent)])
    assert copy.requires_grad == sent.requires_grad and copy.is_leaf
    before = facts([sent])
    write([copy])
    assert facts([sent]) == before


def test_tensors_that_share_memory_share_it_where_they_arrive() -> None:
    base = torch.arange(6.0)
    sent = [base, base[2:], base.reshape(2, 3).t(), torch.arange(6.0)]
    copies = copy_tensors(sent)
    assert facts(copies) == facts(sent)
    copies[1].fill_(9)
    assert copies[0].tolist() == [0, 1, 9, 9, 9, 9]
    assert copies[2].tolist() == [[0, 9], [1, 9], [9, 9]]
    assert base.tolist() == copies[3].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_tensor_that_requires_grad_shares_its_memory_with_no_other() -> None:
    base = torch.arange(3.0).requires_grad_()
    grad, plain = copy_tensors([base, base.detach()])
    plain.fill_(9)
    assert grad.tolist() == [0, 1, 2] and grad.requires_grad and not plain.requires_grad


def test_a_large_storage_that_is_mostly_gaps_does_not_travel() -> None:
    large = torch.arange(4096.0)
    narrow, half = copy_tensors([large[5:7], large[:3000]])
    assert narrow.untyped_storage().nbytes() == 8 and narrow.tolist() == [5, 6]
    assert half.untyped_storage().nbytes() == 4 * 4096


def test_nobody_says_whether_a_sparse_tensor_is_coalesced() -> None:
    indices = torch.tensor([[0, 1], [1, 0]])
    sent = torch.sparse_coo_tensor(indices, torch.ones(2), (2, 2)).coalesce()
    copy = copy_tensor(sent)
    assert sent.is_coalesced() and not copy.is_coalesced()
    assert torch.equal(copy.to_dense(), sent.to_dense())


def test_a_tensor_whose_storage_is_too_small_is_refused() -> None:
    tensor = torch.ones(4, 4).t()[::2]
    tensor.untyped_storage().resize_(4)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 4"):
        copy_tensor(tensor)
