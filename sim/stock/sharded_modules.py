"""Inside a process of a script on the engine ``torch``: modules whose parameters are DTensors, as those of
``fully_shard`` and ``parallelize_module`` are, and their gradients beside those of one process.

Each rank keeps what it has called such a module with, what it draws random numbers from, and the gradients of what the
module has returned. At the end of a backward pass it gives that to the coordinator, with its parts of all parameters and
gradients, and the last rank of a pass gets what all have given: it computes what one process comes to that has whole
parameters and the batches of all (sim/stock/whole_model.py).
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._pytree import tree_flatten, tree_map

from squall.real.native.here import Here
from squall.sim.stock.after_import import after_import
from squall.sim.stock.ddp_modules import after_method
from squall.sim.stock.digests import without_modes
from squall.sim.stock.gathered import Gathering, UnknownError, check_size
from squall.sim.stock.local_gradients import frames_of_passes
from squall.sim.stock.whole_model import Given, ModuleCall, Shard, gradients_of, why_not_all
from squall.sim.world.places import line_of

#: a callback of a pass that adds itself so often comes behind those of ``fully_shard``
_CALLBACKS = 3
#: so many are kept until their gradients are exchanged
_MOST_CALLS = 64
_NO_PASS = -1
#: of the arguments of a pass, the tensors that it is for, if it is not for all
_INPUTS = 3
_engine: Any = torch.autograd.Variable._execution_engine
_mesh: Any = vars(dist)["DeviceMesh"]


def install(here: Here) -> None:
    """Watch modules from the first DeviceMesh on, without which there are no DTensors."""
    watch: list[_Watch] = []

    def made(_: object) -> None:
        if not watch:
            watch.append(_Watch(here))

    _mesh.__init__ = after_method(_mesh.__init__, [made])


class _Watch:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._modules: WeakKeyDictionary[Module, _Sharded] = WeakKeyDictionary()
        self._made: Counter[tuple[int, ...]] = Counter()
        #: the outermost module that runs, and what is kept of its call
        self._running: tuple[Module, ModuleCall] | None = None
        self._inputs: list[Any] = []
        after_import("torch.distributed.tensor._api", self._see_parts)
        register_module_forward_pre_hook(self._begins)
        register_module_forward_hook(self._ends, with_kwargs=True, always_call=True)

    def _see_parts(self, api: Any) -> None:
        from_local = api.DTensor.from_local

        @functools.wraps(from_local)
        def taken(*args: Any, **kwargs: Any) -> Any:
            found = from_local(*args, **kwargs)
            if self._running is not None and any(each.is_shard() for each in found.placements):
                self._running[1].takes_parts |= any(args[0] is each for each in self._inputs)
            return found

        api.DTensor.from_local = staticmethod(taken)

    def _begins(self, module: Module, args: tuple[Any, ...]) -> None:
        if self._running is not None or not torch.is_grad_enabled():
            return
        if torch.compiler.is_compiling() or torch._C._current_graph_task_id() != _NO_PASS:
            return  # in a backward pass a checkpoint computes once more
        if module not in self._modules and not self._is_new(module):
            return
        with without_modes(), torch.no_grad():
            buffers = {n: e.clone() for n, e in module.named_buffers() if type(e) is Tensor}
            call = ModuleCall(_copied(args), torch.get_rng_state(), buffers)
        call.why_not = _why_not(module)
        self._running, self._inputs = (module, call), tree_flatten(args)[0]

    def _is_new(self, module: Module) -> bool:
        """Whether it has DTensors, which ``fully_shard`` takes away while it runs."""
        ranks = _ranks_of(module)
        if ranks:
            name = f"{type(module).__name__} {self._made[ranks]} of several ranks"
            self._made[ranks] += 1
            self._modules[module] = _Sharded(self._here, module, name, ranks)
        return bool(ranks)

    def _ends(self, module: Module, args: Any, kwargs: Any, output: Any) -> None:
        if self._running is None or self._running[0] is not module:
            return
        _, call = self._running
        self._running, self._inputs = None, []
        if output is None:  # it has raised
            return
        with without_modes(), torch.no_grad():
            call.kwargs = _copied(kwargs)
        self._modules[module].called(module, call, output)


class _Sharded:
    """One module; ``name``: on all ``ranks``."""

    def __init__(self, here: Here, module: Module, name: str, ranks: tuple[int, ...]) -> None:
        self._parameters = {
            n: weakref.ref(e)
            for n, e in module.named_parameters()
            if e.requires_grad and _is_dtensor(e)
        }
        self._gathering = Gathering(here, name, ranks)
        #: calls whose outputs have got gradients that are not exchanged yet, and parts of gradients before
        self._calls: list[ModuleCall] = []
        self._before: dict[str, Tensor] = {}
        self._place = ""

    def called(self, module: Module, call: ModuleCall, output: Any) -> None:
        """It has returned. What it has returned keeps it, of which a script may have no name any more."""
        leaves = tree_flatten((call.args, call.kwargs, output))[0]
        is_parted = set(self._gathering.ranks) != set(_together(module))
        if any(map(_is_dtensor, leaves)):
            call.why_not = "it takes or returns DTensors"
        elif is_parted and not torch.equal(call.random, torch.get_rng_state()):
            call.why_not = "each rank draws random numbers for a part of a tensor"
        for at, leaf in enumerate(tree_flatten(output)[0]):
            if isinstance(leaf, Tensor) and leaf.requires_grad:
                leaf.register_hook(partial(self._comes, module, call, at))

    def _comes(self, module: Module, call: ModuleCall, at: int, gradient: Tensor) -> None:
        """A backward pass reaches what a call has returned."""
        if torch.compiler.is_compiling():
            return
        passes = frames_of_passes()
        if passes and not passes[0].f_locals["kwargs"].get("accumulate_grad", True):
            return  # torch.autograd.grad
        if passes and passes[0].f_locals["args"][_INPUTS]:
            call.why_not = "the pass is for some tensors alone"
        with without_modes(), torch.no_grad():
            if not call.why_not:
                before = call.gradients.get(at)
                call.gradients[at] = gradient.clone() if before is None else before + gradient
            if not self._place:
                self._place = line_of(sys._getframe())
                have: dict[str, Any] = {name: each() for name, each in self._parameters.items()}
                self._before = {
                    name: each.grad._local_tensor.clone()
                    for name, each in have.items()
                    if each is not None and each.grad is not None
                }
                _engine.queue_callback(partial(self._over, module, _CALLBACKS))
        if not any(each is call for each in self._calls):
            self._calls.append(call)

    def _over(self, module: Module, callbacks: int) -> None:
        """A backward pass comes to its end."""
        if callbacks:
            _engine.queue_callback(partial(self._over, module, callbacks - 1))
            return
        place, self._place = self._place, ""
        if not _is_exchanged(module):
            if len(self._calls) > _MOST_CALLS:
                self._calls = self._calls[-1:]
                self._calls[0].why_not = "gradients of too many calls are added up"
            return
        calls, self._calls = self._calls, []
        if not self._gathering.next():
            return
        rank = dist.get_rank()
        self._gathering.compare(
            place,
            lambda: self._given(module, calls),
            lambda given: gradients_of(module, rank, given),
            why_not_all,
        )

    def _given(self, module: Module, calls: list[ModuleCall]) -> Given:
        """Raises :class:`UnknownError`."""
        for why_not in (each.why_not for each in calls):
            if why_not:
                raise UnknownError(why_not)
        parameters: dict[str, Any] = {name: each() for name, each in self._parameters.items()}
        if None in parameters.values():
            raise UnknownError("its parameters are others than at its first call")
        parts = {}
        with without_modes(), torch.no_grad():
            check_size(each._local_tensor for each in parameters.values())
            for name, parameter in parameters.items():
                gradient, came = parameter.grad, None
                if gradient is not None:
                    if any(each.is_partial() for each in gradient.placements):
                        raise UnknownError("gradients are DTensors with partial sums")
                    came = _shard(gradient, gradient._local_tensor - self._before.get(name, 0))
                parts[name] = _shard(parameter, parameter._local_tensor), came
        return Given(_together(module), calls, parts)


def _shard(tensor: Any, local: Tensor) -> Shard:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(
        tensor.shape, tensor.device_mesh, tensor.placements
    )
    return Shard(tuple(offset), tuple(tensor.shape), local.detach().clone())


def _is_dtensor(tensor: object) -> bool:
    kind: Any = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return kind is not None and isinstance(tensor, kind)


def _ranks_of(module: Module) -> tuple[int, ...]:
    """Of all meshes that have a part of it."""
    ranks: set[int] = set()
    for parameter in module.parameters():
        if _is_dtensor(parameter):
            ranks.update(parameter.device_mesh.mesh.flatten().tolist())  # type: ignore[attr-defined]
    return tuple(sorted(ranks))


def _groups(module: Module) -> list[Any]:
    """What ``fully_shard`` keeps of its parameters."""
    kind: Any = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    found: list[Any] = []
    for each in () if kind is None else module.modules():
        if isinstance(each, kind):
            state: Any = each._get_fsdp_state()
            found += getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
    return [each for each in found if each is not None]


def _is_exchanged(module: Module) -> bool:
    return all(
        each.reduce_grads and getattr(each, "all_reduce_grads", True) for each in _groups(module)
    )


def _together(module: Module) -> tuple[int, ...]:
    for group in _groups(module):
        return tuple(group.mesh_info.mesh.mesh.flatten().tolist())
    return (dist.get_rank(),)


def _why_not(module: Module) -> str:
    """Why one process would come to something else."""
    groups = _groups(module)
    # Of a group up to torch 2.14, of a parameter since.
    policies = [
        each.mp_policy
        for group in groups
        for each in ([group] if hasattr(group, "mp_policy") else group.fsdp_params)
    ]
    if any(each.param_dtype or each.reduce_dtype for each in policies):
        return "mixed precision rounds"
    if len({tuple(each.mesh_info.mesh.mesh.flatten().tolist()) for each in groups}) > 1:
        return "its parts are sharded over several meshes"
    if torch.is_autocast_enabled("cpu"):
        return "autocast rounds"
    return ""


def _copied(values: Any) -> Any:
    """Tensors in it are copies."""
    return tree_map(lambda each: each.detach().clone() if type(each) is Tensor else each, values)
