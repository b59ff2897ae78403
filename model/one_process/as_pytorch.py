"""What PyTorch makes of a program's gradients where that is not what mathematics says.

Three references compute a program in one process:

- :func:`squall.model.one_process.interpreter.interpret` keeps a gradient of its own for each leaf:
  mathematics. The port follows it, always.
- :func:`interpret_locally` leaves ``.grad`` to PyTorch, as plain ``loss.backward()`` does. Two
  leaves may then have one gradient (pytorch/pytorch#34082).
- :func:`interpret_as_pytorch` sends tensors as messages, and accumulates in a context by the rules
  of torch/csrc/distributed/autograd/context/context.cpp: two leaves may have one gradient, on one worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squall.model.one_process.interpreter import Interpreter
from squall.model.one_process.outcome import Gradients, Outcome, StepOutcome
from squall.model.program.kind import Value
from squall.model.program.operations import PlantedError, compute, join
from squall.model.program.program import REFERENCE_CALLS, Op, Program, Step


def interpret_locally(program: Program) -> Outcome:
    """Run a program as plain local use would, ``.grad`` and all."""
    return _Local(program).run()


def interpret_as_pytorch(program: Program, *, shared: bool = True) -> Outcome:
    """Run a program as PyTorch's workers do. Roots and values are those of one process. ``shared``: the first gradient
    of a leaf is taken over, not copied, also where it is a view of a tensor that another leaf has taken over: what is
    added to one is then added to both. Plain local use does the same."""
    return _AsPyTorch(program, shared).run()


class _Local(Interpreter):
    def _gradients(self) -> Gradients:
        return {
            number: leaf.grad.detach().clone()
            for number, leaf in enumerate(self.leaves)
            if leaf.grad is not None
        }


class _Travel(torch.autograd.Function):
    """A message: copies of tensors, and of their gradients on the way back."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.detach().clone() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return tuple(_copied(grads))


