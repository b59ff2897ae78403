"""What one process comes to that has whole parameters and the batches of all ranks, instead of modules whose parameters
are DTensors: computed in a copy of a process of a script, of which nothing stays.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_flatten

from squall.model.program.compare import EXACT, TOLERANCES, Tolerance, common_factor, compare
from squall.real.native.here import Here
from squall.sim.scripts.reference import Alone
from squall.sim.stock import turn_guest

#: real seconds that it may take, fewer than the coordinator waits for a process that does nothing
_LIMIT_S = 25.0
#: before they are those of simulated processes
_fork, _kill, _waitpid = os.fork, os.kill, os.waitpid


class Shard(NamedTuple):
    """A rank's part of a tensor: where it begins in the whole, whose ``shape`` is."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    local: Tensor


@dataclass
class Call:
    """Of a module, by one rank: what it was called with, what it drew random numbers from, its buffers before, and, by
    their place among all that it has returned, the gradients of tensors."""

    args: tuple[Any, ...]
    random: Tensor
    buffers: dict[str, Tensor]
    kwargs: dict[str, Any] = field(default_factory=dict)
    gradients: dict[int, Tensor] = field(default_factory=dict)
    #: the module may have rounded, or has computed with what only this rank has
    why_not: str = ""


@dataclass
class Given:
    """What a rank gives at the end of a backward pass. ``parts``: by parameter, that and its gradient, if it has one;
    ``together``: the ranks over which gradients are averaged."""

    together: tuple[int, ...]
    calls: list[Call]
    parts: dict[str, tuple[Shard, Shard | None]]


class Compared(NamedTuple):
    """``deviation``: the largest one; ``differs``: by parameter what is other than in one process; ``factor``: what
    all gradients have been multiplied with, if that is it."""

    deviation: float
    differs: list[str]
    factor: float | None


def compared(module: Module, rank: int, given: dict[int, Given]) -> Compared | str:
    """The gradients of all ranks beside those of one process, or why they cannot be compared."""
    reads, writes = os.pipe()
    with turn_guest.unseen():
        process = _fork()
    if not process:
        _say(writes, module, rank, given)
    os.close(writes)
    try:
        return _heard(reads)
    finally:
        os.close(reads)
        _kill(process, signal.SIGKILL)
        _waitpid(process, 0)


def _heard(reads: int) -> Compared | str:
    said = b""
    while select.select([reads], [], [], _LIMIT_S)[0]:
        more = os.read(reads, 1 << 16)
        said += more
        if not more:
            heard: Compared | str = (
                pickle.loads(said) if said else "the process that computes it ended"
            )
            return heard
    return f"one process takes longer than {_LIMIT_S:g} s for it"


def _say(writes: int, module: Module, rank: int, given: dict[int, Given]) -> None:
    """In the copy, which ends here."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        torch.set_num_threads(1)
        vars(Here.process()).update(ask=_refuse, ask_then=_refuse)
        said: Compared | str = _compare(module, rank, given)
    except Exception as error:
        said = f"one process cannot do it: {type(error).__name__}: {error}"
    try:
        os.write(writes, pickle.dumps(said))
    finally:
        _kill(os.getpid(), signal.SIGKILL)


def _refuse(*_: object) -> NoReturn:
    raise RuntimeError("it calls other ranks")


def _compare(module: Module, rank: int, given: dict[int, Given]) -> Compared:
    expected, largest = _expected(module, rank, given)
    pairs = [
        (name, other, None if part is None else part.local, _part(expected[name], part or whole))
        for name in expected
        for other, (whole, part) in ((other, each.parts[name]) for other, each in given.items())
    ]
    deviation, differs = 0.0, dict[str, str]()
    for name, other, got, wanted in pairs:
        if got is None:
            complaint = "has no gradient" if bool(wanted.any()) else None
        else:
            usual = TOLERANCES.get(got.dtype, EXACT)
            # What cancels out has the rounding errors of what it was.
            absolute = usual.absolute + usual.relative * largest[name]
            found = compare(got.double(), wanted, tolerance=Tolerance(usual.relative, absolute))
            deviation, complaint = max(deviation, found.deviation), found.complaint
        if complaint and name not in differs:
            differs[name] = f"rank {other}: {complaint}"
    factor = None
    if differs and not any("has no gradient" in each for each in differs.values()):
        both = [(got, wanted) for _, _, got, wanted in pairs if got is not None]
        factor = common_factor(
            torch.cat([got.double().flatten() for got, _ in both]),
            torch.cat([wanted.flatten() for _, wanted in both]),
        )
    return Compared(deviation, [f"{name}: {text}" for name, text in differs.items()], factor)


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
            expected[name], largest[name] = torch.zeros_like(parameter, dtype=torch.float64), 0.0
        together = given[rank].together
        for call in (each for other in together for each in given[other].calls):
            gradients = _gradients(alone.module, call, [*named.values()])
            for name, gradient in zip(named, gradients, strict=True):
                if gradient is not None:
                    expected[name] += gradient / len(together)
                    largest[name] = max(largest[name], float(gradient.abs().max()))
    return {name: each.detach() for name, each in expected.items()}, largest


def _gradients(module: Module, call: Call, parameters: list[Tensor]) -> Sequence[Tensor | None]:
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
