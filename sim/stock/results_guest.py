"""Inside a process of a script on the engine ``torch``: what a collective was given, and what came out of it.

It is read from the tensors themselves, when the collective is called and when its work is over, for the
coordinator to compare with the definition (sim/stock/results.py).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squall.sim.stock.digests import Elements, digest, elements, without_modes

#: of so many elements of a collective on each rank all are looked at; of more, so many at equal distances
_MOST = 100_000
_SAMPLE = 4_096
_IN_PLACE = ("all_reduce", "reduce", "broadcast", "send")


class MemberReport(NamedTuple):
    """By one member: what its call was about (:attr:`Operation.agreed` of sim/scripts/collectives.py), the smallest relative
    difference of its numbers (0: they are exact), what it gave and what it got, in parts; ``least``: the
    smallest number that it has, near which differences are no smaller; ``in_one_piece``: whether each tensor lies so."""

    agreed: dict[str, str]
    precision: float
    given: list[Elements]
    results: list[Elements]
    is_good: bool
    least: float = 0.0
    in_one_piece: bool = True


class Taken:
    """What one member's call is about. ``what`` and ``args`` are those of ``Member.run``."""

    def __init__(self, what: str, args: tuple[Any, ...], size: int) -> None:
        with without_modes():
            self._given, self._results = _units(what, args, size)
            self._is_looked_at = all(
                each.layout == torch.strided for each in (*self._given, *self._results)
            )
            self._before = self._digests()
            self.given = self._sample(self._given)
            self.in_one_piece = all(
                each.layout != torch.strided or each.is_contiguous()
                for each in (*self._given, *self._results)
            )
        about = [_precision(dtype) for dtype in {each.dtype for each in self._given}]
        self.precision = max((eps for eps, _ in about), default=0.0)
        self.least = max((least for _, least in about), default=0.0)

    def filled(self, others: Iterable[Taken]) -> None:
        """Its results are there, which may be tensors of ``others`` under way, too: two receives of PyTorch's
        pipelines have one buffer, in which nobody looks."""
        places = self._places()
        for other in others:
            if places & other._places():
                with without_modes():
                    other._before = other._digests()

    def _places(self) -> set[int]:
        return {each.data_ptr() for each in self._results} if self._is_looked_at else set()

    def is_written(self) -> bool:
        """Whether anybody has written to its tensors since the call; memory that was given back is not looked
        at."""
        with without_modes():
            return any(
                before != now
                for before, now in zip(self._before, self._digests(), strict=True)
                if now is not None
            )

    def results(self) -> list[Elements]:
        """What is in the tensors for its results now."""
        with without_modes():
            return self._sample(self._results)

    def _digests(self) -> list[int | None]:
        if not self._is_looked_at:
            return []
        return [
            digest(each) if each.untyped_storage().nbytes() else None
            for each in {id(each): each for each in (*self._given, *self._results)}.values()
        ]

    def _sample(self, units: list[Tensor]) -> list[Elements]:
        if not self._is_looked_at:
            return []
        count = sum(each.numel() for each in units)
        every = 1 if count <= _MOST else count // _SAMPLE
        return [elements(each, every) for each in units]


def _units(what: str, args: tuple[Any, ...], size: int) -> tuple[list[Tensor], list[Tensor]]:
    """Given and results, each in parts of which a member sends or gets whole ones: those of the first
    member first."""
    if not args:
        return [], []
    if what == "recv":
        return [], _flat(args[0])
    if what in _IN_PLACE:
        return _flat(args[0]), [] if what == "send" else _flat(args[0])
    results, given = _flat(args[0]), _flat(args[1])
    if what == "all_gather_into_tensor":
        results = _split(results, size)
    elif what == "reduce_scatter_tensor":
        given = _split(given, size)
    elif what == "all_to_all_single":
        results, given = (
            list(whole[0].detach().split(sizes or whole[0].size(0) // size))
            for whole, sizes in ((results, args[2]), (given, args[3]))
        )
    return given, results


@functools.cache
def _precision(dtype: torch.dtype) -> tuple[float, float]:
    """``MemberReport.precision`` and ``MemberReport.least``; numbers that are exact have neither."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0, 0.0
    about = torch.finfo(dtype)
    return about.eps, about.smallest_normal * about.eps


def _flat(tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    return [tensor for each in tensors for tensor in _flat(each)]


def _split(tensors: list[Tensor], size: int) -> list[Tensor]:
    parts = [
        # Views: what is reshaped may be a copy.
        whole.unflatten(0, (size, -1)) if whole.size(0) % size == 0 else whole.reshape(size, -1)
        for whole in map(Tensor.detach, tensors)
    ]
    return [part[member] for member in range(size) for part in parts]