def _copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies that share storages where the tensors do."""
    storages: dict[int, Any] = {}
    copies = []
    for tensor in tensors:
        if tensor.layout != torch.strided:
            copies.append(tensor.clone())
            continue
        tensor = tensor.resolve_conj().resolve_neg()
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in storages:
            storages[storage.data_ptr()] = storage.clone()
        copy, empty = storages[storage.data_ptr()], torch.empty(0, dtype=tensor.dtype)
        copies.append(empty.set_(copy, tensor.storage_offset(), tensor.shape, tensor.stride()))
    return copies


class _Made(NamedTuple):
    """A value: on which worker it is, and its tensors there."""

    place: int
    there: tuple[Tensor, ...]


class _AsPyTorch(Interpreter):
    """Follows :class:`squall.model.one_process.flow.Flow`, with tensors."""

    def __init__(self, program: Program, shared: bool) -> None:
        super().__init__(program)
        self._shared = shared
        self._where = (0, 0)
        self._made: list[_Made] = []
        #: by value: as the trainer has it
        self._fetched: dict[int, tuple[Tensor, ...]] = {}
        self._grads: Gradients = {}

    def _attempt(self, trainer: int, number: int, step: Step, *, faults: bool) -> StepOutcome:
        self._where = (trainer, number)
        self._made = [
            _Made(leaf.owner, (tensor,))
            for leaf, tensor in zip(self.program.leaves, self.leaves, strict=True)
        ]
        self._fetched, self._grads = {}, {}
        return super()._attempt(trainer, number, step, faults=faults)

    @property
    def _home(self) -> int:
        return self.program.trainers[self._where[0]].worker

    # -- forward ----------------------------------------------------------------------------

    def _compute(self, op: Op, index: int, values: list[Value], text: str | None) -> Value:
        while len(self._made) < len(self.leaves) + index:  # of operations that failed unheard
            self._made.append(_Made(op.worker, ()))
        home, worker, call = self._home, op.worker, op.call
        by_call = call != "local" and (call != "rref" or worker != home or bool(op.via))
        silent = op.grad != "on"
        there = len(self._made)
        path = (home, *op.via, worker) if by_call else (home,)
        has = []
        for input in op.inputs:
            made = self._made[there - input.back]
            has.append(
                input.how == "value" and (input.back <= index or made.place != worker or op.builtin)
            )
        sent = [
            self._here(there - input.back)[input.output]
            for input, held in zip(op.inputs, has, strict=True)
            if held
        ]
        relays: list[Tensor] = []
        for hop in range(1, len(path)):
            if hop > 1 and op.relay == "double":
                sent = [tensor * 2 for tensor in sent]
            sent = self._send(sent, recorded=not silent)
            relays += sent[:1]
        arrived = iter(sent)
        inputs = []
        for input, held in zip(op.inputs, has, strict=True):
            made = self._made[there - input.back]
            if held:
                inputs.append(next(arrived))
            elif made.place == worker:
                inputs.append(made.there[input.output])
            else:
                inputs.append(self._send(made.there, recorded=not silent)[input.output])
        with nullcontext() if op.grad == "on" else torch.no_grad():
            out = compute(op, inputs, text=text)
        results = list(out) if isinstance(out, tuple) else [out]
        place = worker if call in REFERENCE_CALLS else home
        if call not in REFERENCE_CALLS:
            for hop in range(len(path) - 1, 0, -1):
                results = self._send(results, recorded=not silent)
                if hop > 1 and op.relay == "join" and relays:
                    joined = join(tuple(results), relays[hop - 2])
                    results = list(joined) if isinstance(joined, tuple) else [joined]
        self._made.append(_Made(place, tuple(results)))
        return tuple(results) if isinstance(out, tuple) else results[0]

    def _here(self, number: int) -> tuple[Tensor, ...]:
        """The trainer's own copy of a value."""
        made = self._made[number]
        if made.place == self._home:
            return made.there
        if number not in self._fetched:
            self._fetched[number] = tuple(self._send(made.there, recorded=True))
        return self._fetched[number]

    def _send(self, tensors: Sequence[Tensor], *, recorded: bool) -> list[Tensor]:
        if not recorded or not any(tensor.requires_grad for tensor in tensors):
            return [tensor.detach().clone() for tensor in tensors]
        copies = _Travel.apply(*tensors)  # type: ignore[no-untyped-call]
        return [
            copy if tensor.requires_grad else copy.detach()
            for tensor, copy in zip(tensors, copies, strict=True)
        ]

    # -- backward ---------------------------------------------------------------------------

    def _backward(
        self, step: Step, values: list[Value], outcome: StepOutcome, predicted: list[list[str]]
    ) -> None:
        first = 0
        for backward in step.backwards:
            at = [len(self._made) - back for back in backward.roots]
            if backward.where == "rref":
                roots = [self._made[at[0]].there[0]]
            else:
                roots = [self._here(number)[0] for number in at]
                for number, root in zip(at, roots, strict=True):
                    outcome.roots[number - len(self.leaves)] = root.detach().clone()
                if backward.where == "udf":
                    roots = self._send(roots, recorded=True)
            if backward.factor != 1:
                roots = [root * backward.factor for root in roots]
            for time in range(backward.times):
                retain = (
                    backward.retain_graph
                    or backward.every_s is not None
                    or time < backward.times - 1
                )
                try:
                    self._pass(roots, retain)
                    if predicted and predicted[first + time]:
                        raise PlantedError(predicted[first + time][0])
                except (PlantedError, RuntimeError) as error:
                    if not backward.may_fail:
                        raise
                    outcome.failed[first + time] = str(error)
                else:
                    outcome.passes.append({n: grad.clone() for n, grad in self._grads.items()})
            first += backward.times
        for number, leaf in enumerate(self.leaves):
            grad = self._grads.get(number)
            leaf.grad = None if grad is None else grad.clone()

    def _pass(self, roots: list[Tensor], retain: bool) -> None:
        leaves = {n: leaf for n, leaf in enumerate(self.leaves) if leaf.requires_grad}
        grads: Sequence[Tensor | None] = torch.autograd.grad(
            roots,
            list(leaves.values()),
            [torch.ones_like(root) for root in roots],
            retain_graph=retain,
            allow_unused=True,
        )
        for (number, leaf), grad in zip(leaves.items(), grads, strict=True):
            if grad is None:
                continue
            hooks = self.program.leaves[number].hooks
            if "accumulate_pre" in hooks:
                grad = grad * 2 ** hooks.count("accumulate_pre")
            alone = sum(other is grad for other in grads) == 1
            self._accumulate(number, leaf, grad, alone=alone)

    @torch.no_grad()
    def _accumulate(self, number: int, leaf: Tensor, new: Tensor, *, alone: bool) -> None:
        """``alone``: no other leaf of the pass is given the same tensor (it may be a view)."""
        old = self._grads.get(number)
        if old is None:
            if new.layout != torch.strided:
                self._grads[number] = new.detach().clone()
            elif self._shared and alone and new.stride() == leaf.stride():
                self._grads[number] = new.detach()
            else:
                self._grads[number] = torch.empty_like(leaf, dtype=new.dtype).copy_(new)
        elif old.is_sparse and not new.is_sparse:
            self._grads[number] = new + old
        else:
            old += new
