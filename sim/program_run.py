"""Runs a program on simulated workers, through the public API.

run = run_program(program, seed=7, latency="lognormal:0.001:0.5", order="random")
assert not differences(program, interpret(program), run.outcome)
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from model.operations import KINDS, Value
from model.outcome import Gradients, Outcome, StepOutcome
from model.program import REFERENCE_CALLS, Backward, Input, Op, Program, Step, source
from real.autograd import api as autograd
from real.future import Future
from real.rpc import api as rpc
from real.rpc.optimizer import DistributedOptimizer
from real.runtime import current_worker
from sim.cluster import Cluster
from sim.program_host import (
    Address,
    Host,
    find_host,
    find_leaf,
    make_reference,
    perform,
    perform_async,
    place,
    relay,
    relay_async,
    run_backward,
)
from sim.stuck import Deadlock

#: the number of a gradient that belongs to no leaf of the program
STRAY = -1


@dataclass
class ProgramRun:
    """A finished run."""

    program: Program
    cluster: Cluster
    outcome: Outcome = field(default_factory=Outcome)
    #: at a deadlock: a line for each task that waits
    waits: list[str] = field(default_factory=list)
    #: an error that no program can cause by itself, with which the run broke off
    crash: str | None = None


def run_program(
    program: Program,
    *,
    quiet: bool = True,
    raises: bool = True,
    linger: bool = False,
    **options: Any,
) -> ProgramRun:
    """Run ``program`` on a :class:`Cluster` made with ``options``.

    A deadlock ends the run and is told in :attr:`ProgramRun.waits`. ``quiet``: leave out what
    callees print of planted errors. Raises what no program can cause by itself, or with
    ``raises`` False tells it in :attr:`ProgramRun.crash`. ``linger``: the workers still have the
    references that they keep, and work under way, when they shut down.
    """
    cluster = Cluster(program.workers, **options)
    run = ProgramRun(program, cluster)
    hosts: list[Host] = []

    def on_pass(trainer: int, step: int, context_id: int) -> None:
        gradients = _gradients(cluster, hosts, context_id)
        run.outcome.steps[trainer, step].passes.append(gradients)

    for rank, worker in enumerate(cluster.workers):
        host = Host(program, rank, on_pass)
        hosts.append(host)
        place(worker, host)
    for trainer, step, _ in program.steps:
        run.outcome.steps[trainer, step] = StepOutcome()
    silence = contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext()
    with cluster, silence:
        try:
            cluster.run(lambda rank: _main(hosts[rank], run.outcome), shutdown=False)
            if not linger:
                for host in hosts:
                    host.kept.clear()
                cluster.settle()
            cluster.shutdown()
        except Deadlock as deadlock:
            run.waits = deadlock.waits
        except Exception as error:
            if raises:
                raise
            run.crash = f"{type(error).__name__}: {error}"
    run.outcome.leaves = [
        hosts[leaf.owner].leaves[number].detach().clone()
        for number, leaf in enumerate(program.leaves)
    ]
    return run


def _gradients(cluster: Cluster, hosts: list[Host], context_id: int) -> Gradients:
    """What all workers have accumulated in a context, read where it is: without messages."""
    found: Gradients = {}
    for worker, host in zip(cluster.workers, hosts, strict=True):
        if worker.container is None:
            continue
        try:
            gradients = worker.container.retrieve_context(context_id).get_gradients()
        except RuntimeError:  # this worker does not know the context
            continue
        for tensor, gradient in gradients.items():
            number = next((n for n, leaf in host.leaves.items() if leaf is tensor), STRAY)
            if gradient.requires_grad:  # it has a graph of its own, which nobody asked for
                number = STRAY
            found[number] = gradient.detach().clone()
    return found


def _main(host: Host, outcome: Outcome) -> None:
    """What a worker does: its trainers, all at once."""
    mine = [
        number
        for number, trainer in enumerate(host.program.trainers)
        if trainer.worker == host.worker
    ]
    _together([_TrainerRun(host, number, outcome).run for number in mine])


def _together(functions: list[Any]) -> None:
    """Call all functions, each in a task of its own if there are several; wait for them."""
    if len(functions) == 1:
        functions[0]()
        return
    worker = current_worker()
    ends: list[Future[None]] = []

    def call(function: Any, end: Future[None]) -> None:
        try:
            function()
        except Exception as error:
            end.set_error(error)
        else:
            end.mark_completed(None)

    for function in functions:
        end: Future[None] = Future(runtime=worker.runtime, what="a trainer's step")
        ends.append(end)
        worker.runtime.spawn(call, function, end, name="trainer", worker=worker, daemon=False)
    for end in ends:
        end.wait()


class _TrainerRun:
    """One trainer, on its worker."""

    def __init__(self, host: Host, number: int, outcome: Outcome) -> None:
        self.host = host
        self.program = host.program
        self.number = number
        self.trainer = host.program.trainers[number]
        self.outcome = outcome
        #: references to leaves, and to the hosts of other workers
        self.leaf_refs: dict[int, Any] = {}
        self.host_refs: dict[int, Any] = {}
        self.optimizer: DistributedOptimizer | None = None
        #: references kept until the end, by (trainer, step, operation)
        self.kept: dict[tuple[int, int, int], Any] = {}

    def run(self) -> None:
        self._refer()
        if self.trainer.optimizer is not None:
            self.optimizer = DistributedOptimizer(
                torch.optim.SGD,
                [self.leaf_refs[leaf] for leaf in self.trainer.optimizer.leaves],
                lr=self.trainer.optimizer.lr,
            )
        steps = [_StepRun(self, number, step) for number, step in enumerate(self.trainer.steps)]
        if self.trainer.overlap:
            _together([step.run for step in steps])
        else:
            for step in steps:
                step.run()
        del steps
        for key, rref in self.kept.items():
            try:
                value = rref.to_here()
            except RuntimeError:  # it could not be made, and nobody asked for it before
                continue
            outputs = value if isinstance(value, tuple) else (value,)
            self.outcome.kept[key] = tuple(output.detach().clone() for output in outputs)
        self.kept.clear()
        self.leaf_refs.clear()
        self.host_refs.clear()
        self.optimizer = None

    def _refer(self) -> None:
        """Make the references that the steps and the optimizer need."""
        leaves = dict.fromkeys(
            self.trainer.optimizer.leaves if self.trainer.optimizer is not None else ()
        )
        for step in self.trainer.steps:
            for index, op in enumerate(step.ops):
                if op.call.startswith("helper"):
                    self.host_refs[op.worker] = None
                for input in op.inputs:
                    is_leaf, number = source(self.program, index, input)
                    if is_leaf and (
                        input.how != "value"
                        or self.program.leaves[number].owner not in (op.worker, self.host.worker)
                        or (op.builtin and self.program.leaves[number].owner != self.host.worker)
                    ):
                        leaves[number] = None
        for number in leaves:
            owner = self.program.leaves[number].owner
            if owner == self.host.worker:
                self.leaf_refs[number] = rpc.RRef(self.host.leaves[number])
            else:
                self.leaf_refs[number] = rpc.remote(owner, find_leaf, args=(number,))
        for worker in self.host_refs:
            self.host_refs[worker] = rpc.remote(worker, find_host)


class _StepRun:
    """One step, and its second attempt if it has one."""

    def __init__(self, trainer: _TrainerRun, number: int, step: Step) -> None:
        self.trainer = trainer
        self.program = trainer.program
        self.host = trainer.host
        self.number = number
        self.step = step

    def run(self) -> None:
        outcomes, key = self.trainer.outcome.steps, (self.trainer.number, self.number)
        self._attempt(outcomes[key], faults=True)
        error = outcomes[key].error
        if error is not None and self.step.retry:
            outcomes[key] = StepOutcome(first_error=error)
            self._attempt(outcomes[key], faults=False)

    def _attempt(self, outcome: StepOutcome, *, faults: bool) -> None:
        try:
            with self._fresh(faults):
                with autograd.context() as context_id:
                    outcome.context = context_id
                    _refuse_another_context()
                    self._forward()
                    for backward in self.step.backwards:
                        self._backward(context_id, backward, outcome)
                    if self.step.optimize and self.trainer.optimizer is not None:
                        self.trainer.optimizer.step(context_id)
                self._keep()
                self._scribble()
        except Exception as error:
            outcome.error = str(error)
        outcome.finished = True

    @contextlib.contextmanager
    def _fresh(self, faults: bool) -> Iterator[None]:
        self.faults = faults
        #: what each operation made: a value, a future of it, a reference to it, or None if dropped
        self.values: list[Any] = []
        #: values as fetched, by operation or, for leaves, by -1 - number
        self.fetched: dict[int, Value] = {}
        try:
            yield
        finally:
            self.values = []
            self.fetched = {}

    def _keep(self) -> None:
        for index, op in enumerate(self.step.ops):
            if op.call in REFERENCE_CALLS and op.keep == "program":
                self.trainer.kept[self.trainer.number, self.number, index] = self.values[index]

    def _scribble(self) -> None:
        """Write to the copies of leaves that came by reference: nobody else may notice."""
        if any(op.keep == "program" for op in self.step.ops):
            return  # what is kept may be such a copy itself
        for key, value in self.fetched.items():
            if key < 0 and isinstance(value, Tensor):
                with torch.no_grad():
                    value.fill_(7)

    # -- forward ----------------------------------------------------------------------------

    def _forward(self) -> None:
        last_uses = self._last_uses()
        for index, op in enumerate(self.step.ops):
            inputs = [self._input(index, op, input) for input in op.inputs]
            if op.grad == "off_at_caller":
                with torch.no_grad():
                    result = self._call(index, op, inputs)
            else:
                result = self._call(index, op, inputs)
            self.values.append(result)
            if op.grad == "off_at_caller" and not isinstance(result, Future):
                self.values[index] = _detached(result)
            # The last references to what is dropped now must not be in this frame.
            del inputs, result
            for dropped in last_uses.get(index, ()):
                self.values[dropped] = None
        for index in range(len(self.values)):
            self._await(index)

    def _last_uses(self) -> dict[int, list[int]]:
        """After which operations the references to which others are dropped."""
        ops = self.step.ops
        if all(op.keep in ("step", "program") for op in ops):
            return {}
        last = list(range(len(ops)))
        for index, op in enumerate(ops):
            for input in op.inputs:
                if index - input.back >= 0:
                    last[index - input.back] = index
        for backward in self.step.backwards:
            for back in backward.roots:
                last[-back] = len(ops)
        found: dict[int, list[int]] = {}
        for index, op in enumerate(ops):
            if op.call in REFERENCE_CALLS and op.keep in ("now", "use"):
                found.setdefault(last[index], []).append(index)
        return found

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
        """The value of an operation, here: awaited, or fetched, once."""
        value = self._await(number)
        if self.step.ops[number].call in REFERENCE_CALLS:
            if number not in self.fetched:
                self.fetched[number] = value.to_here()
            value = self.fetched[number]
        found: Value = value
        return found

    def _await(self, number: int) -> Any:
        """What an operation made, once it is there."""
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
        to, function = op.worker, perform
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
        args = (*inputs, op.factor) if op.kind == "scale" else tuple(inputs)
        return make(op.worker, KINDS[op.kind].builtin, args=args)

    # -- backward ---------------------------------------------------------------------------

    def _backward(self, context_id: int, backward: Backward, outcome: StepOutcome) -> None:
        at = [len(self.values) - back for back in backward.roots]
        trainer, times = self.trainer.number, backward.times
        if backward.where == "rref":
            for time in range(times):
                retain = backward.retain_graph or time < times - 1
                self.values[at[0]].backward(context_id, retain_graph=retain)
                self.host.on_pass(trainer, self.number, context_id)
            return
        roots = []
        for index in at:
            root = self._value(index)
            assert isinstance(root, Tensor)
            outcome.roots[index] = root.detach().clone()
            roots.append(root)
        args = (trainer, self.number, context_id, roots, times, backward.retain_graph)
        if backward.where == "udf":
            rpc.rpc_sync(backward.worker, run_backward, args=args)
        else:
            run_backward(*args)


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
