"""Where threads were started that run no code of the user's. Imports no torch."""

from __future__ import annotations

import linecache
import sys
import weakref
from typing import Any, NamedTuple

from squall.model.events.names import code
from squall.sim.world.holders import held
from squall.sim.world.places import is_library, place_in, user_frame


class Started(NamedTuple):
    """Where a thread was started that runs no code of the user's, as ``Thread(target=barrier.wait)`` does, and what
    the object is called there whose method it runs."""

    place: str
    line: str
    named: str


#: of threads of a process of its own, where it is noted
STARTED: weakref.WeakKeyDictionary[Any, Started] = weakref.WeakKeyDictionary()


def started(thread: Any) -> Started | None:
    """Of a thread of ``threading``, as another one starts it. None where it runs code of the user's, which says more."""
    target = getattr(thread, "_target", None)
    thing, made = getattr(target, "__self__", None), getattr(target, "__code__", None)
    frame = user_frame(sys._getframe())
    if thing is None or frame is None or (made and not is_library(made.co_filename)):
        return None
    scopes = {**frame.f_globals, **frame.f_locals}
    roots = [(f"{name}{{}}", value) for name, value in scopes.items()]
    named = next((code(way) for way, _ in held(roots, lambda value: value is thing)), "")
    source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return Started(place_in(frame), f"{place_in(frame)}: {source} (which started it)", named)
