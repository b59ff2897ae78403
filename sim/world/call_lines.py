"""Which line of a program makes each call of a run, and which function it asks for."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from squall.real.rpc import calls
from squall.real.rpc.called import name_of_call
from squall.real.tracing import CALL_STARTED, CONTEXT_CREATED, OPERATION_STARTED, PASS_STARTED
from squall.sim.world.places import WRAPPERS, is_library, user_frame, user_line
from squall.sim.world.watch import Watcher

#: functions that make a call of a function, which they have in a variable ``func``
_MAKERS = frozenset(each.__code__ for each in (calls._invoke_rpc, calls.begin_remote))
_NOTED = (CALL_STARTED, CONTEXT_CREATED, PASS_STARTED, OPERATION_STARTED)
#: functions that call what they are given
_ASKED = ("rpc_sync", "rpc_async", "remote")


class CallLines(Watcher):
    """``functions`` and ``places`` are by the events at which calls begin, ``places`` also by those at which contexts,
    passes and operations of groups do. Of calls that workers of the compiled engine make, nothing is seen here."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[int, str] = {}
        self.places: dict[int, str] = {}
        self._events = 0

    def clock(self) -> None:
        """A run begins: nothing is known of one before."""
        self.functions, self.places, self._events = {}, {}, 0

    @property
    def found(self) -> dict[str, dict[int, str]]:
        return {"functions": self.functions, "places": self.places}

    def event(self, record: tuple[Any, ...]) -> None:
        if record[3] in _NOTED:
            frame = sys._getframe(1)
            self.places[self._events] = user_line(frame)
            if record[3] is CALL_STARTED:
                self._called(frame)
        self._events += 1

    def _called(self, frame: FrameType) -> None:
        maker: FrameType | None = frame
        while maker is not None and maker.f_code not in _MAKERS:
            maker = maker.f_back
        if maker is None:
            return
        function = maker.f_locals.get("func")
        code = getattr(function, "__code__", None)
        name = getattr(function, "__qualname__", None) or type(function).__name__
        own = name_of_call(str(name), maker.f_locals.get("args"))
        if own == name and code is not None and is_library(code.co_filename):
            own = called_in_line(maker) or own
        self.functions[self._events] = own


def called_in_line(maker: FrameType) -> str:
    """What the user's line calls, where that is a function of a library, which calls another one of its own on
    behalf of it: ``shutdown``, ``DistributedOptimizer.step``. "" where the line itself asks for a function."""
    user, frame, name = user_frame(maker), maker.f_back, ""
    while user is not None and frame is not None and frame is not user:
        if frame.f_code.co_name not in WRAPPERS:
            name = frame.f_code.co_qualname.rpartition(".<locals>.")[2].removesuffix(".__init__")
        frame = frame.f_back
    return "" if user is None or name in _ASKED else name
