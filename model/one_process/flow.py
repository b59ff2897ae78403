"""Which messages a step records, and which of their send functions a backward pass feeds.

A symbolic run of a step, without tensors. For each tensor it knows the set of messages whose recv
functions a gradient of that tensor reaches; as a send function is fed when its message's recv
function is reached, this tells the send functions that a pass leaves unfed. A worker that takes
part in a pass and has such a send function waits for it for ever: "FAST mode" counts on every
send function of the context.

As in torch, a call sends its tensors in one message per hop and its result in one per hop back;
fetching the value of a reference sends one from its owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from squall.model.program.kind import Kind
from squall.model.program.operations import KINDS, planted
from squall.model.program.program import (
    LAZY_CALLS,
    REFERENCE_CALLS,
    Backward,
    Input,
    Op,
    Program,
    Step,
)

#: the state of a tensor, as bits: the lowest says that it requires grad (without it no other is
#: set), each further one is a mark that a gradient of it reaches (:attr:`Flow.marks`)
State = int
NO_GRAD: State = 0
GRAD: State = 1

#: what a message carries that answers a fetch (:attr:`Sent.what`)
FETCHED = "fetched value"


class Sent(NamedTuple):
    """A recorded message: a send function on ``src`` and a recv function on ``dst``.

    ``op``: the operation of the step it belongs to; -1 for the roots sent to a backward pass.
    """

    src: int
    dst: int
    what: str
    op: int

    def __str__(self) -> str:
        return f"{self.what} of ops[{self.op}], from worker {self.src} to {self.dst}"


class Planted(NamedTuple):
    """A place where a gradient that arrives raises the fault of an operation."""

    op: int


class Pass(NamedTuple):
    """What a backward pass comes to: on which worker it starts, what it feeds and what not."""

    worker: int
    #: operations whose faults it sets off
    faults: list[int]
    #: messages never fed whose sender takes part in the pass, which therefore does not end
    unfed: list[Sent]


class Made:
    """The value of an operation: where it is, and the states of its outputs there and here."""

    __slots__ = ("carried", "here", "here_carried", "place", "states")

    def __init__(self, place: int, states: list[State], here: list[State] | None) -> None:
        self.place = place
        self.states = states
        #: as the trainer has it; None: it has not fetched it
        self.here = here
        #: outputs that some operation takes gradients to, by reference and as the trainer has it
        self.carried: set[int] = set()
        self.here_carried: set[int] = set()


class Flow:
    """The symbolic run of one step. Feed it the operations in order."""

    def __init__(self, home: int, leaves: Sequence[tuple[int, bool]]) -> None:
        """``leaves``: owner and requires_grad of each; ``home``: the trainer's worker."""
        self.home = home
        #: leaves first, then what the operations made
        self.values: list[Made] = []
        for owner, grad in leaves:
            states = [GRAD if grad else NO_GRAD]
            self.values.append(Made(owner, states, states if owner == home else None))
        self.leaves = len(leaves)
        #: what each bit after the first stands for
        self.marks: list[Sent | Planted] = []

    # -- operations -----------------------------------------------------------------------

    def add(self, op: Op) -> None:
        """Run ``op`` next."""
        values = self.values
        there = len(values)
        index = there - self.leaves
        home, worker, call = self.home, op.worker, op.call
        kind = KINDS[op.kind]
        # RRef(value) of a value that is made on the trainer's own worker needs no call either.
        by_call = call != "local" and (call != "rref" or worker != home or bool(op.via))
        silent = op.grad == "off_at_caller"
        computed = op.grad == "on" or (by_call and silent)

        # For each input: the value, and whether the trainer sends it (and must have it for that).
        inputs: list[tuple[Made, Input, bool]] = []
        sent: list[State] = []
        for input in op.inputs:
            made = values[there - input.back]
            has = input.how == "value" and (
                input.back <= index or made.place != worker or op.builtin
            )
            inputs.append((made, input, has))
            if has:
                sent.append((made.here or self._here(made))[input.output])
        relays: list[State] = []
        path: tuple[int, ...] = ()
        if by_call:
            path = (home, *op.via, worker)
            for hop in range(1, len(path)):
                recorded = hop > 1 or not silent
                sent = self._send(path[hop - 1], path[hop], sent, recorded, "arguments", index)
                relays.append(sent[0] if sent else NO_GRAD)

        arrived = iter(sent)
        states: list[State] = []
        for made, input, has in inputs:
            if has:
                state = next(arrived)
            elif made.place == worker:
                state = made.states[input.output]
            else:
                state = self._send(made.place, worker, made.states, computed, FETCHED, index)[
                    input.output
                ]
            states.append(state if computed else NO_GRAD)
        results = _results(kind, states)
        if op.fault in ("backward", "hook") and results[0]:
            results[0] |= self._mark(Planted(index))

        if call in REFERENCE_CALLS:
            values.append(Made(worker, results, results if worker == home else None))
        else:
            for hop in range(len(path) - 1, 0, -1):
                recorded = hop > 1 or not silent
                results = self._send(path[hop], path[hop - 1], results, recorded, "result", index)
                if hop > 1 and op.relay == "join" and sent:
                    results[0] |= relays[hop - 2]
            values.append(Made(home, results, results))
        if any(results):
            for at, (made, input, has) in enumerate(inputs):
                if states[at] and kind.passes_gradients_to(at):
                    (made.here_carried if has else made.carried).add(input.output)

    def _here(self, made: Made) -> list[State]:
        """The trainer's own copy of a value, fetched now if it has none yet."""
        if made.here is None:
            number = self.values.index(made) - self.leaves
            made.here = self._send(made.place, self.home, made.states, True, FETCHED, number)
        return made.here

    def _send(
        self, src: int, dst: int, states: list[State], recorded: bool, what: str, index: int
    ) -> list[State]:
        """What tensors in these states are when they have arrived."""
        union = NO_GRAD
        for state in states:
            union |= state
        if not (recorded and union):
            return [NO_GRAD] * len(states)
        union |= self._mark(Sent(src, dst, what, index))
        if len(states) == 1:  # as most
            return [union]
        return [union if state else NO_GRAD for state in states]

    def _mark(self, mark: Sent | Planted) -> State:
        self.marks.append(mark)
        return GRAD << len(self.marks)

    def missing(self, states: Iterable[State]) -> State:
        """The marks that none of these states has."""
        return (GRAD << len(self.marks) + 1) - 1 & ~(_union(states) | GRAD)

    # -- backward -------------------------------------------------------------------------

    def backward(self, backward: Backward) -> Pass:
        """What one pass from these roots comes to."""
        worker, fed = self.fed(backward)
        faults: list[int] = []
        senders = {worker: None}
        unfed: list[Sent] = []
        for bit, mark in enumerate(self.marks, 1):
            reached = fed >> bit & 1
            if isinstance(mark, Planted):
                if reached:
                    faults.append(mark.op)
            elif reached:
                senders[mark.src] = None
            else:
                unfed.append(mark)
        return Pass(worker, faults, [sent for sent in unfed if sent.src in senders])

    def fed(self, backward: Backward) -> tuple[int, State]:
        """On which worker a pass from these roots starts, and the marks that its gradients reach."""
        roots = [self.values[len(self.values) - back] for back in backward.roots]
        if backward.where == "rref":
            worker = roots[0].place
            fed = roots[0].states[0]
        else:
            worker = self.home
            states = [self._here(root)[0] for root in roots]
            if backward.where == "udf":
                worker = backward.worker
                states = self._send(self.home, worker, states, True, "roots", -1)
            fed = _union(states)
        return worker, fed


