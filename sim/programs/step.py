"""One step of a trainer: an autograd context, its calls and its backward passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squall.model.one_process.outcome import StepOutcome
from squall.model.program.kind import Value
from squall.model.program.operations import KINDS
from squall.model.program.program import (
    REFERENCE_CALLS,
    Backward,
    Input,
    Op,
    Step,
    beside,
    drops,
    source,
)
from squall.real.autograd import api as autograd
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.streams import has_streams, streams_of
from squall.sim.programs.failing import call_that_fails
from squall.sim.programs.host import (
    Address,
    make_reference,
    perform,
    perform_async,
    relay,
    relay_async,
    run_backward,
    together,
    wait,
)
from squall.sim.programs.profiled import AtLeast, Profiled
from squall.sim.programs.stories.play import StoryRuns
from squall.sim.programs.trainer_state import TrainerState
from squall.sim.world.torch_settings import default_device_context

#: operations by these are calls of the trainer itself
_CALLED = frozenset({"sync", "async", "remote", "async_execution"})


class StepRun:
    """One step, and its second attempt if it has one."""

    def __init__(self, trainer: TrainerState, number: int, step: Step) -> None:
        self.trainer = trainer
        self.program = trainer.program
        self.host = trainer.host
        self.number = number
        self.step = step
        self._begin_stories: Callable[[int], None] | None = None

    def run(self) -> None:
        if not beside(self.step):
            self._run()
            return
        stories = StoryRuns(self.trainer.outcome, self.trainer.number, self.number, self.step)
        self._begin_stories = stories.begin
        try:
            self._run()
        finally:
            self._begin_stories = None
            stories.end()

    def _run(self) -> None:
        outcomes, key = self.trainer.outcome.steps, (self.trainer.number, self.number)
        self._attempt(outcomes[key], faults=True)
        error = outcomes[key].error
        if error is not None and self.step.retry:
            outcomes[key] = StepOutcome(first_error=error)
            self._attempt(outcomes[key], faults=False)

    def _attempt(self, outcome: StepOutcome, *, faults: bool) -> None:
        self._begin(faults)
        try:
            with Profiled(self.step.profiled, self._profile_at_least()):
                with autograd.context() as context_id:
                    outcome.context = context_id
                    _refuse_another_context()
                    self._forward()
                    optimizes = self.step.optimize and self.trainer.optimizer is not None
                    if optimizes:
                        _wait_for_devices()
                    for backward in self.step.backwards:
                        self._backward(context_id, backward, outcome)
                    if outcome.failed:
                        self.host.on_failed(context_id)
                    if optimizes and self.trainer.optimizer is not None:
                        self.trainer.optimizer.step(context_id)
                        _wait_for_devices()
                self._keep()
                self._scribble()
        except Exception as error:
            outcome.error = str(error)
        finally:
            self.values.clear()
            self.fetched.clear()
        outcome.finished = True

    def _profile_at_least(self) -> AtLeast:
        """What a profile of the step has when nothing has failed in it."""
        ops = [op for op in self.step.ops if op.call in _CALLED]
        # What is created may be answered later than the step ends.
        return AtLeast(calls=len(ops), answers=sum(op.call != "remote" for op in ops))

    def _begin(self, faults: bool) -> None:
        self.faults = faults
        self._passes = 0
        #: what each operation made: a value, a future of it, a reference to it, or None if dropped
        self.values: list[Any] = []
        #: values as fetched, by operation or, for leaves, by -1 - number
        self.fetched: dict[int, Value] = {}

    def _keep(self) -> None:
        for index, op in enumerate(self.step.ops):
            if op.call in REFERENCE_CALLS and op.keep == "program":
                self.trainer.kept[self.trainer.number, self.number, index] = self.values[index]

    def _scribble(self) -> None:
        """Overwrite the copies of leaves that were fetched: no other worker may see it."""
        if any(op.keep == "program" for op in self.step.ops):
            return  # what is kept may be such a copy itself
        for key, value in self.fetched.items():
            if key < 0 and isinstance(value, Tensor):
                if has_streams(value.device):  # what was sent of it may be on its way still
                    streams_of(value.device).synchronize(value.device)
                with torch.no_grad():
                    value.fill_(7)

    # -- forward ----------------------------------------------------------------------------

    def _forward(self) -> None:
        dropped_after = drops(self.step)
        for index, op in enumerate(self.step.ops):
            if self._begin_stories is not None:
                self._begin_stories(index)
            inputs = [self._input(index, op, input) for input in op.inputs]
            if op.fails_first is not None:
                call_that_fails(op, inputs, self.host.worker, self.program.workers)
            if op.grad == "off_at_caller":
                with torch.no_grad():
                    result = self._call(index, op, inputs)
            else:
                result = self._call(index, op, inputs)
            self.values.append(result)
            if op.grad == "off_at_caller" and not isinstance(result, Future):
                self.values[index] = _detached(result)
            # This frame must not hold the last references to what is dropped now.
            del inputs, result
            for dropped in dropped_after.get(index, ()):
                self.values[dropped] = None
        for index in range(len(self.values)):
            self._await(index)

    def _input(self, index: int, op: Op, input: Input) -> Any:
        is_leaf, number = source(self.program, index, input)
        if is_leaf:
            owner = self.program.leaves[number].owner
            if input.how != "value":
                return self.trainer.leaf_refs[number]
            if owner == op.worker and not op.builtin:
                return None
            return self._leaf(number)
        if input.how != "value":
            return self.values[number]
        value = self._value(number)
        return value[input.output] if isinstance(value, tuple) else value

    def _leaf(self, number: int) -> Tensor:
        if number in self.host.leaves:
            return self.host.leaves[number]
        key = -1 - number
        if key not in self.fetched:
            self.fetched[key] = self.trainer.leaf_refs[number].to_here()
        leaf = self.fetched[key]
        assert isinstance(leaf, Tensor)
        return leaf

    def _value(self, number: int) -> Value:
        """The value of an operation on this worker: awaited or fetched the first time, then
        kept."""
        value = self._await(number)
        if self.step.ops[number].call in REFERENCE_CALLS:
            if number not in self.fetched:
                self.fetched[number] = value.to_here()
            value = self.fetched[number]
        found: Value = value
        return found

    def _await(self, number: int) -> Any:
        """Wait for what an operation made."""
        value = self.values[number]
        if isinstance(value, Future):
            value = value.wait()
            if self.step.ops[number].grad == "off_at_caller":
                value = _detached(value)
            self.values[number] = value
        return value

    def _call(self, index: int, op: Op, inputs: list[Any]) -> Any:
        address: Address = (self.trainer.number, self.number, index, self.faults)
        call = op.call
        if call == "local":
            return self.host.perform(address, inputs)
        if op.builtin:
            return self._call_builtin(op, inputs)
        if call.startswith("helper"):
            rref = self.trainer.host_refs[op.worker]
            proxy = {
                "helper_sync": rref.rpc_sync,
                "helper_async": rref.rpc_async,
                "helper_remote": rref.remote,
            }[call]()
            return proxy.perform(address, inputs)
        args: tuple[Any, ...] = (address, inputs)
        to = op.worker
        function: Callable[..., Any] = perform
        if call == "rref":
            if op.worker == self.host.worker and not op.via:
                return rpc.RRef(self.host.perform(address, inputs))
            function = make_reference
        elif call == "async_execution":
            function = perform_async
        if op.via:
            to, args = op.via[0], (address, 0, inputs)
            function = relay_async if call == "async_execution" else relay
        elif call == "remote":
            return rpc.remote(to, function, args=args)
        make = rpc.rpc_async if call == "async" else rpc.rpc_sync
        return make(to, function, args=args)

    def _call_builtin(self, op: Op, inputs: list[Any]) -> Any:
        make = {"sync": rpc.rpc_sync, "async": rpc.rpc_async, "remote": rpc.remote}[op.call]
        kind = KINDS[op.kind]
        args = tuple(inputs) if kind.factor == "none" else (*inputs, op.factor)
        return make(op.worker, kind.builtin, args=args)

    # -- backward ---------------------------------------------------------------------------

    def _backward(self, context_id: int, backward: Backward, outcome: StepOutcome) -> None:
        at = [len(self.values) - back for back in backward.roots]
        trainer, times = self.trainer.number, backward.times
        first = self._passes
        self._passes += times
        if backward.where == "rref":
            for time in range(times):
                retain = backward.retain_graph or time < times - 1
                with _Noting(backward, outcome, first + time):
                    self.values[at[0]].backward(context_id, retain_graph=retain)
                    self.host.on_pass(trainer, self.number, context_id)
            return
        roots = []
        for index in at:
            root = self._value(index)
            assert isinstance(root, Tensor)
            outcome.roots[index] = root.detach().clone()
            roots.append(root if backward.factor == 1 else root * backward.factor)
        if backward.may_fail:
            self._backward_that_may_fail(context_id, backward, roots, outcome, first)
            return
        args = (trainer, self.number, context_id, roots, times, backward.retain_graph)
        if backward.where == "udf":
            rpc.rpc_sync(backward.worker, run_backward, args=args)
        else:
            run_backward(*args)

    def _backward_that_may_fail(
        self,
        context_id: int,
        backward: Backward,
        roots: list[Tensor],
        outcome: StepOutcome,
        first: int,
    ) -> None:
        """Passes on this worker, of which the first has number ``first``."""

        def run(time: int) -> None:
            if backward.every_s is not None:
                wait(time * backward.every_s)
            # Which of them comes last, if they begin at once, nobody knows.
            last = backward.every_s is None and time == backward.times - 1
            retain = backward.retain_graph or not last
            with _Noting(backward, outcome, first + time):
                run_backward(self.trainer.number, self.number, context_id, roots, 1, retain)

        if backward.every_s is None:
            for time in range(backward.times):
                run(time)
        else:
            together([partial(run, time) for time in range(backward.times)])


class _Noting(NamedTuple):
    """Notes the error of a pass that may fail.

    A class, since an error that passes through a generator stays in a cycle with frames from Python 3.12 on.
    """

    backward: Backward
    outcome: StepOutcome
    number: int

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        noted = self.backward.may_fail and isinstance(error, Exception)
        if noted:
            self.outcome.failed[self.number] = str(error)
        return noted


def _refuse_another_context() -> None:
    """Raises AssertionError if a context may begin inside another one."""
    try:
        autograd._new_context()
    except RuntimeError:
        return
    raise AssertionError("a context began inside another one")


def _detached(value: Value) -> Value:
    """What came from a call under ``no_grad``: torch leaves ``requires_grad`` as it was there."""
    if isinstance(value, tuple):
        return tuple(each.detach() for each in value)
    return value.detach()


def _wait_for_devices() -> None:
    """Parameters are read for messages, and updated, on streams of their owners' pools, which neither
    a request nor a reply names, as in PyTorch: whoever has read them waits for the devices before he has
    them updated, and before he reads them again. The former is before the passes, so that whether a
    step waits for the gradients is seen."""
    default = default_device_context()
    if default is not None and has_streams(default.device):
        module = streams_of(default.device)
        for index in range(module.device_count()):
            module.synchronize(index)
