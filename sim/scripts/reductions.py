"""What the reductions of ``torch.distributed`` compute, on either engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

_OPERATORS: dict[str, Callable[..., Tensor]] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}
#: the names of PyTorch's numbers for them: to ask one of them for its name takes longer than a sum
_NAMES = {int(getattr(ReduceOp.RedOpType, name)): name for name in ReduceOp.RedOpType.__members__}
_BITWISE = ("BAND", "BOR", "BXOR")
#: bytes that gloo sends at once in its ring, at most
_SEGMENT = 1 << 20


def reduced(
    tensors: list[Tensor],
    op: Any,
    *,
    into: Tensor | None = None,
    at: int = 0,
    of: int | None = None,
    to_one: bool = False,
    left_at: int | None = None,
) -> Tensor:
    """The tensors of all ranks by ``op``, in gloo's order, so that sums are equal to the last bit; none of them
    is changed. ``at``, ``of``: they begin there in tensors of so many elements that are reduced; ``to_one``: for
    one member alone; ``left_at``: what is left of that then at another member, whose tensor parts of the sums go through. The result is written to ``into``, for which no gradient is recorded, if that has its type and
    lies in one piece; it is a new tensor otherwise.

    Raises RuntimeError as gloo does for bits of what is no integer and for the mean of integers, and
    ValueError for an operation that it does not have.
    """
    name = operator_name(op)
    if name == "PREMUL_SUM":
        raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
    operator = _OPERATORS.get(name)
    if operator is None:
        raise ValueError(f"reduce operation {op} is not supported")
    if name in _BITWISE and (tensors[0].is_floating_point() or tensors[0].is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{name} with non-integral dtype")
    in_a_ring = len(tensors) > 2 or (left_at is not None and len(tensors) == 2)
    if in_a_ring and tensors[0].layout is torch.strided and tensors[0].numel():
        total = _out(tensors, into)
        _in_a_ring(tensors, operator, total, at, of or tensors[0].numel(), to_one, left_at)
    elif len(tensors) == 2 and tensors[0].layout is torch.strided and _are_alike(tensors):
        total = operator(tensors[0].detach(), tensors[1].detach(), out=_out(tensors, into))
    else:
        total = fold(operator, tensors[1:], tensors[0].clone())
    return total.div_(len(tensors)) if name == "AVG" else total


def operator_name(op: Any) -> str:
    """ "SUM" and the like; "" for what is no ``ReduceOp``."""
    try:
        return _NAMES.get(int(getattr(op, "op", op)), "")
    except TypeError:
        return ""


def _out(tensors: list[Tensor], into: Tensor | None) -> Tensor:
    """Where a result is written: elements that lie one behind the other."""
    dtype = fold(torch.promote_types, {tensor.dtype: None for tensor in tensors})
    shape, device = tensors[0].shape, tensors[0].device
    if into is None or not into.is_contiguous():  # which it is not if it is sparse
        return torch.empty(shape, dtype=dtype, device=device)
    fits = (into.dtype, into.shape, into.device) == (dtype, shape, device)
    return into if fits else torch.empty(shape, dtype=dtype, device=device)


def _are_alike(tensors: list[Tensor]) -> bool:
    return all(tensor.shape == tensors[0].shape for tensor in tensors)


def _in_a_ring(
    tensors: list[Tensor],
    operator: Callable[..., Tensor],
    out: Tensor,
    at: int,
    of: int,
    to_one: bool,
    left_at: int | None,
) -> None:
    """A chunk for each rank goes around, from the rank before it down to its own, which has the result
    (gloo/allreduce.cc, gloo/reduce.cc); ``left_at``: as far as that rank."""
    ranks, flat = len(tensors), [tensor.detach().reshape(-1) for tensor in tensors]
    chunk = _chunk(of, flat[0].element_size(), ranks, to_one)
    total, begin, size = out.view(-1), 0, flat[0].numel()
    while begin < size:
        number = (at + begin) // chunk
        end = min(size, (number + 1) * chunk - at)
        on_its_way = [(number - 1 - step) % ranks for step in range(ranks)]
        if left_at is not None:
            on_its_way = on_its_way[: on_its_way.index(left_at) + 1]
        first, *others = (flat[rank][begin:end] for rank in on_its_way)
        part = total[begin:end]
        if not others:
            part.copy_(first)
        for other in others:
            first = operator(first, other, out=part)
        begin = end


def _chunk(elements: int, item_bytes: int, ranks: int, to_one: bool) -> int:
    """How many elements a rank's chunk has: some segments, of which there are two for each rank at least."""
    total, most = elements * item_bytes, _SEGMENT // item_bytes * item_bytes
    if to_one:
        segment = _up(min(-(-total // (2 * ranks)), most), item_bytes)
        segments = _up(max(-(-total // segment), 2 * ranks), ranks)
    else:
        segments = _up(max(-(-total // most), 2 * ranks), ranks)
        segment = _up(-(-total // segments), item_bytes)
    return segment * segments // ranks // item_bytes


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
