"""Where the events of a run end that say something of it: the tables are counted when nothing is under
way any more; a run that comes to no end is torn down."""

from __future__ import annotations

from squall.model.events.run import Run
from squall.real import tracing

#: the error of a task that was ended from outside
_KILLED = "killed"


def last_of(run: Run) -> int:
    """The number of the first event that says nothing any more; as many as there are, if all do."""
    counted = run.of(tracing.TABLES_COUNTED)
    if counted:
        return counted[0]
    return torn_down_at(run)


def torn_down_at(run: Run) -> int:
    """The number of the first event of a run's tearing down; as many as there are, if it came to its end."""
    records = run.records
    if not records:
        return 0
    # Tasks are ended one after the other, at the last instant. What the first of them does on its way
    # out comes right before its end.
    now = records[-1][0]
    for n in run.of(tracing.TASK_ENDED):
        if records[n][0] == now and records[n][4][0] == _KILLED:
            task = records[n][2]
            while n and records[n - 1][2] == task:
                n -= 1
            return n
    return len(records)
