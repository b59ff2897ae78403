"""Inside a process of a script on the engine ``torch``: gradients of several ranks that the last one of a pass compares
with those of one process, in a copy of itself, once it has been given what all have.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from squall.model.program.compare import EXACT, TOLERANCES, Tolerance, common_factor, compare
from squall.real.native.here import Here
from squall.sim.stock.copied_process import CopyError, in_a_copy

#: all passes up to this one are compared, and then those whose numbers are powers of two
_FIRST = 8
#: elements that a rank gives at most
_MOST = 4_000_000


class UnknownError(Exception):
    """What one process comes to is not known: the text says why."""


class Gradient(NamedTuple):
    """Of a parameter, or a part of one, on one rank: ``got`` is what it has, None if it has none; ``largest``: an
    element of what has been added up to ``expected``; ``dtype``: in which it was computed, if not in that of ``got``."""

    name: str
    rank: int
    got: Tensor | None
    expected: Tensor
    largest: float
    dtype: torch.dtype | None = None


class Compared(NamedTuple):
    """``deviation``: the largest one; ``differs``: by parameter what is other than in one process; ``factor``: what
    all gradients have been multiplied with, if that is it."""

    deviation: float
    differs: list[str]
    factor: float | None


class Gathering:
    """What ``ranks`` compare again and again: ``name`` says what it is on all of them."""

    def __init__(self, here: Here, name: str, ranks: tuple[int, ...]) -> None:
        self._here = here
        self.name, self.ranks = name, ranks
        self._number = 0

    def next(self) -> bool:
        """Whether the next pass, which begins or ends, is one that is compared."""
        self._number += 1
        return self._number <= _FIRST or not self._number & (self._number - 1)

    def compare(
        self,
        place: str,
        give: Callable[[], Any],
        compute: Callable[[dict[int, Any]], Iterable[Gradient]],
        why_not_all: Callable[[dict[int, Any]], str] = lambda given: "",
    ) -> None:
        """Gives what ``give`` returns, which may raise :class:`UnknownError`; if this is the last rank, all
        gradients that ``compute`` makes of what all have given, by rank, are compared. ``place``: the user's line; ``why_not_all``: why what all have given
        does not say what one process comes to, "" if it does."""
        given, why_not = b"", ""
        try:
            given = _in_bytes(give())
        except UnknownError as error:
            why_not = str(error)
        told = self._here.ask(
            "gathered", self.name, self.ranks, dist.get_rank(), self._number, given, why_not
        )
        if told is None:
            return
        where = f"{self.name}, backward pass {self._number}"
        if isinstance(told, str):
            self._here.tell("not compared", f"{where}: {told}")
            return
        given_by = {
            rank: torch.load(io.BytesIO(data), weights_only=False) for rank, data in told.items()
        }
        if text := why_not_all(given_by):
            self._here.tell("not compared", f"{where}: {text}")
            return
        try:
            found = Compared(*in_a_copy(lambda: tuple(compared([*compute(given_by)]))))
        except CopyError as error:
            self._here.tell("not compared", f"{where}: {error}")
            return
        differs = [f"{each} (of {where})" for each in found.differs]
        if found.factor is not None:
            text = f"all gradients of {where} are {found.factor:.4g} times those of one process"
            differs = [text]
        self._here.tell("compared", place, found.deviation, differs)


def check_size(tensors: Iterable[Tensor]) -> None:
    """Raises :class:`UnknownError` if they have too many elements."""
    size = sum(each.numel() for each in tensors)
    if size > _MOST:
        text = f"a rank has {size:,} elements of parameters, and at most {_MOST:,} are compared"
        raise UnknownError(text)


def _in_bytes(given: Any) -> bytes:
    data = io.BytesIO()
    try:
        torch.save(given, data)
    except Exception as error:
        raise UnknownError(f"it cannot be pickled: {error}") from None
    return data.getvalue()


def compared(gradients: list[Gradient]) -> Compared:
    """All gradients of a pass: within the tolerance of their dtypes (model/program/compare.py)."""
    deviation, differs, lacks = 0.0, dict[str, str](), False
    for name, rank, got, expected, largest, dtype in gradients:
        if got is None:
            if bool(expected.any()):
                lacks = True
                differs.setdefault(name, f"rank {rank} has no gradient")
        else:
            usual = TOLERANCES.get(dtype or got.dtype, EXACT)
            # What cancels out has the rounding errors of what it was.
            tolerance = Tolerance(usual.relative, usual.absolute + usual.relative * largest)
            found = compare(got.to(expected.dtype), expected, tolerance=tolerance)
            deviation = max(deviation, found.deviation)
            if found.complaint:
                differs.setdefault(name, f"rank {rank}: {found.complaint}")
    factor = None
    if differs and not lacks:
        both = [(each.got, each.expected) for each in gradients if each.got is not None]
        factor = common_factor(
            torch.cat([got.to(expected.dtype).flatten() for got, expected in both]),
            torch.cat([expected.flatten() for _, expected in both]),
        )
    return Compared(deviation, [f"{name}: {text}" for name, text in differs.items()], factor)


def wide(tensor: Tensor) -> torch.dtype:
    """The type in which its gradients are added up."""
    return torch.complex128 if tensor.is_complex() else torch.float64
