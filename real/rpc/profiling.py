"""Running a request under torch's legacy profiler, as far as this process allows it.

The profiler belongs to the thread: where many workers share one, only one request is profiled
at a time, and only while it runs without waiting. (torch/csrc/distributed/rpc/profiler)
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from torch._C._autograd import (
    ProfilerEvent,
    _disable_profiler_legacy,
    _enable_profiler_legacy,
    _profiler_enabled,
)
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

ProfiledEvent = tuple[str, float, float, int]


class LegacyProfiler:
    """``with LegacyProfiler() as p: ...``; then ``p.events`` are (name, start, end, thread) in us.

    No events where a profiler already runs.
    """

    def __init__(self) -> None:
        self.events: list[ProfiledEvent] = []
        self._running = False

    def __enter__(self) -> LegacyProfiler:
        if not _profiler_enabled():
            config = ProfilerConfig(
                ProfilerState.CPU, False, False, False, False, False, _ExperimentalConfig()
            )
            _enable_profiler_legacy(config)
            self._running = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._running:
            self._running = False
            self.events = _pair(_disable_profiler_legacy())


def _pair(per_thread: list[list[ProfilerEvent]]) -> list[ProfiledEvent]:
    """Ranges out of the marks of their beginnings and ends, which are nested in each thread."""
    found: list[ProfiledEvent] = []
    start = next((mark for marks in per_thread for mark in marks), None)
    for marks in per_thread:
        open_marks: list[Any] = []
        for mark in marks:
            kind: Any = mark.kind()  # a string, whatever its stub says
            if kind == "push":
                open_marks.append(mark)
            elif kind == "pop" and open_marks and start is not None:
                begin = open_marks.pop()
                found.append(
                    (
                        begin.name(),
                        start.cpu_elapsed_us(begin),
                        start.cpu_elapsed_us(mark),
                        begin.thread_id(),
                    )
                )
    return found
