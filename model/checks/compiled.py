"""What a run on PyTorch's compiled engine must come to.

Nothing tells of events inside a worker there. What is checked is what the steps came to, how the
run ended, what the workers' own counters say, and that every process lived.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from squall.model.checks.excuses import FAULT, NO_END, excused
from squall.model.events.run import TORCH_ONLY, Property, Run, Violation, named
from squall.model.one_process.outcome import StepOutcome

#: counters of torch's debug info that must be zero when nothing is under way
LEFT = (
    "num_owner_rrefs",
    "num_forks",
    "num_pending_users",
    "num_autograd_contexts",
    "num_current_backward_passes",
)
#: what ``std::mutex::lock`` says of memory that is no mutex any more
TORN = "Exception in thread pool task: Invalid argument"


def first_line(text: str | None) -> str:
    """What two engines should say alike: the first line of an error, without what surrounds it."""
    if text is None:
        return "none"
    return text.strip().partition("\n")[0].strip()


@named("processes", engines=TORCH_ONLY, work="both", whole=True)
def PROCESSES(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Every worker process lives until the run is over, and none of its threads touches memory
    that was freed: a callback that locks a mutex which is gone says so on standard error."""
    for death in run.processes.deaths:
        what = f"a worker process died: {_plain(str(death).partition(': ')[2])}"
        yield Violation(
            "processes",
            what,
            "it lives",
            str(death),
            None if death.worker < 0 else death.worker,
            death.time_s,
        )
    for worker in run.processes.torn:
        yield Violation("processes", "a callback locks freed memory", "it does not", TORN, worker)


@named("progress", engines=TORCH_ONLY)
def ENDS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Every step, and the run itself, ends, but for the passes that cannot, as the program says
    that they cannot; under faults only the run must. A run in which a process died is not asked.
    """
    outcome, deaths, faulty = run.outcomes.got, run.processes.deaths, run.conditions.faulty
    if run.program is None or outcome is None:
        return
    if run.crash is not None and not deaths and not faulty:
        yield Violation("progress", "the run broke off", "an end", run.crash)
    may_hang = False
    for trainer, number, _ in run.program.steps:
        if run.forecast(trainer, number).unfed:
            may_hang = True
            continue
        got = outcome.steps.get((trainer, number), StepOutcome())
        if not got.finished and not may_hang and not faulty:
            where = f"trainers[{trainer}].steps[{number}]"
            yield Violation("progress", "a step does not end", f"{where} ends", "it waits")
    if run.waits and not may_hang and not deaths:
        yield Violation("progress", "a deadlock", "the run ends", "; ".join(run.waits))


@named("outcome", engines=TORCH_ONLY)
def ERRORS_OF_STEPS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A step fails where one process fails, with an error that has the same text in it, and
    nowhere else; under faults it may fail with any error.
    """
    one_process, workers, faulty = run.outcomes.expected, run.outcomes.got, run.conditions.faulty
    if (run.program is None or workers is None or one_process is None or faulty) and excused(
        run, FAULT
    ):
        return
    for trainer, number, _ in run.program.steps:
        got = workers.steps.get((trainer, number), StepOutcome())
        if (not got.finished or run.forecast(trainer, number).unfed) and excused(run, NO_END):
            continue
        where = f"trainers[{trainer}].steps[{number}]"
        expected = one_process.steps[trainer, number]
        for one, other in (
            (expected.error, got.error),
            (expected.first_error, got.first_error),
        ):
            if other is not None and (one is None or one not in other):
                what = f"a step fails: {_plain(first_line(other))}"
                yield Violation("outcome", what, f"{where}: {one or 'a value'}", other)
            elif one is not None and other is None:
                yield Violation("outcome", "a step does not fail", f"{where}: {one}", "a value")


@named("left behind", engines=TORCH_ONLY, work="both", whole=True)
def LEFT_BEHIND(run: Run) -> Iterator[Violation]:  # noqa: N802
    """When all is over but the shutdown, PyTorch's own counters of RRefs, forks, pending users,
    contexts and backward passes are zero on every worker, unless some pass cannot end. Of a script,
    when a group shuts down gracefully, unless a process has failed.
    """
    if (run.hangs or (run.script is not None and not run.settled)) and excused(run, NO_END):
        return
    for worker, table in enumerate(run.rpc_groups.tables):
        for name in LEFT:
            if table.get(name):
                seen = str(table[name])
                yield Violation("left behind", name, "0 at the end", seen, worker)


def _plain(text: str) -> str:
    """The text without what differs from run to run."""
    text = re.sub(r"(trainers|steps|ops)\[\d+\]", r"\1[…]", text)
    return re.sub(r"\d+", "N", text)[:120]


RANK = 100
PROPERTIES: tuple[Property, ...] = (PROCESSES, ENDS, ERRORS_OF_STEPS, LEFT_BEHIND)
