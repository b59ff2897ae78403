"""What a worker has of a program, and the functions that its trainers call on it.

The functions are ordinary functions for RPC: pickled by name, found on the callee, given an
address (trainer, step, operation, whether faults are on) and the inputs. An input is a tensor, a
reference, or None for a leaf of the worker's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from squall.model.program.hooks import add_leaf_hook, add_leaf_sleep
from squall.model.program.kind import Value
from squall.model.program.operations import PlantedError, compute, initial_values, join, planted
from squall.model.program.program import REFERENCE_CALLS, Ending, Op, Program, source
from squall.real import tracing
from squall.real.autograd import api as autograd
from squall.real.future import Future, completed
from squall.real.rpc import api as rpc
from squall.real.rpc.all_gather import _wait_all_workers
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.freed import check_freed
from squall.sim.world.stand_in.backend import at_home, beside_the_current_stream

label_module(__name__, "program")
label_module("squall.model.program.operations", "operations")

#: (trainer, step, operation, whether faults are planted)
Address = tuple[int, int, int, bool]
#: where a worker keeps its host
_KEY = "program host"


class Host:
    """The leaves that a worker owns, and the references that it keeps."""

    def __init__(
        self,
        program: Program,
        worker: int,
        on_pass: Callable[[int, int, int], None],
        on_failed: Callable[[int], None] = lambda context_id: None,
    ) -> None:
        """``on_pass(trainer, step, context_id)`` is called after each backward pass,
        ``on_failed(context_id)`` when all those of a step are over, of which one has failed."""
        self.program = program
        self.worker = worker
        self.on_pass = on_pass
        self.on_failed = on_failed
        self.leaves = {
            number: at_home(initial_values(leaf, program.mode), worker)
            for number, leaf in enumerate(program.leaves)
            if leaf.owner == worker
        }
        #: hooks on the nodes of leaves live as long as the nodes
        self._kept_alive = [
            add_leaf_hook(tensor, hook)
            for number, tensor in self.leaves.items()
            for hook in program.leaves[number].hooks
        ] + [
            add_leaf_sleep(tensor, sleep, wait)
            for number, tensor in self.leaves.items()
            if (sleep := program.leaves[number].sleep) is not None
        ]
        self.kept: list[Any] = []
        #: by what must not be done by two at a time: who waits for a turn, the first has it
        self.turns: dict[str, list[Future[None]]] = {}
        #: whether the worker shuts down as soon as its own trainers are done
        self.shuts_down_early = False
        #: whether functions that fail keep the error during which they raise another one
        self.keeps_errors = False
        #: by story (trainer, step, number): what is called after the worker's shutdown to say how
        #: it ended
        self.afterwards: dict[tuple[int, int, str, int], Callable[[], str]] = {}

    def op(self, address: Address) -> Op:
        return self.program.trainers[address[0]].steps[address[1]].ops[address[2]]

    def perform(self, address: Address, inputs: Sequence[Any]) -> Value:
        """Compute an operation here."""
        op = self.op(address)
        if op.grad == "on" or (op.grad == "off_at_caller" and op.call != "local"):
            return self._perform(address, op, inputs)
        with torch.no_grad():
            return self._perform(address, op, inputs)

    def _perform(self, address: Address, op: Op, inputs: Sequence[Any]) -> Value:
        text = None
        if op.fault is not None and address[3]:
            text = planted(op.fault, *address[:3])
            if op.fault == "udf":
                raise PlantedError(text)
        tensors = []
        for input, given in zip(op.inputs, inputs, strict=True):
            if given is None:
                tensors.append(self.leaves[source(self.program, address[2], input)[1]])
            elif isinstance(given, Tensor):
                tensors.append(given)
            else:
                value = given.local_value() if given.is_owner() else given.to_here()
                tensors.append(value[input.output] if isinstance(value, tuple) else value)
                if input.how == "kept_rref":
                    self.kept.append(given)
        if not tensors or tensors[0].is_cpu:
            return compute(op, tensors, text=text, wait=wait)
        with beside_the_current_stream(tensors, aside=sum(address[:3]) % 2 == 1) as made:
            value = compute(op, tensors, text=text, wait=wait)
            made += value if isinstance(value, tuple) else [value]
        return value

    def relayed(self, op: Op, inputs: Sequence[Any]) -> tuple[list[Any], Tensor | None]:
        """What a relaying worker passes on, and the first tensor among its inputs."""
        first = next((given for given in inputs if isinstance(given, Tensor)), None)
        if op.relay == "double":
            return [x * 2 if isinstance(x, Tensor) else x for x in inputs], first
        return list(inputs), first


def wait(seconds: float) -> None:
    """Let virtual time pass."""
    current_task().runtime.sleep(seconds)


def here() -> Host:
    """The host of the running task's worker."""
    host: Host = current_worker().locals[_KEY]
    return host


