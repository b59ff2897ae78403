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
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from squall.model.program.made import Checked, check_fields
from squall.model.program.stories import Story

VERSION = 2

Mode = Literal["exact", "float"]
Dtype = Literal["float64", "float32", "bfloat16", "complex64"]
Call = Literal[
    "local",  # on the trainer itself, no call
    "sync",  # rpc_sync
    "async",  # rpc_async, waited for where the result is needed, at the latest before backward
    "remote",  # rpc.remote: the result stays on the worker, which owns it
    "rref",  # the function returns RRef(result); on the trainer itself: just RRef(result)
    "async_execution",  # every function on the way returns a future
    "helper_sync",  # rref.rpc_sync().method(...), and so on
    "helper_async",
    "helper_remote",
]
How = Literal[
    "value",  # the tensor that the trainer has (and fetches once, if it must)
    "rref",  # a reference; the worker fetches the value, or has it
    "kept_rref",  # the same, and the worker keeps its reference until the end
]
#: what a worker on the way does: hand on, double what it hands on, or add what it got to the result
Relay = Literal["pass", "double", "join"]
Grad = Literal["on", "off", "off_at_caller"]
#: how long the trainer keeps a reference: not at all, until its last use, for the step, or until
#: the end of the trainer, which then fetches the value
Keep = Literal["now", "use", "step", "program"]
#: hooks on what an operation made: on the tensor (twice the gradient; one more; only looks) or
#: on its node
Hook = Literal["double", "increment", "look", "node_pre", "node_post", "retain_grad"]
LeafHook = Literal[
    "double", "increment", "look", "accumulate_pre", "accumulate_post", "post_accumulate"
]
#: where an operation sleeps as a gradient comes: in a hook on its first input or on its (first)
#: result, in the backward of a custom function behind it, or in a hook on that function's node
SleepAt = Literal["argument", "result", "backward", "node_pre", "node_post"]
#: the same of a leaf: in a hook on the tensor, or before or after the gradient is accumulated
LeafSleepAt = Literal["tensor", "accumulate_pre", "accumulate_post"]
Fault = Literal["udf", "backward", "hook"]
#: why a call fails that is made beside an operation
FailingCall = Literal[
    "argument",  # one of its arguments cannot be pickled
    "copy",  # a tensor among them cannot be copied, which shows as the message is sent
    "reading",  # one of them cannot be unpickled where it arrives
    "result",  # the result cannot be pickled
    "reply",  # a tensor in the result cannot be copied
    "worker",  # it goes to a worker that is not there
]
Where = Literal["here", "udf", "rref"]

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
    it a call with the same inputs is made, which fails and is forgotten.
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
    ``stories`` go on beside its first attempt."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    ops: tuple[Op, ...]
    backwards: tuple[Backward, ...] = ()
    optimize: bool = False
    retry: bool = False
    stories: tuple[Story, ...] = ()


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
    version: int = VERSION

    def __post_init__(self) -> None:
        check_fields(self)
        for check in CHECKS:
            check(self)

    @property
    def steps(self) -> list[tuple[int, int, Step]]:
        """(trainer, step number, step) of every step."""
        return [
            (t, s, step) for t, tr in enumerate(self.trainers) for s, step in enumerate(tr.steps)
        ]

    @property
    def most_handlers(self) -> int:
        """How many handlers of its calls may be under way at once, wherever they run.

        A handler that waits for another one keeps its thread: where there are fewer threads, all of
        them may come to wait for a handler that has none.
        """
        return sum(
            1 + len(op.via) for _, _, step in self.steps for op in step.ops if op.call != "local"
        )


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


def sleeps(program: Program) -> bool:
    """Whether user code sleeps in backward passes of a program."""
    return any(leaf.sleep is not None for leaf in program.leaves) or any(
        op.sleep is not None for _, _, step in program.steps for op in step.ops
    )


def slept_s(program: Program) -> float:
    """Seconds that user code of a program sleeps, or waits to begin a pass, at most."""
    total = sum(sum(leaf.sleep.seconds) for leaf in program.leaves if leaf.sleep is not None)
    for _, _, step in program.steps:
        once = sum(sum(op.sleep.seconds) for op in step.ops if op.sleep is not None)
        once += sum(back.times * (back.every_s or 0.0) for back in step.backwards)
        total += once * (2 if step.retry else 1)
    return total


def failing_passes(program: Program) -> bool:
    """Whether other passes may follow one that failed in the same context."""
    return any(back.may_fail for _, _, step in program.steps for back in step.backwards)


def exchanged(worker: int, round: int) -> int:
    """What a worker gives in a round of exchange; different for every worker and round."""
    return round * 1000 + worker


def computation_of(program: Program) -> Program:
    """The program without what goes on beside its computation: stories, and exchanges."""
    if not program.gathers and not any(step.stories for _, _, step in program.steps):
        return program
    trainers = tuple(
        replace(trainer, steps=tuple(replace(step, stories=()) for step in trainer.steps))
        for trainer in program.trainers
    )
    return replace(program, trainers=trainers, gathers=0)
