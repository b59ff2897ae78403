"""Profiles of what a task does: of one call, or of a whole step.

They change nothing but the messages: a call travels inside a wrapper, to its callee and back, and so
do the calls that it makes there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from squall.real.autograd.profiled_pass import PASS
from squall.real.rpc.profiling import LegacyProfiler, ProfilerOptions, profiler_of
from squall.real.runtime import current_task
from squall.real.worker import current_worker

#: what stands between a call and what was done for it elsewhere, and the first mark of a profile
_ELSEWHERE, _BEGIN = "#remote_op: ", "__start_profile"


class AtLeast(NamedTuple):
    """How many ranges a profile has at least, and of how many what was done elsewhere."""

    calls: int = 0
    answers: int = 0


class Profiled:
    """A profile of this task if it is ``wanted``, unless there is one.

    ``least``: what it has when nothing has failed. Raises AssertionError for a profile that
    contradicts itself, or has less.
    """

    def __init__(self, wanted: bool, least: AtLeast | None = None) -> None:
        self._least = least or AtLeast()
        self._profiler: LegacyProfiler | None = None
        if wanted and profiler_of(current_task()) is None:
            self._profiler = LegacyProfiler(current_worker(), ProfilerOptions())

    def __enter__(self) -> None:
        if self._profiler is not None:
            self._profiler.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._profiler is None:
            return
        self._profiler.stop()
        own, *elsewhere = self._profiler.finish()
        if error is None:
            wrong = _wrong(own, elsewhere, self._least)
            if wrong:
                raise AssertionError(f"a profile {wrong}")
        elif isinstance(error, Exception) and _open_pass(own):
            raise AssertionError("a profile does not end the range of a pass that failed")


def _open_pass(own: list[dict[str, Any]]) -> bool:
    """Whether a pass that began in a profile did not end there."""
    begun = {mark["handle"] for mark in own if mark["kind"] == "push" and mark["name"] == PASS}
    return not begun.issubset(mark["handle"] for mark in own if mark["kind"] == "pop")


def _wrong(own: list[dict[str, Any]], elsewhere: list[list[dict[str, Any]]], least: AtLeast) -> str:
    """What contradicts itself in the marks of this worker and of others; empty if nothing does."""
    if not any(mark["name"] == _BEGIN for mark in own):
        return "does not say where it begins"
    begun: dict[int, dict[str, Any]] = {}
    ended: set[int] = set()
    for mark in own:
        if mark["kind"] == "push":
            if mark["handle"] in begun:
                return f"begins the range {mark['name']!r} twice"
            begun[mark["handle"]] = mark
        elif mark["kind"] == "pop":
            if mark["handle"] not in begun or mark["handle"] in ended:
                return "ends a range that is not open"
            if mark["time_us"] < begun[mark["handle"]]["time_us"]:
                return "ends a range before it begins"
            ended.add(mark["handle"])
    calls = [(handle, mark["name"]) for handle, mark in begun.items() if _is_call(mark["name"])]
    for handle, name in calls:
        if name.startswith("rpc_sync#") and handle not in ended:
            return f"does not end the range {name!r}, of a call that is over"
    if _open_pass(own):
        return "does not end the range of a pass that is over"
    names = {name for _, name in calls}
    for thread in elsewhere:
        for mark in thread:
            name, between, _ = mark["name"].partition(_ELSEWHERE)
            if not between or name not in names:
                return f"has {mark['name']!r} from elsewhere, and no call that this was done for"
    if len(calls) < least.calls or len(elsewhere) < least.answers:
        return f"has {len(calls)} calls and {len(elsewhere)} answers, expected {least} or more"
    return ""


def _is_call(name: str) -> bool:
    return name.startswith("rpc_") and _ELSEWHERE not in name
