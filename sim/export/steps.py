"""One step of a trainer as a function of a script: an autograd context and what is done in it."""

from __future__ import annotations

from typing import Any

from squall.model.program.acts.kind import outline
from squall.model.program.program import (
    REFERENCE_CALLS,
    Backward,
    Op,
    Program,
    Step,
    beside,
    drops,
    source,
    travels,
)
from squall.model.program.source import NotPlainError
from squall.model.program.stories import ACTS, Story
from squall.sim.export.operations import OperationPlace, OperationText
from squall.sim.export.parts import Parts
from squall.sim.export.sleeps import passes_that_may_fail
from squall.sim.export.text import PLANTED_ERROR, RUN_STORY, Lines, arguments
from squall.sim.programs.stories.play import performer


class StepText:
    """A step: its function, and the functions of other workers that it calls."""

    def __init__(self, program: Program, trainer: int, number: int, parts: Parts) -> None:
        self.program = program
        self.trainer = program.trainers[trainer]
        self.number = (trainer, number)
        self.step: Step = self.trainer.steps[number]
        self.parts = parts
        self.retry = self.step.retry and any(op.fault is not None for op in self.step.ops)
        self.ops = [
            OperationText(
                OperationPlace(program, trainer, self.trainer.worker, number, index, self.retry),
                parts,
            )
            for index in range(len(self.step.ops))
        ]
        several = len(self.trainer.steps) > 1
        self.name = f"trainer{trainer}" + (f"_step{number}" if several else "_step")
        #: references to leaves, and objects of other workers, that it needs
        self.references = self._references()
        self.objects = sorted({op.worker for op in self.step.ops if op.call.startswith("helper")})
        #: whether it has references that its trainer keeps until the end
        self.keeps = any(op.keep == "program" for op in self.step.ops)
        # While it is written: what has been fetched, and which results are futures still.
        self._fetched: set[str] = set()
        self._futures: set[int] = set()
        self._passes = 0
        self._begun: list[str] = []

    def _references(self) -> list[int]:
        home, found = self.trainer.worker, set()
        for index, op in enumerate(self.step.ops):
            for input in op.inputs:
                is_leaf, number = source(self.program, index, input)
                if not is_leaf:
                    continue
                elsewhere = self.program.leaves[number].owner != home
                if input.how != "value" or (elsewhere and travels(self.program, index, op, input)):
                    found.add(number)
        return sorted(found)

    @property
    def arguments(self) -> list[str]:
        """What its function is given besides its name."""
        return [
            *(f"leaf{number}_rref" for number in self.references),
            *(f"on_worker{worker}" for worker in self.objects),
            *(["optimizer"] if self.step.optimize and self.trainer.optimizer is not None else []),
            *(["kept_by_trainer"] if self.keeps else []),
        ]

    def define(self) -> None:
        """Write its function, and before that those that it calls."""
        for op in self.ops:
            op.define()
        for at, backward in enumerate(self.step.backwards):
            if backward.where == "udf":
                self._define_backward(at, backward)
        lines = Lines()
        more = ["faulty"] if self.retry else []
        with lines.block(f"def {self.name}({', '.join(['name', *self.arguments, *more])}):"):
            lines.add(f'"""On worker{self.trainer.worker}."""')
            within = "profile(), " if self.step.profiled else ""
            if self.step.profiled:
                self.parts.use("from torch.autograd.profiler_legacy import profile")
            with lines.block(f"with {within}dist_autograd.context() as context_id:"):
                self.body(lines)
            self._end_stories(lines)
            for index, each in enumerate(self.step.ops):
                if each.call in REFERENCE_CALLS and each.keep == "program":
                    lines.add(f'kept_by_trainer[f"{{name}}, y{index}"] = y{index}_rref')
        self.parts.function(lines)

    # -- stories ----------------------------------------------------------------------------------

    def _begin_stories(self, lines: Lines, index: int) -> None:
        """Those that begin before an operation; those behind all of them, before the last."""
        last = len(self.ops) - 1
        for field, number, thing in beside(self.step):
            if min(thing.before, last) != index:
                continue
            what = f"story {thing.kind}" if isinstance(thing, Story) else f"{field}[{number}]"
            if isinstance(thing, Story) and thing.kind == ACTS:
                lines.add(
                    "# Under squall these acts go on beside this. A script cannot have them: what",
                    "# does them is squall's own.",
                    *(f"#   {line}" for line in outline(thing.acts)),
                )
            else:
                self._begin(lines, what, performer(thing), thing.worker)

    def _begin(self, lines: Lines, what: str, performed: Any, worker: int) -> None:
        try:
            function = self.parts.definitions.attempt(performed)
        except NotPlainError as error:
            lines.add(
                f"# Under squall the {what} with worker{worker} goes on",
                f"# beside this. A script cannot have it: it uses {error}.",
            )
            return
        self.parts.use("import threading")
        self.parts.helper("PlantedError", PLANTED_ERROR)
        self.parts.helper("run_story", RUN_STORY)
        thread = f"story{len(self._begun)}"
        arguments = (f'f"{{name}}, {what}"', function, str(worker))
        lines.call(f"{thread} = threading.Thread(target=run_story, args=(", arguments, "))")
        lines.add(f"{thread}.start()")
        self._begun.append(thread)

    def _end_stories(self, lines: Lines) -> None:
        for thread in self._begun:
            lines.add(f"{thread}.join()")

    # -- forward ----------------------------------------------------------------------------------

    def body(self, lines: Lines) -> None:
        """What is done in the context."""
        self._fetched, self._futures, self._passes, self._begun = set(), set(), 0, []
        dropped_after = drops(self.step)
        if not self.ops:
            self._begin_stories(lines, -1)
        for index in range(len(self.ops)):
            self._begin_stories(lines, index)
            self.operation(lines, index)
            for dropped in dropped_after.get(index, ()):
                lines.add(f"del y{dropped}_rref")
        for index in range(len(self.ops)):
            self._wait(lines, index)
        for at, backward in enumerate(self.step.backwards):
            self._backward(lines, at, backward)
        if self.step.optimize and self.trainer.optimizer is not None:
            lines.add("optimizer.step(context_id)")

    def operation(self, lines: Lines, index: int) -> None:
        """Lines that make the call of an operation, and before that have what it is given."""
        text, op = self.ops[index], self.step.ops[index]
        for input in op.inputs:
            is_leaf, number = source(self.program, index, input)
            if is_leaf:
                owned = self.program.leaves[number].owner == self.trainer.worker
                if not owned and travels(self.program, index, op, input):
                    self._fetch(lines, f"leaf{number}")
            elif input.how == "value":
                self._value(lines, number)
        name = self._name(op, index)
        if op.grad == "off_at_caller" and op.call != "local":
            with lines.block("with torch.no_grad():"):
                lines.add(f"{name} = {text.call()}")
        else:
            lines.add(f"{name} = {text.call()}")
        if op.call in ("async", "helper_async"):
            self._futures.add(index)
        elif op.grad == "off_at_caller" and op.call != "local":
            self._detach(lines, text)

    @staticmethod
    def _name(op: Op, index: int) -> str:
        return f"y{index}_rref" if op.call in REFERENCE_CALLS else f"y{index}"

    @staticmethod
    def _detach(lines: Lines, text: OperationText) -> None:
        result = text.result
        if text.kind.outputs > 1:
            lines.add(f"{result} = tuple(each.detach() for each in {result})")
        else:
            lines.add(f"{result} = {result}.detach()")

    def _value(self, lines: Lines, number: int) -> str:
        """Have the value of an operation on the trainer's worker."""
        self._wait(lines, number)
        if self.step.ops[number].call not in REFERENCE_CALLS:
            return f"y{number}"
        self._fetch(lines, f"y{number}")
        return f"y{number}_here"

    def _fetch(self, lines: Lines, name: str) -> None:
        if name not in self._fetched:
            self._fetched.add(name)
            lines.add(f"{name}_here = {name}_rref.to_here()")

    def _wait(self, lines: Lines, number: int) -> None:
        if number in self._futures:
            self._futures.discard(number)
            lines.add(f"y{number} = y{number}.wait()")
            if self.step.ops[number].grad == "off_at_caller":
                self._detach(lines, self.ops[number])

    # -- backward ---------------------------------------------------------------------------------

    def _backward(self, lines: Lines, at: int, backward: Backward) -> None:
        numbers = [len(self.ops) - back for back in backward.roots]
        if backward.where == "rref":
            self._passes_of(lines, backward, f"y{numbers[0]}_rref.backward(context_id")
            return
        roots = [self._value(lines, number) for number in numbers]
        if backward.where == "udf":
            self._passes += backward.times
            passed = arguments(["name", "context_id", *dict.fromkeys(roots)])
            function = self._backward_name(at)
            lines.add(f'rpc.rpc_sync("worker{backward.worker}", {function}, args={passed})')
            return
        if backward.factor != 1:
            roots = [f"{root} * {backward.factor}" for root in roots]
        self._passes_of(lines, backward, f"dist_autograd.backward(context_id, [{', '.join(roots)}]")

    def _passes_of(self, lines: Lines, backward: Backward, call: str) -> None:
        """A pass, or several; what is in the context is printed after each."""
        first, times = self._passes, backward.times
        self._passes += times
        if backward.may_fail:
            if backward.every_s is not None:
                self.parts.use_together()
            passes_that_may_fail(lines, self.parts, backward, call, first)
            return
        if times == 1:
            retain = ", retain_graph=True" if backward.retain_graph else ""
            lines.add(f"{call}{retain})")
            lines.add(f'show_gradients(f"{{name}}, pass {first}", context_id)')
            return
        retain = "True" if backward.retain_graph else f"number < {first + times - 1}"
        with lines.block(f"for number in range({first}, {first + times}):"):
            lines.add(f"{call}, retain_graph={retain})")
            lines.add('show_gradients(f"{name}, pass {number}", context_id)')

    def _backward_name(self, at: int) -> str:
        return f"{self.name}_backward" + (f"_{at}" if len(self.step.backwards) > 1 else "")

    def _define_backward(self, at: int, backward: Backward) -> None:
        self._passes = sum(each.times for each in self.step.backwards[:at])
        names = [f"y{len(self.ops) - back}" for back in backward.roots]
        lines = Lines()
        several = ", ".join(["name", "context_id", *dict.fromkeys(names)])
        with lines.block(f"def {self._backward_name(at)}({several}):"):
            lines.add(f'"""On worker{backward.worker}."""')
            self._passes_of(
                lines, backward, f"dist_autograd.backward(context_id, [{', '.join(names)}]"
            )
        self.parts.function(lines)
