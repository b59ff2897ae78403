"""What the calls beside the computation of a program came to."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.events.run import Property, Run, Violation, named
from squall.model.program.program import exchanged
from squall.model.program.stories import expected, on_torch


@named("calls")
def CALLS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Every call comes to what the API promises, also where it does not come to a value: a limit
    of time ends a call in time, with a text that says so, and what comes late is let go; an error
    has its type and names its worker, whether the function, an operator, a callback or pickling
    raised it; a creation that failed or came too late can be neither fetched nor passed on; a
    pass does not begin where one runs, does not go on where its context is released, and frees
    what it must; hooks are called in their order, under the context of their gradient. What
    workers exchange is, in each round, what each of them gave in that round.
    """
    if run.program is None or run.got is None:
        return
    yield from _gathers(run)
    for trainer, number, step in run.program.steps:
        home = run.program.trainers[trainer].worker
        for index, story in enumerate(step.stories):
            line = run.got.stories.get((trainer, number, index))
            wanted = expected(story, home)
            known = on_torch(story, home) if run.engine != "port" else None
            if known is not None:
                wanted = known[1]
            if not _said(run, line, wanted) and not (
                line is None and (run.stuck or run.hangs or run.crash)
            ):
                where = f"trainers[{trainer}].steps[{number}].stories[{index}]"
                yield Violation(
                    "calls",
                    f"a story: {story.kind}",
                    f"{where}, from worker {home} to {story.worker}: {wanted}",
                    "no end" if line is None else line,
                )


def _said(run: Run, line: str | None, wanted: str) -> bool:
    """Whether a line is what was to come."""
    if run.engine == "port" or line is None:
        return line == wanted
    # PyTorch's texts go on where the port's end: with the stacks of C++ and of Python.
    return all(part.strip() in line for part in wanted.split(";"))


def _gathers(run: Run) -> Iterator[Violation]:
    assert run.program is not None and run.got is not None
    workers = range(run.program.workers)
    for round in range(run.program.gathers):
        wanted = {f"worker{worker}": exchanged(worker, round) for worker in workers}
        for worker in workers:
            got = run.got.gathers.get((worker, round))
            if got != wanted and not (got is None and (run.stuck or run.hangs or run.crash)):
                what, where = "what workers exchanged", f"round {round} on worker {worker}"
                yield Violation("calls", what, f"{where}: {wanted}", str(got))


RANK = 60
PROPERTIES: tuple[Property, ...] = (CALLS,)
