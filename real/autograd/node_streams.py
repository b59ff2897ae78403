"""The stream that a node's forward operation ran on, where its backward runs too.

Torch keeps it in the node (InputMetadata::stream, torch/csrc/autograd/input_metadata.h) and does
not tell Python. Nodes are numbered as they are made, so it is enough to note when another stream
becomes current: :func:`note_streams`, which whoever changes the current stream calls. The numbers
are those of one thread, in which all tasks of a simulation run.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import torch

_next_number: Any = torch._C._autograd._get_sequence_nr
#: how many changes of stream are kept for each device
_KEPT_MAX = 100_000


class _Noted:
    """Which stream was current from which node on; both lists have the same length."""

    __slots__ = ("numbers", "streams")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.streams: list[Any] = []


_NOTED: dict[torch.device, _Noted] = {}


def note_streams(device: torch.device, stream: Any) -> None:
    """``stream`` is the current one of ``device`` from here on."""
    noted = _NOTED.setdefault(device, _Noted())
    number = _next_number()
    if noted.numbers and noted.numbers[-1] == number:
        noted.streams[-1] = stream  # no node was made under the last one
        return
    noted.numbers.append(number)
    noted.streams.append(stream)
    if len(noted.numbers) > _KEPT_MAX:
        del noted.numbers[: _KEPT_MAX // 2], noted.streams[: _KEPT_MAX // 2]


def forget_streams() -> None:
    """Nothing that was noted counts any more: a new run begins."""
    _NOTED.clear()


def forward_stream(device: torch.device, sequence_nr: int) -> Any:
    """The stream that was current when the node of that number was made; None if nobody knows,
    which is so of leaves."""
    noted = _NOTED.get(device)
    if noted is None or sequence_nr >= _next_number():
        return None
    at = bisect_right(noted.numbers, sequence_nr)
    return noted.streams[at - 1] if at else None
