"""What the reductions of ``torch.distributed`` compute, on either engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

_OPERATORS: list[tuple[Any, Callable[[Tensor, Tensor], Tensor]]] = [
    (ReduceOp.SUM, torch.add),
    (ReduceOp.AVG, torch.add),
    (ReduceOp.PRODUCT, torch.mul),
    (ReduceOp.MIN, torch.minimum),
    (ReduceOp.MAX, torch.maximum),
    (ReduceOp.BAND, torch.bitwise_and),
    (ReduceOp.BOR, torch.bitwise_or),
    (ReduceOp.BXOR, torch.bitwise_xor),
]
_BITWISE = ("BAND", "BOR", "BXOR")


def reduced(tensors: list[Tensor], op: Any) -> Tensor:
    """All tensors by ``op``, in order of rank; none of them is changed.

    Raises RuntimeError as gloo does for bits of what is no integer and for the mean of integers, and
    ValueError for an operation that it does not have.
    """
    for known, operator in _OPERATORS:
        if op == known:
            name = known.name if hasattr(known, "name") else str(known)
            if name in _BITWISE and (tensors[0].is_floating_point() or tensors[0].is_complex()):
                raise RuntimeError(f"Cannot use ReduceOp.{name} with non-integral dtype")
            total = fold(operator, tensors[1:], tensors[0].clone())
            return total.div_(len(tensors)) if known == ReduceOp.AVG else total
    if "PREMUL" in str(getattr(op, "op", op)):
        raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
    raise ValueError(f"reduce operation {op} is not supported")
