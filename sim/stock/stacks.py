"""Inside a worker process: what its threads are at."""

from __future__ import annotations

import sys
import threading
import traceback


def stacks() -> list[str]:
    """A line for each other thread of Python's, the innermost frames first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    lines = []
    for ident in sorted(frames, key=lambda ident: names.get(ident, "")):
        if ident == threading.get_ident():
            continue
        calls = [
            f"{entry.name} ({entry.filename.rpartition('/')[2]}:{entry.lineno})"
            for entry in reversed(traceback.extract_stack(frames[ident])[-4:])
        ]
        lines.append(f"{names.get(ident, 'a thread of the agent')} is in {' < '.join(calls)}")
    return lines
