"""A distributed autograd program as plain data.

A program has leaves (parameters and inputs, each owned by a worker) and trainers. A trainer runs
steps on its worker; a step is one autograd context: operations, then backward passes, then
perhaps an optimizer step. An interpreter runs it in one process with plain ``torch.autograd``
(model/one_process/interpreter.py) or on workers (sim/programs/run.py); a generator draws valid ones
(model/generate/generator.py); a file holds one as JSON (model/program/file.py).

A value is named by how far back it is: an input with ``back`` 1 of operation ``i`` is what
operation ``i - 1`` made; behind the first operation of a step come the leaves, the last one
first. So nothing can refer to what is not there yet, and a program from which an operation is
cut still means something.

Where things happen: an operation runs on its ``worker``. Its trainer hands over the inputs and
gets the result, or a reference to it, along ``trainer -> via[0] -> … -> worker`` and back. A
leaf that the worker owns itself is taken there and does not travel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from squall.model.program.cargo import Cargo
from squall.model.program.chain import Chain
from squall.model.program.stories import Story
from squall.model.program.updates import Updates
from squall.model.program.validated import Checked, check_fields, is_trusted

VERSION = 2

Mode = Literal["exact", "float"]
Dtype = Literal["float64", "float32", "bfloat16", "complex64"]
#: how an operation is called, and where its result is
Call = Literal[
    "local",  # on the trainer itself, no call
    "sync",  # rpc_sync
    "async",  # rpc_async, waited for where the result is needed, at the latest before backward
    "remote",  # rpc.remote: the result stays on the worker, which owns it
    "rref",  # the function returns RRef(result); on the trainer itself: just RRef(result)
    "async_execution",  # every function on the way returns a future
    "helper_sync",  # rref.rpc_sync().method(...) of an object on the worker
    "helper_async",  # rref.rpc_async().method(...), waited for as async
    "helper_remote",  # rref.remote().method(...): the result stays on the worker
]
#: what an operation is given
How = Literal[
    "value",  # the tensor that the trainer has (and fetches once, if it must)
    "rref",  # a reference; the worker fetches the value, or has it
    "kept_rref",  # the same, and the worker keeps its reference until the end
]
#: what a worker on the way does
Relay = Literal[
    "pass",  # hand on
    "double",  # double what it hands on
    "join",  # add what it got to the result
]
#: the grad mode of an operation
Grad = Literal[
    "on",  # gradients are recorded
    "off",  # it computes under no_grad, on its worker
    "off_at_caller",  # the whole call is made under no_grad
]
#: how long the trainer keeps a reference
Keep = Literal[
    "now",  # not at all
    "use",  # until its last use
    "step",  # for the step
    "program",  # until the end of the trainer, which then fetches the value
]
#: hooks on what an operation made
Hook = Literal[
    "double",  # on the tensor: twice the gradient
    "increment",  # on the tensor: the gradient and one
    "look",  # on the tensor: only looks
    "node_pre",  # before its node: twice the gradients
    "node_post",  # after its node: twice the gradients
    "retain_grad",  # the tensor retains its gradient
]
#: hooks on a leaf
LeafHook = Literal[
    "double",  # on the tensor: twice the gradient
    "increment",  # on the tensor: the gradient and one
    "look",  # on the tensor: only looks
    "accumulate_pre",  # before the gradient is accumulated: twice the gradient
    "accumulate_post",  # when it has been: adds up what it sees
    "post_accumulate",  # one that distributed autograd never calls
]
#: where an operation sleeps as a gradient comes
SleepAt = Literal[
    "argument",  # in a hook on its first input
    "result",  # in a hook on its (first) result
    "backward",  # in the backward of a custom function behind it
    "node_pre",  # in a hook before that function's node
    "node_post",  # in a hook after it
]
#: where a leaf sleeps as a gradient comes
LeafSleepAt = Literal[
    "tensor",  # in a hook on the tensor
    "accumulate_pre",  # before the gradient is accumulated
    "accumulate_post",  # when it has been
]
#: where an operation raises an error, as the program asks for
Fault = Literal[
    "udf",  # in its function
    "backward",  # in the backward of a custom function behind it
    "hook",  # in a hook on its result
]
#: why a call fails that is made beside an operation
FailingCall = Literal[
    "argument",  # one of its arguments cannot be pickled
    "copy",  # a tensor among them cannot be copied, which shows as the message is sent
    "reading",  # one of them cannot be unpickled where it arrives
    "state",  # nor take up what it had
    "result",  # the result cannot be pickled
    "reply",  # a tensor in the result cannot be copied
    "worker",  # it goes to a worker that is not there
    "late result",  # the result, of a future, cannot be pickled when it is there
    "late reply",  # a tensor in such a result cannot be copied
    "late error",  # the future fails when its function has returned
    "no future",  # a function that has to return a future returns something else
    "answer",  # the result cannot be unpickled by the caller
    "raises",  # the function raises
    "unwritable error",  # what it raises is of a type that cannot be pickled
    "unnamed error",  # what it raises has a repr that raises
    "exit",  # the function wants to end its process
    "operator",  # an operator of torch is called with tensors that do not fit
]
#: how a call that fails is made
FailsBy = Literal[
    "op",  # as the operation is, where that can be
    "sync",  # rpc_sync
    "async",  # rpc_async, and nobody waits
    "remote",  # rpc.remote: a creation
    "profiled sync",  # rpc_sync within a profile, which puts a wrapper around the call
    "profiled remote",  # rpc.remote within a profile
]
#: where a backward pass begins
Where = Literal[
    "here",  # on the trainer
    "udf",  # in a function on another worker, to which the roots are sent
    "rref",  # by RRef.backward of the one root, a reference
]

#: calls that leave the result where it was made
REFERENCE_CALLS = frozenset({"remote", "rref", "helper_remote"})
#: those of them whose error is raised where the value is fetched
LAZY_CALLS = frozenset({"remote", "helper_remote"})
HELPER_CALLS = frozenset({"helper_sync", "helper_async", "helper_remote"})

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep(Checked):
    """User code that sleeps in backward passes: ``seconds[n]`` of virtual time in its call number
    ``n``, and not at all in later ones. In one process nobody sleeps."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    at: SleepAt = "result"
    seconds: Annotated[tuple[float, ...], Field(min_length=1)] = (1.0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSleep(Checked):
    """As :class:`Sleep`, in a hook of a leaf, which all contexts share."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    at: LeafSleepAt = "tensor"
    seconds: Annotated[tuple[float, ...], Field(min_length=1)] = (1.0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf(Checked):
    """A tensor that no operation made, on the worker that owns it.

    Its values follow from ``seed`` (:func:`squall.model.program.operations.initial_values`):
    integers from -3 to 3 in mode exact, numbers from 0.5 to 1.5 in mode float. An embedding is a
    table of ``shape[0]`` rows, whose lookups have sparse gradients.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    owner: int
    shape: tuple[int, ...] = ()
    dtype: Dtype = "float64"
    requires_grad: bool = True
    kind: Literal["dense", "embedding"] = "dense"
    seed: int = 0
    hooks: tuple[LeafHook, ...] = ()
    sleep: LeafSleep | None = None


@dataclass(frozen=True, slots=True)
class Input(Checked):
    """An earlier value: that many back, and which output of an operation that has several."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    back: int
    output: int = 0
    how: How = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Checked):
    """One operation: what, where and how.

    ``kind``: one of :data:`squall.model.program.operations.KINDS`; some of them look at ``factor``.

    ``builtin``: call torch's own operator by RPC instead of a Python function. ``grad``:
    compute under ``no_grad`` there, or make the whole call under it here. ``fails_first``: before
    it a call with the same inputs is made, which fails and is forgotten; ``fails_by``: how.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: str
    inputs: tuple[Input, ...]
    worker: int
    call: Call = "local"
    via: tuple[int, ...] = ()
    relay: Relay = "pass"
    builtin: bool = False
    grad: Grad = "on"
    factor: int = 1
    dtype: Dtype = "float64"
    keep: Keep = "step"
    hooks: tuple[Hook, ...] = ()
    fault: Fault | None = None
    sleep: Sleep | None = None
    fails_first: FailingCall | None = None
    fails_by: FailsBy = "op"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(Checked):
    """``times`` backward passes from the same roots, given as how far back from the last op.

    All but the last of them keep the graph, and the last does if ``retain_graph``. ``where``: on
    the trainer; in a function on ``worker``, to which the roots are sent; or by
    ``RRef.backward`` of the one root, a reference.

    ``factor``: what the trainer multiplies the roots by before. ``may_fail``: the error of a pass
    is noted, and the step goes on. ``every_s``: the passes begin so many seconds apart, each in a
    task of its own, whether or not the one before is over; all of them keep the graph.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    roots: tuple[int, ...]
    times: int = 1
    retain_graph: bool = False
    where: Where = "here"
    worker: int = 0
    factor: int = 1
    may_fail: bool = False
    every_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Checked):
    """One autograd context. ``retry``: if it fails, do it again in a fresh one without faults.
    ``stories``, ``cargoes``, ``chains`` and ``updates`` go on beside its first attempt. ``group``:
    the number of the RPC group in which it runs, which is never below that of the step before it.
    ``profiled``: it runs within a profile, which puts wrappers around its calls and theirs."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    ops: tuple[Op, ...]
    backwards: tuple[Backward, ...] = ()
    optimize: bool = False
    retry: bool = False
    stories: tuple[Story, ...] = ()
    cargoes: tuple[Cargo, ...] = ()
    chains: tuple[Chain, ...] = ()
    updates: tuple[Updates, ...] = ()
    group: int = 0
    profiled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer(Checked):
    """``DistributedOptimizer(SGD, leaves, lr)``. The leaves belong to this trainer alone."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    leaves: tuple[int, ...]
    lr: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer(Checked):
    """Steps on one worker, one after the other or, with ``overlap``, all at once."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    worker: int
    steps: tuple[Step, ...]
    overlap: bool = False
    optimizer: Optimizer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(Checked):
    """How all workers leave their RPC group, to meet again in the next one under the same names.

    ``graceful``: each waits for the others, and until nothing is under way, for at most
    ``timeout_s`` seconds of virtual time at a time (0: without a limit). Otherwise each leaves
    ``quiet_s`` seconds after all trainers have come so far; with 0 whatever is under way then is
    lost. ``keeps``: the references that workers keep are kept beyond it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    graceful: bool = True
    timeout_s: float = 0.0
    quiet_s: float = 0.0
    keeps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(Checked):
    """Everything that is to be computed, and where.

    Mode exact: float64 with integers below 2**53 throughout, so that every order of summation
    gives the same bits. Mode float: any dtype, to be compared with a tolerance.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    workers: int
    leaves: tuple[Leaf, ...]
    trainers: tuple[Trainer, ...]
    mode: Mode = "exact"
    #: rounds in which all workers exchange an object each before trainers begin
    gathers: int = 0
    #: of each RPC group but the last; the steps say in which of them they run
    endings: tuple[Ending, ...] = ()
    version: int = VERSION

    def __post_init__(self) -> None:
        if is_trusted():
            return
        check_fields(self)
        for check in CHECKS:
            check(self)

    @property
    def steps(self) -> list[tuple[int, int, Step]]:
        """(trainer, step number, step) of every step."""
        return [
            (t, s, step) for t, tr in enumerate(self.trainers) for s, step in enumerate(tr.steps)
        ]

    def with_steps(self, change: Callable[[Step], Step], **changes: Any) -> Program:
        """The program with each step changed so, and with other changes."""
        trainers = tuple(
            replace(trainer, steps=tuple(map(change, trainer.steps))) for trainer in self.trainers
        )
        return replace(self, trainers=trainers, **changes)

    @property
    def most_handlers(self) -> int:
        """How many handlers of its calls may be under way at once, wherever they run.

        A handler that waits for another one keeps its thread: where there are fewer threads, all of
        them may come to wait for a handler that has none.
        """
        steps = [step for _, _, step in self.steps]
        calls = sum(1 + len(op.via) for step in steps for op in step.ops if op.call != "local")
        return calls + sum(thing.handlers for step in steps for _, _, thing in beside(step))


#: what looks at a program as it is made, and raises ValueError where it makes no sense; what does so
#: knows the operations, which are written in terms of programs (model/program/check.py)
CHECKS: list[Callable[[Program], None]] = []


def source(program: Program, index: int, input: Input) -> tuple[bool, int]:
    """What an input of operation ``index`` of a step refers to: (is a leaf, its number)."""
    at = index - input.back
    return (True, len(program.leaves) + at) if at < 0 else (False, at)


def travels(program: Program, index: int, op: Op, input: Input) -> bool:
    """Whether the input is handed over as a tensor, from the trainer along the way."""
    if input.how != "value":
        return False
    is_leaf, number = source(program, index, input)
    return not (is_leaf and not op.builtin and program.leaves[number].owner == op.worker)


def drops(step: Step) -> dict[int, list[int]]:
    """By operation: those whose references the trainer lets go of after it."""
    ops = step.ops
    if all(op.keep in ("step", "program") for op in ops):
        return {}
    last = list(range(len(ops)))
    for index, op in enumerate(ops):
        for input in op.inputs:
            if index - input.back >= 0:
                last[index - input.back] = index
    for backward in step.backwards:
        for back in backward.roots:
            last[-back] = len(ops)
    found: dict[int, list[int]] = {}
    for index, op in enumerate(ops):
        if op.call in REFERENCE_CALLS and op.keep in ("now", "use"):
            found.setdefault(last[index], []).append(index)
    return found


#: what goes on beside a step
Beside = Story | Cargo | Chain | Updates
#: fields of it that are lists of workers
WORKERS = ("via", "readers", "owners", "trainers")
BESIDE = ("stories", "cargoes", "chains", "updates")


def beside(step: Step) -> list[tuple[str, int, Beside]]:
    """What goes on beside a step: the field that it is in, its number, itself."""
    return [(field, at, each) for field in BESIDE for at, each in enumerate(getattr(step, field))]


def failing_passes(program: Program) -> bool:
    """Whether other passes may follow one that failed in the same context."""
    return any(back.may_fail for _, _, step in program.steps for back in step.backwards)


def exchanged(worker: int, round: int) -> int:
    """What a worker gives in a round of exchange; different for every worker and round."""
    return round * 1000 + worker
