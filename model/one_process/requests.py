"""Which requests the trainers of a program make, by pair of workers: each API call is one.

As the flow of a step (model/one_process/flow.py), without tensors. A program is known if every step of it
goes through, nothing beside its steps makes calls, and all run in one group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squall.model.program.operations import failing_calls
from squall.model.program.program import (
    HELPER_CALLS,
    REFERENCE_CALLS,
    Op,
    Program,
    Step,
    Trainer,
    beside,
    source,
)

#: (from, to, what): what is a "call", a "creation", a "fetch" or a "backward"
Request = tuple[int, int, str]


def is_known(program: Program) -> bool:
    """Whether :func:`requests_of` can tell, if no step of the program fails."""
    return not (
        failing_calls(program)
        or program.endings
        or any(beside(step) or step.retry for _, _, step in program.steps)
        or any(_may_ask_twice(trainer) for trainer in program.trainers)
    )


def _may_ask_twice(trainer: Trainer) -> bool:
    """Whether a trainer may ask for a type before an earlier question for it is answered: in steps
    at the same time, and after a first use that does not wait for the answer."""
    uses: dict[int, list[str]] = {}
    for step in trainer.steps:
        for op in step.ops:
            if op.call in HELPER_CALLS:
                uses.setdefault(op.worker, []).append(op.call)
    return any(
        len(calls) > 1 and (trainer.overlap or calls[0] == "helper_async")
        for calls in uses.values()
    )


def requests_of(program: Program, *, leader: int, handshakes: bool) -> Counter[Request]:
    """All requests but control messages and gradients, if nothing fails. ``handshakes``: whether the
    group begins with the round of calls that opens its connections; ``leader``: the worker whose
    name is the first one."""
    found: Counter[Request] = Counter()
    # In each round all tell the leader, who then tells all.
    for _ in range(program.gathers + handshakes):
        for worker in range(program.workers):
            if worker != leader:
                found[worker, leader, "call"] += 1
                found[leader, worker, "call"] += 1
    for trainer in program.trainers:
        found.update(_Trainer(program, trainer).requests())
    return found


class _Trainer:
    def __init__(self, program: Program, trainer: Trainer) -> None:
        self.program = program
        self.trainer = trainer
        self.home = trainer.worker

    def requests(self) -> Iterator[Request]:
        program, home = self.program, self.home
        yield from self._references()
        optimized = []
        if self.trainer.optimizer is not None:
            leaves = self.trainer.optimizer.leaves
            optimized = list(dict.fromkeys(program.leaves[leaf].owner for leaf in leaves))
        for owner in optimized:
            yield home, owner, "call"
        for step in self.trainer.steps:
            yield from self._step(step)
            if step.optimize:
                for owner in optimized:
                    yield home, owner, "call"
        for step in self.trainer.steps:
            for op in step.ops:
                if op.call in REFERENCE_CALLS and op.keep == "program":
                    yield from self._fetch(home, op.worker)

    def _fetch(self, by: int, owner: int) -> Iterator[Request]:
        if by != owner:
            yield by, owner, "fetch"

    def _references(self) -> Iterator[Request]:
        """What refers to leaves, and to the hosts of helpers, whose types are asked for once."""
        program, home = self.program, self.home
        leaves = dict.fromkeys(
            self.trainer.optimizer.leaves if self.trainer.optimizer is not None else ()
        )
        hosts: dict[int, None] = {}
        for step in self.trainer.steps:
            for index, op in enumerate(step.ops):
                if op.call.startswith("helper"):
                    hosts[op.worker] = None
                for input in op.inputs:
                    is_leaf, number = source(program, index, input)
                    if not is_leaf:
                        continue
                    owner = program.leaves[number].owner
                    elsewhere = owner not in (op.worker, home)
                    if input.how != "value" or elsewhere or (op.builtin and owner != home):
                        leaves[number] = None
        for leaf in leaves:
            if program.leaves[leaf].owner != home:
                yield home, program.leaves[leaf].owner, "creation"
        for host in hosts:
            yield home, host, "creation"
            if host != home:
                yield home, host, "call"

    def _step(self, step: Step) -> Iterator[Request]:
        #: what the trainer has fetched: operations, and leaves by -1 - number
        fetched: set[int] = set()
        for index, op in enumerate(step.ops):
            for input in op.inputs:
                if input.how == "value":
                    yield from self._input(step, op, source(self.program, index, input), fetched)
            yield from self._op(op)
            for input in op.inputs:
                if input.how != "value":
                    is_leaf, number = source(self.program, index, input)
                    place = (
                        self.program.leaves[number].owner if is_leaf else step.ops[number].worker
                    )
                    yield from self._fetch(op.worker, place)
        for backward in step.backwards:
            at = [len(step.ops) - back for back in backward.roots]
            if backward.where == "rref":
                if step.ops[at[0]].worker != self.home:
                    for _ in range(backward.times):
                        yield self.home, step.ops[at[0]].worker, "backward"
                continue
            for number in at:
                yield from self._value(step, number, fetched)
            if backward.where == "udf":
                yield self.home, backward.worker, "call"

    def _input(
        self, step: Step, op: Op, source: tuple[bool, int], fetched: set[int]
    ) -> Iterator[Request]:
        is_leaf, number = source
        if not is_leaf:
            yield from self._value(step, number, fetched)
            return
        owner = self.program.leaves[number].owner
        if owner == self.home or (owner == op.worker and not op.builtin):
            return
        if -1 - number not in fetched:
            fetched.add(-1 - number)
            yield from self._fetch(self.home, owner)

    def _value(self, step: Step, number: int, fetched: set[int]) -> Iterator[Request]:
        op = step.ops[number]
        if op.call in REFERENCE_CALLS and number not in fetched:
            fetched.add(number)
            yield from self._fetch(self.home, op.worker)

    def _op(self, op: Op) -> Iterator[Request]:
        call = op.call
        if call == "local" or (call == "rref" and op.worker == self.home and not op.via):
            return
        path = (self.home, *op.via, op.worker)
        last = len(path) - 2
        for hop in range(last + 1):
            creates = hop == last and call in ("remote", "helper_remote")
            yield path[hop], path[hop + 1], "creation" if creates else "call"
