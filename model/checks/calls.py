"""What the calls beside the computation of a program came to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from squall.model.checks.excuses import FAULT, excused
from squall.model.events.fault_effects import explained, faults_of, own_time
from squall.model.events.run import Property, Run, Violation, named
from squall.model.program.acts.expected import may_be_told, told_alone
from squall.model.program.program import beside, exchanged
from squall.model.program.stories import AS_IT_SHOULD_BE, RAISED, Story, as_line, expected, on_torch


@named("calls")
def CALLS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Every call comes to what the API promises, also where it does not come to a value: a limit
    of time ends a call in time, with a text that says so, and what comes late is let go; an error
    has its type and names its worker, whether the function, an operator, a callback or pickling
    raised it; a creation that failed or came too late can be neither fetched nor passed on; a
    pass does not begin where one runs, does not go on where its context is released, and frees
    what it must; hooks are called in their order, under the context of their gradient. What
    workers exchange is, in each round, what each of them gave in that round. Cargo arrives as what
    was sent, in value, type and layout, memory that tensors share included, and nobody sees what
    others write to their copies. A reference gives the same number to all who ask, however few
    refer to it meanwhile. Of updates at the same time none is lost, and none happens twice.
    """
    if run.program is None or run.outcomes.got is None:
        return
    yield from _gathers(run)
    for trainer, number, step in run.program.steps:
        home = run.program.trainers[trainer].worker
        for field, index, thing in beside(step):
            line = run.outcomes.got.beside.get((trainer, number, field, index))
            what, wanted, may_be = f"what goes on beside a step: {field}", AS_IT_SHOULD_BE, _failed
            if isinstance(thing, Story):
                known = on_torch(thing, home) if run.engine != "port" else None
                wanted = expected(thing, home) if known is None else known[1]
                what, may_be = f"a story: {thing.kind}", partial(_acts_failed, thing)
            if not _said(run, line, wanted) and not may_be(run, trainer, number, line):
                where = f"trainers[{trainer}].steps[{number}].{field}[{index}]"
                where += f", from worker {home} to {thing.worker}"
                told = "no end" if line is None else line
                yield Violation("calls", what, f"{where}: {wanted}", told)


def _failed(run: Run, trainer: int, number: int, line: str | None) -> bool:
    """Where something failed a call may raise, but nothing may be wrong."""
    assert run.program is not None and run.outcomes.got is not None
    if line is None:  # whether the step has to end is for property "progress" to say
        gone = run.program.trainers[trainer].worker in faults_of(run).gone
        return gone or not run.outcomes.got.steps[trainer, number].finished
    return (
        line.startswith(RAISED) and faults_of(run).hit() and explained(line) and excused(run, FAULT)
    )


def _acts_failed(story: Story, run: Run, trainer: int, number: int, line: str | None) -> bool:
    """Whether what acts came to is what they may come to where something failed: nothing, if their
    worker ended, or lines that they may tell and errors that say what went wrong. So it is where
    calls without a limit may take too long. No story ends in a run that does not."""
    assert run.program is not None and run.outcomes.got is not None
    if line is None and (run.stuck or run.hangs or run.crash):
        return True
    faults = faults_of(run)
    home = run.program.trainers[trainer].worker
    if not story.acts:
        return False
    limit_s = run.conditions.rpc_timeout_s
    too_long = limit_s and told_alone(story.acts, home).seconds >= limit_s
    if not (faults.hit() or own_time(run) or too_long):
        return False
    if line is None:
        return (home in faults.gone or trainer in run.outcomes.got.broken) and excused(run, FAULT)
    told = [] if line == as_line([]) else line.split("; ")
    other = "; ".join(part for part in told if not may_be_told(part))
    return (not other or explained(other)) and excused(run, FAULT)


def _said(run: Run, line: str | None, wanted: str) -> bool:
    """Whether a line is what was to come."""
    if run.engine == "port" or line is None:
        return line == wanted
    # PyTorch's texts go on where the port's end: with the stacks of C++ and of Python.
    return all(part.strip() in line for part in wanted.split(";"))


def _gathers(run: Run) -> Iterator[Violation]:
    assert run.program is not None and run.outcomes.got is not None
    workers = range(run.program.workers)
    for round in range(run.program.gathers):
        wanted = {f"worker{worker}": exchanged(worker, round) for worker in workers}
        for worker in workers:
            got = run.outcomes.got.gathers.get((worker, round))
            if got != wanted and not (got is None and (run.stuck or run.hangs or run.crash)):
                what, where = "what workers exchanged", f"round {round} on worker {worker}"
                yield Violation("calls", what, f"{where}: {wanted}", str(got))


RANK = 60
PROPERTIES: tuple[Property, ...] = (CALLS,)
