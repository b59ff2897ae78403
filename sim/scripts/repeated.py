"""Which errors of processes are told: none with which a process says that one that it has started failed,
which says so itself, and no exit code that is for another process to judge.

A program has one verdict, whoever starts its ranks: what ``torch.multiprocessing.spawn`` raises in the process that
has called it is no failure beside that of a rank, or beside the end that a fault has made of one.
"""

from __future__ import annotations

from collections.abc import Collection

from squall.model.events.run import EXITED, ProcessError, Run

_RAISED, _EXITED = "ProcessRaisedException", "ProcessExitedException"


def leave_out_repeated(run: Run, children: Collection[str]) -> None:
    """Forget errors of that kind, and that their processes have failed. ``children``: who was started by another
    process."""
    run.errors = [each for each in run.errors if _counts(run, each, children)]
    others = [each for each in run.errors if each.type not in (_RAISED, _EXITED)]
    repeated = [each for each in run.errors if _is_repeated(run, each, others)]
    run.errors = [each for each in run.errors if each not in repeated]
    names = [each.worker for each in repeated]
    run.processes.failed = [each for each in run.processes.failed if each not in names]


def _counts(run: Run, error: ProcessError, children: Collection[str]) -> bool:
    """Whether the exit code of a process says that the script failed: that of a child is for its parent to
    judge; where the run fails, that of a rank is what began it."""
    if error.type != EXITED or error.worker not in children:
        return True
    fails = run.waits or any(
        each.type != EXITED or each.worker not in children for each in run.errors
    )
    return error.rank is not None and bool(fails)


def _is_repeated(run: Run, error: ProcessError, others: list[ProcessError]) -> bool:
    if error.type == _EXITED:
        if any(each.type == EXITED and error.message.endswith(each.message) for each in others):
            return True
        # by the signal with which a fault ends a process
        return error.message.endswith("SIGKILL") and bool({"crash", "restart"} & run.faults.keys())
    return error.type == _RAISED and any(each.message.strip() in error.message for each in others)
