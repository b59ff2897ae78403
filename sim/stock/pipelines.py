"""Inside a process of a script on the engine ``torch``: schedules of pipelines (``torch.distributed.pipelining``), and
the gradients of their stages beside those of one process.

Each rank gives its stages as they were before a step, what it has called the schedule with, cut into microbatches, and
the gradients that its parameters have when the step is over. One process calls all stages one after the other.
"""

from __future__ import annotations

import functools
import inspect
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_map

from squall.real.native.here import Here
from squall.sim.stock.after_import import after_import
from squall.sim.stock.ddp_modules import after_method
from squall.sim.stock.digests import without_modes
from squall.sim.stock.gathered import Gathering, Gradient, UnknownError, check_size, wide
from squall.sim.world.places import line_of

#: by number of a stage and name of a parameter
Gradients = dict[tuple[int, str], Tensor]


class Given(NamedTuple):
    """What a rank gives of a step. ``stages``: modules by their number, pickled before it; ``calls``: of each
    microbatch, arguments, keyword arguments and target."""

    stages: bytes
    calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]]
    before: Gradients
    after: Gradients


def install(here: Here) -> None:
    """Watch schedules that are made from now on."""
    made: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def watch(schedule: Any) -> None:
        steps = _Steps(here, schedule, made)
        schedule._step_microbatches = steps.watched(schedule._step_microbatches)

    def imported(schedules: Any) -> None:
        kind = schedules._PipelineSchedule
        kind.__init__ = after_method(kind.__init__, [watch])

    after_import("torch.distributed.pipelining.schedules", imported)


class _Steps:
    """Of one schedule."""

    def __init__(
        self, here: Here, schedule: Any, made: Counter[tuple[str, tuple[int, ...]]]
    ) -> None:
        self._here, self._schedule, self._made = here, schedule, made
        self._gathering: Gathering | None = None

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(step)

        @functools.wraps(step)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not (self._schedule._has_backward and torch.is_grad_enabled()):
                return step(*args, **kwargs)
            if not self._gathered().next():
                return step(*args, **kwargs)
            words = parameters.bind(*args, **kwargs).arguments
            random = torch.get_rng_state()
            given: Given | str
            try:
                given = self._before(words)
            except UnknownError as error:
                given = str(error)
            result = step(*args, **kwargs)
            if not torch.equal(random, torch.get_rng_state()):
                given = "stages draw random numbers in another order"
            self._compare(given, words.get("loss_kwargs") or {})
            return result

        return called

    def _gathered(self) -> Gathering:
        if self._gathering is None:
            group = self._stages()[0].group
            ranks = tuple(dist.get_process_group_ranks(group or dist.group.WORLD))
            kind = type(self._schedule).__name__
            name = f"{kind} {self._made[kind, ranks]}"
            self._made[kind, ranks] += 1
            self._gathering = Gathering(self._here, name, ranks)
        return self._gathering

    def _stages(self) -> list[Any]:
        several: list[Any] | None = getattr(self._schedule, "_stages", None)
        return [self._schedule._stage] if several is None else several

    def _before(self, words: dict[str, Any]) -> Given:
        """Raises :class:`UnknownError`."""
        stages: dict[int, Module] = {each.stage_index: each.submod for each in self._stages()}
        check_size(parameter for each in stages.values() for parameter in each.parameters())
        count = self._schedule._n_microbatches
        pickled = io.BytesIO()
        with without_modes(), torch.no_grad():
            try:
                torch.save(stages, pickled)
            except Exception as error:
                raise UnknownError(f"a stage cannot be pickled: {error}") from None
            calls = zip(
                words.get("arg_mbs") or [()] * count,
                words.get("kwarg_mbs") or [{}] * count,
                words.get("target_mbs") or [None] * count,
                strict=True,
            )
            return Given(pickled.getvalue(), tree_map(_detached, [*calls]), self._gradients(), {})

    def _gradients(self) -> Gradients:
        return {
            (stage.stage_index, name): parameter.grad.detach().clone()
            for stage in self._stages()
            for name, parameter in stage.submod.named_parameters()
            if parameter.grad is not None
        }

    def _compare(self, given: Given | str, loss_words: dict[str, Any]) -> None:
        def give() -> Given:
            if isinstance(given, str):
                raise UnknownError(given)
            with without_modes(), torch.no_grad():
                return given._replace(after=self._gradients())

        def loss(output: Any, target: Any) -> Tensor:
            value: Tensor = self._schedule._loss_fn(output, target, **loss_words)
            return value / self._schedule._n_microbatches if self._schedule.scale_grads else value

        self._gathered().compare(
            line_of(sys._getframe()), give, lambda given_by: gradients_of(loss, given_by)
        )


def _detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def gradients_of(loss: Callable[[Any, Any], Tensor], given: dict[int, Given]) -> Iterator[Gradient]:
    """Those of all stages, and what they are in one process. ``loss``: a microbatch's part."""
    stages: dict[int, tuple[int, Module]] = {}
    for rank, each in given.items():
        modules = torch.load(io.BytesIO(each.stages), weights_only=False)
        stages |= {number: (rank, module) for number, module in modules.items()}
    named = {
        (number, name): parameter
        for number, (_, module) in stages.items()
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    expected = {key: torch.zeros_like(each, dtype=wide(each)) for key, each in named.items()}
    largest = dict.fromkeys(named, 0.0)

    def add(gradients: Any) -> None:
        for key, gradient in gradients:
            if gradient is not None:
                expected[key] += gradient
                largest[key] = max(largest[key], float(gradient.abs().max()))

    for each in given.values():
        add(item for item in each.before.items() if item[0] in named)
    numbers = sorted(stages)
    first, last = given[stages[numbers[0]][0]], given[stages[numbers[-1]][0]]
    with torch.enable_grad():
        for at, (args, _, _) in enumerate(first.calls):
            output: Any = args
            for number in numbers:
                rank, module = stages[number]
                inputs = output if isinstance(output, tuple) else (output,)
                output = module(*inputs, **given[rank].calls[at][1])
            part = loss(output, last.calls[at][2])
            add(
                zip(
                    named,
                    torch.autograd.grad(part, [*named.values()], allow_unused=True),
                    strict=True,
                )
            )
    for (number, name), value in expected.items():
        rank = stages[number][0]
        got = given[rank].after.get((number, name))
        yield Gradient(f"{name} of stage {number}", rank, got, value, largest[number, name])