def _results(kind: Kind, states: list[State]) -> list[State]:
    """The states of an operation's outputs."""
    if not kind.cuts:
        return [_union(states)] * kind.outputs
    return [
        _union(state for at, state in enumerate(states) if (output, at) not in kind.cuts)
        for output in range(kind.outputs)
    ]


def _union(states: Iterable[State]) -> State:
    union = NO_GRAD
    for state in states:
        union |= state
    return union


class Forecast(NamedTuple):
    """What a step comes to. Errors are given by the texts of which one surfaces."""

    #: errors that its operations raise, before any backward
    forward: list[str]
    passes: list[Pass]
    #: for each pass: the errors that it raises, and whether they end the step
    backward: list[list[str]]
    heard: list[bool]

    @property
    def errors(self) -> list[str]:
        """The texts one of which the step fails with; none if it succeeds."""
        if self.forward:
            return self.forward
        each = zip(self.backward, self.heard, strict=True)
        return next((texts for texts, heard in each if texts and heard), [])

    @property
    def unfed(self) -> list[Sent]:
        """Send functions that the first pass that does not end waits for; none if all end."""
        return next((each.unfed for each in self.passes if each.unfed), [])


def forecast(program: Program, trainer: int, number: int) -> Forecast:
    """What step ``number`` of a trainer comes to on its first attempt."""
    step = program.trainers[trainer].steps[number]
    flow = flow_of(program, trainer, step)
    forward = [
        planted("udf", trainer, number, index)
        for index, op in enumerate(step.ops)
        if op.fault == "udf" and surfaces(program, step, index)
    ]
    passes = []
    heard: list[bool] = []
    for backward in step.backwards:
        heard += [not backward.may_fail] * backward.times
        if backward.where == "udf":
            # The roots are sent once for all of its passes.
            passes += [flow.backward(backward)] * backward.times
        else:
            passes += [flow.backward(backward) for _ in range(backward.times)]
    texts = [
        [planted(str(step.ops[op].fault), trainer, number, op) for op in each.faults]
        for each in passes
    ]
    return Forecast(forward, passes, texts, heard)


def surfaces(program: Program, step: Step, faulty: int) -> bool:
    """Whether the trainer hears that operation ``faulty`` raised.

    What ``remote`` calls raises where the value is asked for, if it is.
    """
    failed = {faulty}
    for index in range(faulty, len(step.ops)):
        op = step.ops[index]
        if index != faulty:
            used = [x for x in op.inputs if index - x.back in failed]
            if not used:
                continue
            if any(x.how == "value" for x in used):
                return True
        if op.call not in LAZY_CALLS:
            return True
        failed.add(index)
    return any(len(step.ops) - back in failed for b in step.backwards for back in b.roots)


def flow_of(program: Program, trainer: int, step: Step) -> Flow:
    """The flow of a step, all operations run."""
    flow = Flow(
        program.trainers[trainer].worker,
        [(leaf.owner, leaf.requires_grad) for leaf in program.leaves],
    )
    for op in step.ops:
        flow.add(op)
    return flow
