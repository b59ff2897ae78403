"""``squall.reference``: the gradients of a distributed model beside those that one process computes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from squall.model.one_process.reference import MAX_DESCRIBED, GradientSummary
from squall.model.program.compare import TOLERANCES, Tolerance, compare
from squall.sim.world.places import place_of

#: what each comparison is told to: the user's line, the deviation, what differs
OnCompared = Callable[[str, float, list[str]], object]

_on_compared: list[OnCompared] = []
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Comparisons:
    """Those of one run."""

    def __init__(self) -> None:
        self.compared = 0
        self._deviation = 0.0
        self._differs: list[str] = []
        self._not_comparable: list[str] = []

    def add(self, place: str, deviation: float, differs: list[str]) -> None:
        self.compared += 1
        self._deviation = max(self._deviation, deviation)
        self._differs += [f"{place}: {each}" for each in differs]

    def leave_out(self, why: str) -> None:
        """One could not be compared."""
        self._not_comparable.append(why)

    def with_those_of(self, passes: GradientSummary) -> GradientSummary:
        """Together with the passes of distributed autograd."""
        differs = [*passes.mismatches, *self._differs]
        more = [f"… and {len(differs) - MAX_DESCRIBED} more"] if differs[MAX_DESCRIBED:] else []
        return replace(
            passes,
            passes=passes.passes + self.compared + len(self._not_comparable),
            compared=passes.compared + self.compared,
            max_deviation=max(passes.max_deviation, self._deviation),
            not_comparable=[*passes.not_comparable, *self._not_comparable],
            mismatches=[*differs[:MAX_DESCRIBED], *more],
        )


@contextmanager
def told_to(on_compared: OnCompared) -> Iterator[None]:
    """A run compares gradients here; outside of one what differs is raised."""
    _on_compared.append(on_compared)
    try:
        yield
    finally:
        _on_compared.remove(on_compared)


def reference(
    model: Module,
    batch: Any,
    loss: Callable[[Any], Tensor],
    *,
    tolerance: float | None = None,
) -> None:
    """Compare the gradients that ``model`` has with those of one process that has the whole batch.

    For all ranks to call, after their backward pass and before an optimizer uses its gradients. The model is called
    without ``DistributedDataParallel``, ``FullyShardedDataParallel``, ``fully_shard`` and ``parallelize_module``, with
    whole parameters (which takes collectives where they are sharded); ``loss`` is called with what it makes of
    ``batch`` and gives one number, and ``torch.autograd.grad`` its gradients.

        loss = mse_loss(model(inputs[rank::size]), targets[rank::size])
        loss.backward()
        squall.reference(model, inputs, lambda outputs: mse_loss(outputs, targets))

    ``batch``: a tensor, or a tuple or a dict of arguments, the same on all ranks. ``tolerance``: the largest difference
    that is no error, relative to the largest element of a gradient; by the dtype if there is none.

    In a run of squall what differs is its outcome, ``gradients differ``; it goes on. Elsewhere AssertionError is raised.
    Raises ValueError for a module with ``use_orig_params=False``, whose gradients have no parameters.
    """
    with _whole(model), Alone(model) as alone, torch.random.fork_rng(devices=[]):
        named = {name: p for name, p in alone.module.named_parameters() if p.requires_grad}
        gradients = {name: alone.gradient(each) for name, each in named.items()}
        with torch.enable_grad():
            outputs = _called(alone.module, batch)
            expected = torch.autograd.grad(loss(outputs), [*named.values()], allow_unused=True)
    deviation, differs = 0.0, []
    for (name, got), wanted in zip(gradients.items(), expected, strict=True):
        if got is None:
            if wanted is not None and bool(wanted.any()):
                differs.append(f"{name}: there is no gradient")
            continue
        wanted = torch.zeros_like(got) if wanted is None else wanted
        found = compare(got, wanted, tolerance=_tolerance(got.dtype, tolerance))
        deviation = max(deviation, found.deviation)
        differs += [f"{name}: {found.complaint}"] if found.complaint else []
    place = place_of(sys._getframe(1))
    if _on_compared:
        _on_compared[-1](place, deviation, differs)
    elif differs:
        raise AssertionError("gradients differ from those of one process: " + "; ".join(differs))


def _called(model: Module, batch: Any) -> Any:
    match batch:
        case tuple():
            return model(*batch)
        case dict():
            return model(**batch)
    return model(batch)


def _tolerance(dtype: torch.dtype, relative: float | None) -> Tolerance | None:
    if relative is None:
        return None
    usual = TOLERANCES.get(dtype)
    return Tolerance(relative, usual.absolute if usual else 0.0)


def _whole(model: Module) -> AbstractContextManager[Any]:
    """While it is entered, modules of FullyShardedDataParallel have all of their parameters."""
    fsdp = _type("torch.distributed.fsdp", "FullyShardedDataParallel")
    if fsdp is None or not (wrapped := fsdp.fsdp_modules(model)):
        return nullcontext()
    if not all(each._use_orig_params for each in wrapped):
        raise ValueError(
            "model: FullyShardedDataParallel needs use_orig_params=True to be compared"
        )
    whole: AbstractContextManager[Any] = fsdp.summon_full_params(
        model, writeback=False, with_grads=True
    )
    return whole


def _type(module: str, name: str) -> Any:
    """A class, if its module has been imported: who has not has no object of it."""
    return getattr(sys.modules.get(module), name, None)


class Alone:
    """While it is entered, ``module`` is the model as one process has it: without wrappers, without hooks of
    ``torch.distributed``, with whole parameters, and with buffers of its own. ``whole_of``: makes a whole tensor of a
    part, or gives what is whole as it is."""

    def __init__(self, model: Module, whole_of: Callable[[Tensor], Tensor] | None = None) -> None:
        self.module = _unwrapped(model)
        self._whole_of = whole_of or _whole_of
        self._parameters: dict[int, Parameter] = {}
        #: by id of one of those: the gradient of what it stands for
        self._gradients: dict[int, Tensor | None] = {}
        self._before: list[tuple[Module, type[Module], dict[str, Any]]] = []

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """The whole one."""
        return self._gradients.get(id(parameter), parameter.grad)

    def __enter__(self) -> Alone:
        try:
            for module in {id(each): _unwrapped(each) for each in self.module.modules()}.values():
                self._change(module)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for module, kind, attributes in reversed(self._before):
            module.__class__ = kind
            vars(module).clear()
            vars(module).update(attributes)

    def _change(self, module: Module) -> None:
        self._before.append((module, type(module), dict(vars(module))))
        sharded = _type("torch.distributed.fsdp", "FSDPModule")
        if sharded is not None and isinstance(module, sharded):
            module.__class__ = type(module).__bases__[1]  # fully_shard has made it of these two
        own: Any = vars(module)
        for hooks in _HOOKS:
            own[hooks] = OrderedDict(
                (key, hook)
                for key, hook in own[hooks].items()
                if not str(getattr(hook, "__module__", "")).startswith("torch.distributed.")
            )
        own["_buffers"] = {
            n: e if e is None else self._whole_of(e).clone() for n, e in own["_buffers"].items()
        }
        own["_modules"] = {n: e if e is None else _unwrapped(e) for n, e in own["_modules"].items()}
        parameters, own["_parameters"] = own["_parameters"], dict(own["_parameters"])
        for name, parameter in parameters.items():
            whole = None if parameter is None else self._whole(parameter)
            if whole is parameter:
                continue
            if type(module).__setattr__ is Module.__setattr__:
                own["_parameters"][name] = whole
            else:  # recurrent modules have lists of them
                own.update({key: [*e] for key, e in own.items() if type(e) is list})
                setattr(module, name, whole)

    def _whole(self, parameter: Tensor) -> Tensor:
        whole = self._whole_of(parameter)
        if whole is parameter:
            return parameter
        if id(parameter) not in self._parameters:
            made = Parameter(whole, parameter.requires_grad)
            self._parameters[id(parameter)] = made
            grad = parameter.grad
            self._gradients[id(made)] = None if grad is None else self._whole_of(grad)
        return self._parameters[id(parameter)]


def _unwrapped(module: Module) -> Module:
    while _is_wrapper(module):
        module = module.get_submodule("module")
    return module


def _is_wrapper(module: Module) -> bool:
    kinds = (
        _type("torch.nn.parallel", "DistributedDataParallel"),
        _type("torch.distributed.fsdp", "FullyShardedDataParallel"),
    )
    return isinstance(module, tuple(each for each in kinds if each is not None))


def _whole_of(tensor: Tensor) -> Tensor:
    kind = _type("torch.distributed.tensor", "DTensor")
    whole: Tensor = tensor.detach().full_tensor() if kind and isinstance(tensor, kind) else tensor
    return whole
