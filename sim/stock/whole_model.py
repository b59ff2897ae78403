"""What one process comes to that has whole parameters and the batches of all ranks, instead of modules whose parameters
are DTensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_flatten

from squall.sim.scripts.reference import Alone
from squall.sim.stock.gathered import Gradient, wide


class Shard(NamedTuple):
    """A rank's part of a tensor: where it begins in the whole, whose ``shape`` is."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    local: Tensor


@dataclass
class ModuleCall:
    """Of a module, by one rank: what it was called with, what it drew random numbers from, its buffers before, and, by
    their place among all that it has returned, the gradients of tensors."""

    args: tuple[Any, ...]
    random: Tensor
    buffers: dict[str, Tensor]
    kwargs: dict[str, Any] = field(default_factory=dict)
    gradients: dict[int, Tensor] = field(default_factory=dict)
    #: whether what it was called with was taken for a part of what several ranks have
    takes_parts: bool = False
    #: the module may have rounded, or has computed with what only this rank has
    why_not: str = ""


@dataclass
class Given:
    """What a rank gives at the end of a backward pass. ``parts``: by parameter, that and its gradient, if it has one;
    ``together``: the ranks over which gradients are averaged."""

    together: tuple[int, ...]
    calls: list[ModuleCall]
    parts: dict[str, tuple[Shard, Shard | None]]


def why_not_all(given: dict[int, Given]) -> str:
    """Ranks that have parts of the same parameters are to be called with the same, unless it is parts, too: of what, their
    module knows alone."""
    alike: dict[int, list[ModuleCall]] = {}
    for rank, each in given.items():
        for number, call in enumerate(each.calls):
            alike.setdefault(len(each.calls) * each.together.index(rank) + number, []).append(call)
    for first, *others in alike.values():
        if first.takes_parts and any(not _same(first, other) for other in others):
            return "ranks call it with parts of what one process would call it with"
    return ""


def _same(one: ModuleCall, other: ModuleCall) -> bool:
    leaves = [tree_flatten((each.args, each.kwargs))[0] for each in (one, other)]
    tensors = [[each for each in of if isinstance(each, Tensor)] for of in leaves]
    return len(tensors[0]) == len(tensors[1]) and all(map(torch.equal, tensors[0], tensors[1]))


def gradients_of(module: Module, rank: int, given: dict[int, Given]) -> Iterator[Gradient]:
    """Those of all ranks, and what they are in one process."""
    expected, largest = _expected(module, rank, given)
    for name in expected:
        for other, each in given.items():
            whole, part = each.parts[name]
            got = None if part is None else part.local
            yield Gradient(name, other, got, _part(expected[name], part or whole), largest[name])


def _expected(
    module: Module, rank: int, given: dict[int, Given]
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """By parameter, the mean of the gradients of those ranks whose gradients are averaged, and the
    largest element of any of them."""
    parameters = dict(module.named_parameters())
    whole = {
        id(parameters[name]): _assembled([each.parts[name][0] for each in given.values()])
        for name in given[rank].parts
    }
    expected, largest = dict[str, Tensor](), dict[str, float]()
    with Alone(module, lambda tensor: whole.get(id(tensor), tensor)) as alone, torch.enable_grad():
        named = {n: p for n, p in alone.module.named_parameters() if n in given[rank].parts}
        for name, parameter in named.items():
            expected[name] = torch.zeros_like(parameter, dtype=wide(parameter))
            largest[name] = 0.0
        together = given[rank].together
        for call in (each for other in together for each in given[other].calls):
            gradients = _gradients(alone.module, call, [*named.values()])
            for name, gradient in zip(named, gradients, strict=True):
                if gradient is not None:
                    expected[name] += gradient / len(together)
                    largest[name] = max(largest[name], float(gradient.abs().max()))
    return {name: each.detach() for name, each in expected.items()}, largest


def _gradients(
    module: Module, call: ModuleCall, parameters: list[Tensor]
) -> Sequence[Tensor | None]:
    """Of one call."""
    torch.set_rng_state(call.random)
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            if name in call.buffers:
                buffer.copy_(call.buffers[name])
    leaves = tree_flatten(module(*call.args, **call.kwargs))[0]
    at = [place for place in call.gradients if leaves[place].requires_grad]
    return torch.autograd.grad(
        [leaves[place] for place in at],
        parameters,
        [call.gradients[place] for place in at],
        allow_unused=True,
    )


def _assembled(parts: list[Shard]) -> Tensor:
    whole = torch.empty(parts[0].shape, dtype=parts[0].local.dtype)
    for part in parts:
        _part(whole, part).copy_(part.local)
    return whole


def _part(whole: Tensor, part: Shard) -> Tensor:
    sizes = zip(part.offset, part.local.shape, strict=True)
    return whole[tuple(slice(at, at + size) for at, size in sizes)]
