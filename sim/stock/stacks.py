"""Inside a worker process: what its threads wait for."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, NamedTuple

from squall.sim.world.places import function_of
from squall.sim.world.stack_reading import Reading, Thread, reads, threads_of
from squall.sim.world.thread_origins import STARTED


class Standing(NamedTuple):
    """A thread that waits, as its stack says: ``name`` is Python's, "" for one of the agent; ``serves`` the function of
    a call that it runs; ``took`` where the holder of a lock has taken it. The rest is as in :class:`~squall.model.events.waiting.Waiting`."""

    id: int
    name: str
    is_main: bool
    serves: str
    reading: Reading
    took: str
    made: str
    place: str
    line: str
    variables: tuple[tuple[str, str], ...]


def stacks() -> list[Standing]:
    """Every other thread that is in code of the user's, was started by it or runs the function of a call, and the main
    one."""
    every = threading.enumerate()
    threads = threads_of(sys._current_frames(), {each.ident: STARTED.get(each) for each in every})
    threads.pop(threading.get_ident())
    names = {each.ident: each.name for each in every}
    main = threading.main_thread().ident
    found = [
        _standing(thread, names.get(key, ""), key == main)
        for key, thread in sorted(threads.items(), key=lambda each: names.get(each[0], "\0"))
        if not thread.is_idle
        and (key == main or thread.serves or thread.started or thread.user is not None)
    ]
    return found


def _standing(thread: Thread, name: str, is_main: bool) -> Standing:
    reading = thread.reading()
    called = function_of(thread.frames[0]) if thread.user is None else thread.called()
    if reading is None:
        reading = Reading("thing", called or "something")
    took = ""
    if reading.kind == "lock" and reading.ends:
        took = thread.others[reading.ends[0]].took(thread.awaits)
    key: Any = thread.id
    return Standing(
        key,
        name,
        is_main,
        thread.serves,
        reading,
        took,
        thread.made(),
        thread.place,
        thread.line,
        thread.variables,
    )


@reads("torch.distributed.rpc.api", "_rref_typeof_on_owner")
def _type(thread: Thread, frame: FrameType) -> Reading:
    return Reading("thing", "the value of a reference whose type is asked for")


@reads("squall.sim.scripts.multiprocess", "Popen.wait")
def _child(thread: Thread, frame: FrameType) -> Reading:
    return Reading("processes", "its processes")


@reads("squall.sim.scripts.multiprocess", "_wait")
def _children(thread: Thread, frame: FrameType) -> Reading | None:
    is_child = any(isinstance(each, int) and each < 0 for each in frame.f_locals["objects"])
    return Reading("processes", "its processes") if is_child else None
