"""One operation of a step: the functions that other workers have for it, and the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from squall.model.program.hooks import add_hook
from squall.model.program.operations import KINDS, join, planted
from squall.model.program.partial_evaluation import statements_of
from squall.model.program.program import (
    HELPER_CALLS,
    REFERENCE_CALLS,
    Input,
    Op,
    Program,
    source,
    travels,
)
from squall.sim.export.parts import Parts
from squall.sim.export.sleeps import sleep_in_argument, sleep_in_result
from squall.sim.export.text import PLANTED_ERROR, RAISE_IN_BACKWARD, RAISER, Lines, arguments


class Given(NamedTuple):
    """An input as its function gets it: the name of the argument and what the caller passes;
    ``value`` is what the function makes of the argument, None if that is the value itself."""

    name: str
    passed: str
    value: str | None = None


class OperationPlace(NamedTuple):
    """Which operation it is: of trainer ``trainer``, on worker ``home``, in step ``step``."""

    program: Program
    trainer: int
    home: int
    step: int
    number: int
    #: whether errors are planted in a first attempt only
    retry: bool

    @property
    def op(self) -> Op:
        return self.program.trainers[self.trainer].steps[self.step].ops[self.number]

    @property
    def label(self) -> str:
        """What tells the names of its functions from those of all other operations."""
        program = self.program
        parts = []
        if len(program.trainers) > 1:
            parts.append(str(self.trainer))
        if any(len(trainer.steps) > 1 for trainer in program.trainers):
            parts.append(str(self.step))
        return "_".join([*parts, str(self.number)])


class OperationText:
    """What an operation is called, what its functions are given, and their text."""

    def __init__(self, place: OperationPlace, parts: Parts) -> None:
        self.place = place
        self.parts = parts
        self.op = place.op
        self.kind = KINDS[self.op.kind]
        self.name = f"{self.kind.name}_{place.label}"
        self.is_faulty = self.op.fault is not None
        #: the name of the result
        self.result = f"y{place.number}"

    # -- inputs -------------------------------------------------------------------------------

    def given(self) -> list[Given | None]:
        """Each input as the function gets it; None for a leaf of the worker's own."""
        return [self._given(input) for input in self.op.inputs]

    def _given(self, input: Input) -> Given | None:
        program, op = self.place.program, self.op
        is_leaf, number = source(program, self.place.number, input)
        name = f"leaf{number}" if is_leaf else f"y{number}"
        if input.how != "value":
            owner = program.leaves[number].owner if is_leaf else self._op(number).worker
            fetched = "local_value" if owner == op.worker else "to_here"
            value = f"{name}_rref.{fetched}()"
            if not is_leaf and KINDS[self._op(number).kind].outputs > 1:
                value = f"{value}[{input.output}]"
            return Given(f"{name}_rref", f"{name}_rref", value)
        if is_leaf:
            owned = program.leaves[number].owner == self.place.home
            if not travels(program, self.place.number, op, input):
                return None
            return Given(name, name if owned else f"{name}_here")
        passed = f"{name}_here" if self._op(number).call in REFERENCE_CALLS else name
        if KINDS[self._op(number).kind].outputs > 1:
            return Given(f"{name}_{input.output}", f"{passed}[{input.output}]")
        return Given(name, passed)

    def _op(self, number: int) -> Op:
        return self.place.program.trainers[self.place.trainer].steps[self.place.step].ops[number]

    def passed(self) -> dict[str, str]:
        """What the function is given, by the names of its arguments; the same thing once."""
        return {each.name: each.passed for each in self.given() if each is not None}

    @property
    def takes_attempt(self) -> bool:
        """Whether its function has to know if errors are to be raised."""
        return self.is_faulty and self.place.retry

    # -- the functions ----------------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether it is on the trainer's own worker, and nothing but an expression."""
        op = self.op
        return (
            op.call == "local"
            and op.grad == "on"
            and not op.hooks
            and op.fault is None
            and op.sleep is None
            and all(input.how == "value" for input in op.inputs)
        )

    def expression(self, names: Sequence[str]) -> str:
        """What is computed from inputs of these names. Raises NotPlainError."""
        return self.kind.source(self.op, names, self.parts.definitions)

    def plain(self) -> str:
        """The whole operation, if it :attr:`is_plain`."""
        names = [
            f"leaf{source(self.place.program, self.place.number, input)[1]}"
            if given is None
            else given.passed
            for given, input in zip(self.given(), self.op.inputs, strict=True)
        ]
        return self.expression(names)

    def define(self) -> None:
        """Write its functions: the one that computes it, and those of the workers on the way."""
        if self.op.builtin or self.is_plain:
            return
        lines = Lines()
        op = self.op
        names = [*self.passed(), *(["faulty"] if self.takes_attempt else [])]
        if op.call == "async_execution":
            lines.add("@rpc.functions.async_execution")
        with lines.block(f"def {self.name}({', '.join(names)}):"):
            lines.add(f'"""On worker{op.worker}."""')
            self._body(lines)
        self.parts.function(lines)
        if op.call in HELPER_CALLS:
            self.parts.methods[self.name] = None
        for hop in range(len(op.via) - 1, -1, -1):
            self._define_hop(hop, names)

    def _body(self, lines: Lines) -> None:
        op = self.op
        if op.fault == "udf":
            self._raise(lines)
        silent = op.grad == "off" or (op.grad == "off_at_caller" and op.call == "local")
        if silent:
            with lines.block("with torch.no_grad():"):
                result = self._compute(lines, silent=True)
        else:
            result = self._compute(lines, silent=False)
        if op.call == "rref" and (op.worker != self.place.home or op.via):
            result = f"rpc.RRef({result})"
        if op.call == "async_execution":
            self.parts.use("import torch")
            lines.add("future = torch.futures.Future()", f"future.set_result({result})")
            result = "future"
        lines.add(f"return {result}")

    def _raise(self, lines: Lines) -> None:
        self.parts.helper("PlantedError", PLANTED_ERROR)
        text = f'raise PlantedError("{self._planted}")'
        if not self.takes_attempt:
            lines.add(text)
            return
        with lines.block("if faulty:"):
            lines.add(text)

    @property
    def _planted(self) -> str:
        return planted(str(self.op.fault), self.place.trainer, self.place.step, self.place.number)

    def _compute(self, lines: Lines, *, silent: bool) -> str:
        """The lines that compute it, and what the result is called then."""
        names: list[str] = []
        taken = set(self.passed())
        for given, input in zip(self.given(), self.op.inputs, strict=True):
            if given is None:
                names.append(f"leaf{source(self.place.program, self.place.number, input)[1]}")
            elif given.value is None:
                names.append(given.name)
            else:
                name = base = given.name.removesuffix("_rref")
                while name in taken:
                    name = f"{base}_{'there' if name == base else len(taken)}"
                taken.add(name)
                lines.add(f"{name} = {given.value}")
                names.append(name)
                if input.how == "kept_rref":
                    lines.add(f"kept.append({given.name})")
                    self.parts.keeps = True
        expression = self.expression(names)
        several = self.kind.outputs > 1
        if silent:
            lines.add(f"{self.result} = {expression}")
            if several:
                return f"tuple(each.detach() for each in {self.result})"
            return f"{self.result}.detach()"
        sleep = self.op.sleep
        hooked_result = (
            bool(self.op.hooks)
            or self.op.fault in ("backward", "hook")
            or (sleep is not None and (sleep.at != "argument" or self.kind.returns_input))
        )
        if not hooked_result and sleep is None:
            if len(self.op.inputs) == sum(
                each is None or each.value is None for each in self.given()
            ):
                return expression
            lines.add(f"{self.result} = {expression}")
            return self.result
        lines.add(f"{self.result}{', *others' if several else ''} = {expression}")
        sleep_in_argument(lines, self.parts, self.op, names[0])
        if hooked_result:
            with lines.block(f"if {self.result}.requires_grad:"):
                self._hooks(lines)
        return f"({self.result}, *others)" if several else self.result

    def _hooks(self, lines: Lines) -> None:
        result, op = self.result, self.op
        if self.kind.returns_input:
            lines.add(f"{result} = {result}.view_as({result})")
        if op.fault in ("backward", "hook"):
            self.parts.helper("PlantedError", PLANTED_ERROR)
            if op.fault == "backward":
                self.parts.use("import torch")
                self.parts.helper("RaiseInBackward", RAISE_IN_BACKWARD)
                line = f'{result} = RaiseInBackward.apply({result}, "{self._planted}")'
            else:
                self.parts.helper("raiser", RAISER)
                line = f'{result}.register_hook(raiser("{self._planted}"))'
            if self.takes_attempt:
                with lines.block("if faulty:"):
                    lines.add(line)
            else:
                lines.add(line)
        sleep_in_result(lines, self.parts, op, result)
        for hook in op.hooks:
            statements, returned = statements_of(
                add_hook, {"hook": hook}, {"out": result}, self.parts.definitions
            )
            lines.add(*statements)
            if returned is not None:
                lines.add(returned)

    # -- on the way ---------------------------------------------------------------------------------

    def hop(self, hop: int) -> str:
        """The function of a worker on the way."""
        return f"{self.name}_by_worker{self.op.via[hop]}" + (f"_{hop}" if hop else "")

    def _define_hop(self, hop: int, names: list[str]) -> None:
        op = self.op
        lines = Lines()
        last = hop == len(op.via) - 1
        to = op.worker if last else op.via[hop + 1]
        function = self.name if last else self.hop(hop + 1)
        tensors = [each.name for each in self.given() if each is not None and each.value is None]
        passed = [
            f"{name} * 2" if op.relay == "double" and name in tensors else name for name in names
        ]
        later = op.call == "async_execution"
        make = "rpc.rpc_async" if later else "rpc.rpc_sync"
        if op.call == "remote" and last:
            make = "rpc.remote"
        if later:
            lines.add("@rpc.functions.async_execution")
        with lines.block(f"def {self.hop(hop)}({', '.join(names)}):"):
            lines.add(f'"""On worker{op.via[hop]}: hands on to worker{to}."""')
            call = f'{make}("worker{to}", {function}, args={arguments(passed)})'
            if op.relay == "join" and tensors and op.call not in REFERENCE_CALLS:
                joined = self.parts.definitions.text_of(join)
                if later:
                    lines.add(f"future = {call}")
                    lines.add(
                        f"return future.then(lambda done: {joined}(done.value(), {tensors[0]}))"
                    )
                else:
                    lines.add(f"return {joined}({call}, {tensors[0]})")
            else:
                lines.add(f"return {call}")
        self.parts.function(lines)

    # -- the call -----------------------------------------------------------------------------------

    def call(self) -> str:
        """The call that the trainer makes."""
        op = self.op
        if self.is_plain:
            return self.plain()
        passed = [*self.passed().values(), *(["faulty"] if self.takes_attempt else [])]
        if op.builtin:
            return self._builtin()
        if op.call == "local":
            return f"{self.name}({', '.join(passed)})"
        if op.call in HELPER_CALLS:
            proxy = {"helper_sync": "rpc_sync", "helper_async": "rpc_async"}.get(op.call, "remote")
            return f"on_worker{op.worker}.{proxy}().{self.name}({', '.join(passed)})"
        if op.call == "rref" and op.worker == self.place.home and not op.via:
            return f"rpc.RRef({self.name}({', '.join(passed)}))"
        to, function = op.worker, self.name
        make = "rpc.rpc_async" if op.call == "async" else "rpc.rpc_sync"
        if op.via:
            to, function = op.via[0], self.hop(0)
        elif op.call == "remote":
            make = "rpc.remote"
        return f'{make}("worker{to}", {function}, args={arguments(passed)})'

    def _builtin(self) -> str:
        op = self.op
        make = {"sync": "rpc.rpc_sync", "async": "rpc.rpc_async", "remote": "rpc.remote"}[op.call]
        passed = [each.passed for each in self.given() if each is not None]
        if self.kind.factor != "none":
            passed.append(repr(op.factor))
        operator = self.parts.definitions.text_of(self.kind.builtin, "builtin")
        return f'{make}("worker{op.worker}", {operator}, args={arguments(passed)})'
