"""Inside a worker process: what its threads are at, in the user's code where they came from it."""

from __future__ import annotations

import sys
import threading
import traceback

from squall.sim.world.places import function_of, place_of


def stacks() -> list[str]:
    """A line for each other thread of Python's: where it is in the code of a program or a script,
    or else the innermost frames first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    lines = []
    for ident in sorted(frames, key=lambda ident: names.get(ident, "")):
        if ident == threading.get_ident():
            continue
        name, place = names.get(ident, "a thread of the agent"), place_of(frames[ident])
        if place:
            lines.append(f"{name} waits, at {place}")
            continue
        function = function_of(frames[ident])
        if function.startswith("torch."):
            lines.append(f"{name} waits in {function}")
            continue
        calls = [
            f"{entry.name} ({entry.filename.rpartition('/')[2]}:{entry.lineno})"
            for entry in reversed(traceback.extract_stack(frames[ident])[-4:])
        ]
        lines.append(f"{name} is in {' < '.join(calls)}")
    return lines
