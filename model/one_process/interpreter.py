"""Runs a program in one process, with plain ``torch.autograd`` and nothing else.

There are no workers here: a call is a function call, a reference is the value, a backward pass
over many workers is ``torch.autograd.backward``. Whatever runs a program on workers has to come
to the same outcome.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from squall.model.one_process.flow import forecast, surfaces
from squall.model.one_process.outcome import Gradients, Outcome, StepOutcome
from squall.model.one_process.shape_graph import graph_of
from squall.model.program.hooks import add_leaf_hook, add_leaf_sleep, retained, written
from squall.model.program.kind import Value
from squall.model.program.operations import PlantedError, compute, initial_values, join, planted
from squall.model.program.program import REFERENCE_CALLS, Op, Program, Step, source, travels

#: stands for a value whose operation raised, with nobody who asks for it and so hears of the error
FAILED: Value = ()


def interpret(program: Program) -> Outcome:
    """Run the program, one trainer and one step after the other."""
    return Interpreter(program).run()


class Interpreter:
    """One process. What runs a program otherwise in one process derives from it
    (model/one_process/as_pytorch.py)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.leaves = [initial_values(leaf, program.mode) for leaf in program.leaves]
        self._kept_alive = [
            add_leaf_hook(tensor, hook)
            for leaf, tensor in zip(program.leaves, self.leaves, strict=True)
            for hook in leaf.hooks
        ] + [
            add_leaf_sleep(tensor, leaf.sleep, None)
            for leaf, tensor in zip(program.leaves, self.leaves, strict=True)
            if leaf.sleep is not None
        ]
        self.outcome = Outcome()

    def run(self) -> Outcome:
        retained(), written()  # forget what a run that broke off has left
        for trainer, number, step in self.program.steps:
            outcome = self._attempt(trainer, number, step, faults=True)
            if outcome.error is not None and step.retry:
                again = self._attempt(trainer, number, step, faults=False)
                again.first_error = outcome.error
                outcome = again
            self.outcome.steps[trainer, number] = outcome
        self.outcome.leaves = [leaf.detach().clone() for leaf in self.leaves]
        self.outcome.seen = {
            n: sum(leaf.__dict__.get("seen", ())) for n, leaf in enumerate(self.leaves)
        }
        self.outcome.retained, self.outcome.written = retained(), written()
        return self.outcome

    def _attempt(self, trainer: int, number: int, step: Step, *, faults: bool) -> StepOutcome:
        outcome = StepOutcome()
        for leaf in self.leaves:
            leaf.grad = None
        try:
            values = self._forward(trainer, number, step, faults)
            predicted: list[list[str]] = []
            if faults and any(op.fault is not None for op in step.ops):
                predicted = forecast(self.program, trainer, number).backward
            self._backward(step, values, outcome, predicted)
            if step.optimize:
                self._optimize(trainer)
        except (PlantedError, RuntimeError) as error:
            outcome.error = str(error)
        else:
            for index, op in enumerate(step.ops):
                if op.call in REFERENCE_CALLS and op.keep == "program":
                    value = values[index]
                    if value is FAILED:
                        continue
                    outputs = value if isinstance(value, tuple) else (value,)
                    self.outcome.kept[trainer, number, index] = tuple(
                        output.detach().clone() for output in outputs
                    )
        outcome.finished = True
        return outcome

    def _forward(self, trainer: int, number: int, step: Step, faults: bool) -> list[Value]:
        values: list[Value] = []
        failed = False
        for index, op in enumerate(step.ops):
            text = None
            if faults and op.fault is not None:
                text = planted(op.fault, trainer, number, index)
                if op.fault == "udf" and not surfaces(self.program, step, index):
                    values.append(FAILED)
                    failed = True
                    continue
            if failed and any(
                index >= input.back and values[index - input.back] is FAILED for input in op.inputs
            ):
                values.append(FAILED)
                continue
            values.append(self._compute(op, index, values, text))
        return values

    def _compute(self, op: Op, index: int, values: list[Value], text: str | None) -> Value:
        program = self.program
        inputs: list[Tensor] = []
        first: Tensor | None = None
        for input in op.inputs:
            is_leaf, at = source(program, index, input)
            value = self.leaves[at] if is_leaf else values[at]
            tensor = value[input.output] if isinstance(value, tuple) else value
            if op.via and travels(program, index, op, input):
                if op.relay == "double":
                    for _ in op.via:
                        tensor = tensor * 2
                first = tensor if first is None else first
            inputs.append(tensor)
        with nullcontext() if op.grad == "on" else torch.no_grad():
            out = compute(op, inputs, text=text)
            if op.relay == "join" and first is not None and op.call not in REFERENCE_CALLS:
                with torch.enable_grad():
                    for _ in op.via:
                        out = join(out, first)
        return out

    def _backward(
        self, step: Step, values: list[Value], outcome: StepOutcome, predicted: list[list[str]]
    ) -> None:
        """``predicted``: for each pass, the errors that it raises on workers; empty: none at all.

        A message of several tensors brings zeros for those that no gradient reaches, and they go
        through user code, which in one process is not called.
        """
        for backward in step.backwards:
            roots = [values[-back] for back in backward.roots]
            if backward.where != "rref":  # the value of that root never comes to the trainer
                for back, root in zip(backward.roots, roots, strict=True):
                    assert isinstance(root, Tensor)
                    outcome.roots[len(values) - back] = root.detach().clone()
            if backward.factor != 1:
                roots = [root * backward.factor for root in roots]
            first = len(outcome.graphs)
            outcome.graphs += [graph_of(roots)] * backward.times  # type: ignore[arg-type]
            for time in range(backward.times):
                try:
                    torch.autograd.backward(
                        roots,  # type: ignore[arg-type]
                        retain_graph=backward.retain_graph
                        or backward.every_s is not None
                        or time < backward.times - 1,
                    )
                    if predicted and predicted[first + time]:
                        raise PlantedError(predicted[first + time][0])
                except (PlantedError, RuntimeError) as error:
                    if not backward.may_fail:
                        raise
                    outcome.failed[first + time] = str(error)
                else:
                    outcome.passes.append(self._gradients())

    def _gradients(self) -> Gradients:
        found: Gradients = {}
        for number, leaf in enumerate(self.leaves):
            if leaf.grad is not None:
                found[number] = leaf.grad
                # Mathematics: plain local use may let two leaves have one gradient, and add to
                # both (model/one_process/as_pytorch.py); here each leaf has a tensor of its own.
                leaf.grad = leaf.grad.clone()
        return found

    @torch.no_grad()
    def _optimize(self, trainer: int) -> None:
        """One step of SGD."""
        optimizer = self.program.trainers[trainer].optimizer
        if optimizer is None:
            return
        for number in optimizer.leaves:
            leaf = self.leaves[number]
            if leaf.grad is not None:
                leaf.add_(leaf.grad, alpha=-optimizer.lr)
