"""What an operator of PyTorch does to its arguments, as its schema says."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch


class Operator(NamedTuple):
    """What the schema of an operator says."""

    is_view: bool
    #: positions and names of arguments that are written to
    written: tuple[tuple[int, str], ...]
    #: whether it draws random numbers
    random: bool


@functools.cache
def operator(func: Any) -> Operator:
    """What the schema of an ATen operator says."""
    schema = func._schema
    written = tuple(
        (i, argument.name)
        for i, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    returns_alias = any(returned.alias_info is not None for returned in schema.returns)
    random = torch.Tag.nondeterministic_seeded in func.tags
    return Operator(returns_alias and not written, written, random)
