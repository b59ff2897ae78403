"""Errors with which a process says that one that it has started failed, which says so itself.

A program has one verdict, whoever starts its ranks: what ``torch.multiprocessing.spawn`` raises in the process that
has called it is no failure beside that of a rank, or beside the end that a fault has made of one.
"""

from __future__ import annotations

from squall.model.events.run import ProcessError, Run

_RAISED, _EXITED = "ProcessRaisedException", "ProcessExitedException"


def leave_out_repeated(run: Run) -> None:
    """Forget errors of that kind, and that their processes have failed."""
    others = [each for each in run.errors if each.type not in (_RAISED, _EXITED)]
    repeated = [each for each in run.errors if _is_repeated(run, each, others)]
    run.errors = [each for each in run.errors if each not in repeated]
    names = [each.worker for each in repeated]
    run.failed_processes = [each for each in run.failed_processes if each not in names]


def _is_repeated(run: Run, error: ProcessError, others: list[ProcessError]) -> bool:
    if error.type == _EXITED:  # by the signal with which a fault ends a process
        return error.message.endswith("SIGKILL") and bool({"crash", "restart"} & run.faults.keys())
    return error.type == _RAISED and any(each.message.strip() in error.message for each in others)
