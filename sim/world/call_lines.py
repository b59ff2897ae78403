"""Which line of a program makes each call of a run, and which function it asks for."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from squall.real.rpc import calls
from squall.real.rpc.called import name_of_call
from squall.real.tracing import CALL_STARTED
from squall.sim.world.places import user_line
from squall.sim.world.watch import Watcher

#: functions that make a call of a function, which they have in a variable ``func``
_MAKERS = frozenset(each.__code__ for each in (calls._invoke_rpc, calls.begin_remote))


class CallLines(Watcher):
    """``functions`` and ``places`` are by the events at which calls begin. Of calls that workers of the compiled
    engine make, nothing is seen here."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[int, str] = {}
        self.places: dict[int, str] = {}
        self._events = 0

    @property
    def found(self) -> dict[str, dict[int, str]]:
        return {"functions": self.functions, "places": self.places}

    def event(self, record: tuple[Any, ...]) -> None:
        if record[3] is CALL_STARTED:
            frame: FrameType | None = sys._getframe(1)
            self.places[self._events] = user_line(frame)
            while frame is not None and frame.f_code not in _MAKERS:
                frame = frame.f_back
            if frame is not None:
                function = frame.f_locals.get("func")
                name = getattr(function, "__qualname__", None)
                name = str(name or type(function).__name__)
                self.functions[self._events] = name_of_call(name, frame.f_locals.get("args"))
        self._events += 1
