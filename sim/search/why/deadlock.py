"""Where nothing could happen any more: at the end of a run that hangs, or until a time limit was over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from squall.model.events.hang import Hang, hang_of
from squall.model.events.run import Run
from squall.model.events.waiting import Waiting, wait_graph
from squall.sim.search.why.told import Values
from squall.sim.world.deadlock import waiting
from squall.sim.world.delivery import Delivery
from squall.sim.world.places import CodePlace, file_name
from squall.sim.world.primitives import SimTask
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.steering import SteeredTime
from squall.sim.world.trace import TraceWriter

#: waits whose variables are told
_VALUES = 3
#: virtual seconds in which nothing happens, at least, up to a time limit
_LEAST_S = 1.0
#: of an error that comes of that: how much later it is raised, at most
_SOON_S = 0.5
#: the user's lines in what a hang says
_LINE = re.compile(r"\b([\w.-]+\.py|In\[\d+\]):(\d+)")


class Stuck(NamedTuple):
    """``hang``: who waited for what, of ``waits``. ``seconds``: how long nothing happened, ``until_s``: until when; both 0 at the end of a
    run that hangs."""

    hang: Hang
    waits: Sequence[Waiting] = ()
    seconds: float = 0.0
    until_s: float = 0.0

    @property
    def said(self) -> str:
        return f"Nothing could happen for {self.seconds:g} s: {self.hang.cause}."

    def places(self, files: Iterable[str]) -> list[CodePlace]:
        """The lines that it names, of these files."""
        paths = {file_name(file): file for file in files}
        named = _LINE.findall(self.hang.cause)
        found = [CodePlace(paths[file], int(line)) for file, line in named if file in paths]
        return list(dict.fromkeys(found))

    @property
    def values(self) -> list[Values]:
        """The variables where those wait that it names, in its order."""
        found = [Values(each.place, each.name, dict(each.variables)) for each in self.waits]
        found = [each for each in found if each.variables and self._at(each) >= 0]
        return sorted(found, key=self._at)[:_VALUES]

    def _at(self, values: Values) -> int:
        where = re.search(rf"\b{re.escape(values.place)}\b", self.hang.cause)
        return -1 if where is None or values.who not in self.hang.cause else where.start()


def until_now(time: SteeredTime, runtime: SimRuntime) -> Stuck | None:
    """The present state, if nothing happens now until a time limit is over."""
    due = time.next_due(_LEAST_S)
    if due is None or isinstance(due[1], Delivery):
        return None
    if isinstance(due[1], SimTask) and due[1].waiting_on == "sleep":
        return None
    tracer = runtime.tracer
    records = tracer.trace.records if isinstance(tracer, TraceWriter) else []
    waits = waiting(runtime)
    hang = hang_of(wait_graph(records, waits))
    return None if hang is None else Stuck(hang, waits, due[0] - time.now, due[0])


def stuck(run: Run, seen: Stuck | None, error_s: float | None) -> Stuck | None:
    """What a run's failure comes of, if it is that it was stuck. ``seen``: before its first error, which was raised at
    ``error_s``."""
    if run.waits:
        hang = run.hang()
        return None if hang is None else Stuck(hang, run.when_stuck.waiting)
    if seen is None or error_s is None or error_s - seen.until_s > _SOON_S:
        return None
    return seen