def place(worker: Any, host: Host) -> None:
    """Give a worker its host."""
    worker.locals[_KEY] = host


def withdraw(worker: Any) -> None:
    """Remove a worker's host at the end of a run: it refers to the whole run."""
    worker.locals.pop(_KEY, None)


def together(functions: Sequence[Callable[[], None]]) -> None:
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


def leave_group(host: Host, ending: Ending) -> None:
    """Leave the group of this worker as all others do, before the next one."""
    if not ending.keeps:
        host.kept.clear()
    if ending.graceful:
        rpc.shutdown(timeout=ending.timeout_s)
        return
    try:
        _wait_all_workers(ending.timeout_s)
    finally:
        _leave_at_once(host, ending)


def _leave_at_once(host: Host, ending: Ending) -> None:
    tracer, rank = current_worker().tracer, host.worker
    if ending.quiet_s:
        wait(ending.quiet_s)
    else:
        tracer.emit(tracing.FAULT_INJECTED, "leave", "", rank, -1, -1, "", 0, -1, None)
    rpc.shutdown(graceful=False)
    tracer.emit(tracing.GROUP_LEFT)


def begin_again(host: Host, seconds: float) -> None:
    """What a new process does that works: for ``seconds`` it has a context, and references, that all
    others know of. It does without those that it does not reach."""
    with contextlib.suppress(RuntimeError), autograd.context():
        references = [
            rpc.remote(leaf.owner, find_leaf, args=(number,))
            for number, leaf in enumerate(host.program.leaves)
            if leaf.owner != host.worker
        ]
        for reference in references:
            reference.to_here()
        wait(seconds)


# -- what is called by RPC ----------------------------------------------------------------------


def find_host() -> Host:
    return here()


def find_leaf(number: int) -> Tensor:
    return here().leaves[number]


def perform(address: Address, inputs: Sequence[Any]) -> Value:
    try:
        return here().perform(address, inputs)
    except PlantedError as error:
        if not here().keeps_errors:
            raise
        # It and this frame, which has the inputs, keep each other until somebody lets go of its frames.
        first = error  # noqa: F841
        raise PlantedError(str(error)) from None


@async_execution
def perform_async(address: Address, inputs: Sequence[Any]) -> Future[Value]:
    return completed(here().perform(address, inputs))


def make_reference(address: Address, inputs: Sequence[Any]) -> Any:
    return rpc.RRef(here().perform(address, inputs))


def relay(address: Address, hop: int, inputs: Sequence[Any]) -> Any:
    """On ``via[hop]`` of an operation: call the next worker on its way, and return the result."""
    host = here()
    op = host.op(address)
    inputs, first = host.relayed(op, inputs)
    hop += 1
    if hop < len(op.via):
        result = rpc.rpc_sync(op.via[hop], relay, args=(address, hop, inputs))
    elif op.call == "remote":
        return rpc.remote(op.worker, perform, args=(address, inputs))
    elif op.call == "rref":
        return rpc.rpc_sync(op.worker, make_reference, args=(address, inputs))
    else:
        result = rpc.rpc_sync(op.worker, perform, args=(address, inputs))
    if op.relay == "join" and first is not None and op.call not in REFERENCE_CALLS:
        result = join(result, first)
    return result


@async_execution
def relay_async(address: Address, hop: int, inputs: Sequence[Any]) -> Future[Any]:
    """As :func:`relay`, without waiting."""
    host = here()
    op = host.op(address)
    inputs, first = host.relayed(op, inputs)
    hop += 1
    future: Future[Any]
    if hop < len(op.via):
        future = rpc.rpc_async(op.via[hop], relay_async, args=(address, hop, inputs))
    else:
        future = rpc.rpc_async(op.worker, perform_async, args=(address, inputs))
    if op.relay == "join" and first is not None:
        tensor = first
        return future.then(lambda done: join(done.value(), tensor))
    return future


def run_backward(
    trainer: int, step: int, context_id: int, roots: list[Tensor], times: int, retain_graph: bool
) -> None:
    """Backward passes that start on the worker that is called."""
    for time in range(times):
        retain = retain_graph or time < times - 1
        autograd.backward(context_id, roots, retain)
        if not retain:
            check_freed(roots)
        here().on_pass(trainer, step, context_id)
