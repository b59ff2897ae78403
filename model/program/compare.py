"""When two gradients are the same.

Elements are compared against the largest of the expected tensor, not one by one: sums taken in
another order differ by rounding of the large elements, also where the result is near zero.
NaN equals NaN, and an infinity equals itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


class Tolerance(NamedTuple):
    """``|got - expected| <= relative * largest |expected| + absolute``."""

    relative: float
    absolute: float


#: by dtype; anything that is not listed has to be equal
TOLERANCES = {
    torch.float64: Tolerance(1e-9, 1e-12),
    torch.complex128: Tolerance(1e-9, 1e-12),
    torch.float32: Tolerance(1e-5, 1e-6),
    torch.complex64: Tolerance(1e-5, 1e-6),
    torch.float16: Tolerance(1e-2, 1e-3),
    torch.bfloat16: Tolerance(2e-2, 1e-3),
}
EXACT = Tolerance(0.0, 0.0)
#: a factor that all gradients have in common, from one, which no rounding makes
_FACTOR = 0.02


class Comparison(NamedTuple):
    """How far ``got`` is from ``expected``.

    ``deviation``: the largest difference divided by the largest expected element (by one, if
    all expected elements are zero). ``complaint``: None if the tensors are the same.
    """

    deviation: float
    complaint: str | None


SAME = Comparison(0.0, None)


def coarsest(dtypes: Iterable[torch.dtype]) -> Tolerance:
    """The tolerance of what is computed from numbers of all these dtypes, rounded to each."""
    known = [TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES]
    return max(known, default=EXACT)


def compare(
    got: Tensor, expected: Tensor, *, exact: bool = False, tolerance: Tolerance | None = None
) -> Comparison:
    """Compare two gradients of any layout.

    ``exact``: without any tolerance. ``tolerance``: instead of that of the dtype, for what was
    computed from numbers that are less precise.
    """
    if got.shape != expected.shape:
        return _differs(f"has shape {list(got.shape)}, expected {list(expected.shape)}")
    if got.dtype != expected.dtype:
        return _differs(f"has dtype {got.dtype}, expected {expected.dtype}")
    if got.device.type not in ("cpu", "cuda") and expected.is_cpu:
        got = got.detach().cpu()  # a device that stands in for another one
    if got.device != expected.device:
        return _differs(f"is on {got.device}, expected {expected.device}")
    if got.layout == expected.layout == torch.strided and torch.equal(got, expected):
        return SAME  # as most are
    got, expected = got.detach(), expected.detach()
    if got.layout != torch.strided and expected.layout != torch.strided:
        got, expected = _aligned(got, expected)
    got, expected = to_dense(got), to_dense(expected)
    if torch.equal(got, expected) or expected.numel() == 0:
        return SAME
    if exact:
        tolerance = EXACT
    elif tolerance is None:
        tolerance = TOLERANCES.get(got.dtype, EXACT)
    return _compare_dense(got, expected, tolerance)


def common_factor(got: Tensor, expected: Tensor) -> float | None:
    """What all elements have been multiplied with, if it is one number, further from one than rounding is."""
    size = torch.vdot(expected, expected).real.item()
    factor = torch.vdot(expected, got).real.item() / size if size else 1.0
    far = 1e-3 * float(expected.abs().max()) if size else 0.0
    is_common = torch.allclose(got, factor * expected, rtol=1e-3, atol=far)
    return factor if is_common and abs(factor - 1) > _FACTOR else None


def _compare_dense(got: Tensor, expected: Tensor, tolerance: Tolerance) -> Comparison:
    got, expected = _real(got), _real(expected)
    same = (got == expected) | (got.isnan() & expected.isnan())
    finite = expected[expected.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    error = torch.where(same, torch.zeros_like(expected), (got - expected).abs())
    wrong = ~(error <= tolerance.relative * largest + tolerance.absolute)  # NaN is wrong too
    worst = float(error.nan_to_num(nan=math.inf).max())
    deviation = worst / largest if largest else worst
    if not bool(wrong.any()):
        return Comparison(deviation, None)
    index = tuple(int(i) for i in wrong.nonzero()[0])
    count = int(wrong.sum())
    where = f"element {list(index)}" if index else "its value"
    return Comparison(
        deviation,
        f"{where} is {got[index].item()!r}, expected {expected[index].item()!r} "
        f"({count} of {expected.numel()} elements differ)",
    )


def to_dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def add(before: Tensor, more: Tensor) -> Tensor:
    """The sum as a new tensor; sparse if both are."""
    if before.layout != more.layout:
        return to_dense(before) + to_dense(more)
    return before + more


def _aligned(got: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """The elements of two sparse tensors at the places where either has any."""
    got, expected = got.coalesce(), expected.coalesce()
    if torch.equal(got.indices(), expected.indices()):
        return got.values(), expected.values()
    # Explicit zeros count as absent; adding zeros makes them present on both sides.
    zeros_of_got = torch.sparse_coo_tensor(
        got.indices(), torch.zeros_like(got.values()), got.shape, check_invariants=False
    )
    zeros_of_expected = torch.sparse_coo_tensor(
        expected.indices(),
        torch.zeros_like(expected.values()),
        expected.shape,
        check_invariants=False,
    )
    return (
        (got + zeros_of_expected).coalesce().values(),
        (expected + zeros_of_got).coalesce().values(),
    )


def _real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs, and narrow ones wide enough to subtract without rounding."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj()).to(torch.float64)
    return tensor.to(torch.float64)


def _differs(complaint: str) -> Comparison:
    return Comparison(math.inf, complaint)
