"""Inside a process of a script on the engine ``torch`` whose links have costs: when optimizers make steps, and when in a
backward pass gradients are there.

DistributedDataParallel exchanges gradients while the pass goes on. So the pass takes its time bit by bit, for each parameter of
such a module, before its gradient is exchanged, the part that this one has of the module's elements.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakSet

from torch import Tensor
from torch.nn import Module
from torch.optim.optimizer import register_optimizer_step_post_hook

from squall.real.native.here import Here
from squall.sim.scripts.computing import Computing
from squall.sim.stock.ddp_modules import DdpModules


def install(here: Here, modules: DdpModules, computing: Computing | None) -> None:
    """Tell the coordinator of steps from now on."""
    register_optimizer_step_post_hook(lambda *_: here.tell("step"))
    if computing is not None:
        modules.on_forward.append(partial(_watch, computing, WeakSet()))


def _watch(computing: Computing, known: WeakSet[Module], module: Any) -> None:
    """A module begins a forward pass, perhaps its first."""
    if module in known:
        return
    known.add(module)
    parameters = [each for each in module.parameters() if each.requires_grad]
    elements = sum(each.numel() for each in parameters)
    for each in parameters:
        each.register_hook(partial(_ready, computing, each.numel() / elements))


def _ready(computing: Computing, part: float, gradient: Tensor) -> None:
    computing.part_of_backward(part)
