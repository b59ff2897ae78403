"""What is said of references whose owner's process has ended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from squall.model.events.run import Run, Violation
from squall.real import tracing

_ID = r"GloballyUniqueId\(created_on=(\d+), local_id=(\d+)\)"
_SAID = re.compile(
    rf"worker (\d+), which owned the value of UserRRef\(rref_id={_ID}, fork_id={_ID}\), has ended"
)


def wrong_owners(run: Run) -> Iterator[Violation]:
    """References given up because the process of another worker than their owner has ended."""
    records = run.records
    said: dict[str, int] = {}
    for n in run.of(tracing.HANDLER_ENDED, tracing.UDF_ENDED, tracing.TASK_ENDED):
        error = records[n][4][-1]
        if error is not None and "which owned the value of" in error:
            said.setdefault(error, n)
    if run.outcomes.got is not None:
        for step in run.outcomes.got.steps.values():
            for error in (step.error, step.first_error, *step.failed.values()):
                if error is not None and "which owned the value of" in error:
                    said.setdefault(error, len(records) - 1)
    if not said:
        return
    owners: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}
    for n in run.of(tracing.USER_CREATED):
        rref, fork, owner, _ = records[n][4]
        owners[rref, fork] = owner
    for error, n in said.items():
        for found in _SAID.finditer(error):
            named, *ids = map(int, found.groups())
            owner = owners.get(((ids[0], ids[1]), (ids[2], ids[3])), named)
            if owner != named:
                what = "a reference given up for the end of another worker"
                yield run.violation("futures", what, f"worker {owner}", f"worker {named}", n)
