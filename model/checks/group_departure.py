"""Work that a worker had under way when it left its group."""

from __future__ import annotations

from squall.model.events.run import Run
from squall.real import tracing


def fetch_overtaken(run: Run, n: int, src: int, type: str, id: int) -> bool:
    """Whether event ``n`` is about a fetch by a worker that left its group meanwhile, with work under
    way: it deleted its reference, and that overtook the fetch. ``src``, ``type`` and ``id``: of the
    fetch, as its worker sent it."""
    ends = run.program is not None and run.program.endings
    if run.of(tracing.TABLES_COUNTED) and not ends:
        return False  # nobody left before all was quiet
    records = run.records
    for at in run.of(tracing.CALL_STARTED):
        if records[at][1] == src and records[at][4][0] == id:
            about = records[at][4][4]
            # With the ids of a context, or of a profiled call, the type is among what it is about.
            names = (type, *(each for each in about if isinstance(each, str)))
            if not any(name.endswith("RREF_FETCH_CALL") for name in names):
                return False
            rref = about[-1]
            # The task may have been at it, and not have sent it, when the reference was deleted.
            began = (m for m in run.of(tracing.TASK_STARTED) if records[m][2] == records[at][2])
            since = next(began, at)
            deleted = (m for m in run.of(tracing.USER_DELETED) if since < m < n)
            return any(records[m][1] == src and records[m][4][0] == rref for m in deleted)
    return False
