"""torch's legacy profiler, for one task at a time, and across calls.

The compiled profiler belongs to the thread, which many tasks may share: it runs while its task
runs, and is paused while another does (see :func:`profiler_of`). What a call does elsewhere is profiled
there and comes back with the reply. (torch/csrc/distributed/rpc/profiler, torch/distributed/rpc/
api.py: _enable_rpc_profiler)
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch._C._autograd import _disable_profiler_legacy, _enable_profiler_legacy
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

from squall.real.future import Future
from squall.real.ids import GlobalUniqueId
from squall.real.process import Agent, Process
from squall.real.rpc.commands import RunWithProfilingReq, RunWithProfilingResp
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.worker_info import WorkerInfo
from squall.real.runtime import Task, current_task, current_task_or_none

#: where a task keeps its profiler, which runs or is paused
PROFILER = "legacy profiler"

#: what stands between a call and what ran remotely for it (RemoteProfilerManager)
REMOTE_KEY = "#remote_op: "

#: between two marks of one instant, in microseconds: computing takes no virtual time
_STEP_US = 1e-3
_USER_SCOPE = 7
_PROFILER_IDS = "profiling ids"

#: what there is to say about a mark; the names are those of torch's ProfilerEvent
_FACTS = (
    "name",
    "kind",
    "handle",
    "is_async",
    "fwd_thread_id",
    "shapes",
    "stack",
    "scope",
    "sequence_nr",
    "flops",
    "cpu_memory_usage",
)

Facts = dict[str, Any]


class ProfilerOptions(NamedTuple):
    """What to record besides names and times."""

    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False

    def config(self) -> ProfilerConfig:
        return ProfilerConfig(ProfilerState.CPU, *self, _ExperimentalConfig())


class Mark:
    """A moment in a profile. Answers like torch's ``ProfilerEvent``: each fact by a call."""

    __slots__ = ("facts",)

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def cpu_elapsed_us(self, other: Mark) -> float:
        return float(other.facts["time_us"] - self.facts["time_us"])

    def has_cuda(self) -> bool:
        return False

    def cuda_memory_usage(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        try:
            value = self.facts[name]
        except KeyError:
            raise AttributeError(name) from None
        return lambda: value


class LegacyProfiler:
    """One run of the profiler, by the task that starts it. Times are the runtime's."""

    def __init__(
        self, worker: Process, options: ProfilerOptions, config: ProfilerConfig | None = None
    ) -> None:
        """``config``: for this worker, if not that of ``options``; it cannot be read nor sent."""
        self.worker = worker
        self.options = options
        self._config = config or options.config()
        self._marks: list[Facts] = []
        self._remote: list[list[Facts]] = []
        # next() is atomic between threads, += is not: a pass has several, and calls end on others
        self._counts = itertools.count(1)
        self._handles = itertools.count(-1, -1)  # torch's own are positive
        #: torch's numbers of ranges and of autograd nodes, and what they are here: torch counts
        #: through the whole process, and a profile is the same whatever ran before it
        self._numbers: dict[tuple[str, int], int] = {}
        self._own_numbers = itertools.count(1)
        self._finished = False

    # -- running ------------------------------------------------------------------------

    def start(self) -> None:
        """Profile this task from here on. Raises RuntimeError if somebody does already."""
        task = current_task()
        if profiler_of(task) is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        self.resume()
        task.locals[PROFILER] = self
        self.mark_start()

    def mark_start(self) -> None:
        """What is seen from here on is timed from here."""
        self._add("__start_profile", "mark", 0)

    def stop(self) -> None:
        """No longer profile this task. Calls that it has made may still add their ends."""
        self.pause()
        del current_task().locals[PROFILER]

    def finish(self) -> list[list[Facts]]:
        """Everything seen: the marks of this worker, then those of each call's other end."""
        self._finished = True
        return [self._marks, *self._remote]

    def resume(self) -> None:
        """For whoever switches tasks: the task is about to run."""
        _enable_profiler_legacy(self._config)

    def pause(self) -> None:
        """For whoever switches tasks: another is about to run."""
        for thread in _disable_profiler_legacy():
            for event in thread:
                if event.name() not in ("__start_profile", "__stop_profile"):
                    seen: Any = event
                    facts = {fact: getattr(seen, fact)() for fact in _FACTS}
                    for fact, least in (("handle", 1), ("sequence_nr", 0)):
                        if facts[fact] >= least:
                            facts[fact] = self._number_of((fact, facts[fact]))
                    self._take(facts)

    def flush(self) -> None:
        """Take in what has been seen so far, so that a mark of our own comes after it."""
        self.pause()
        self.resume()

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Let what runs inside, on whichever task, belong to this profile."""
        task = current_task()
        own: LegacyProfiler | None = task.locals.pop(PROFILER, None)
        if own is not None:
            own.pause()
        self.resume()
        task.locals[PROFILER] = self
        try:
            yield
        finally:
            self.pause()
            del task.locals[PROFILER]
            if own is not None:
                own.resume()
                task.locals[PROFILER] = own

    # -- marks of our own ---------------------------------------------------------------

    def push(self, name: str) -> int:
        """A range begins; its handle."""
        self.flush()
        handle = next(self._handles)
        self._add(name, "push", handle)
        return handle

    def pop(self, handle: int) -> None:
        """The range ends, on this task. No effect once the profile is finished."""
        if self._finished:
            return
        task = current_task_or_none()
        if task is not None and profiler_of(task) is self:
            self.flush()
        self._add("", "pop", handle)

    def add_remote(self, key: str, threads: Sequence[Sequence[Facts]]) -> None:
        """Take in what the other end of the call ``key`` has seen."""
        for marks in threads:
            self._remote.append(
                [
                    {**facts, "name": f"{key}{REMOTE_KEY}{facts['name']}", "is_remote": True}
                    for facts in marks
                ]
            )

    def _number_of(self, given: tuple[str, int]) -> int:
        known = self._numbers.get(given)
        if known is None:
            known = self._numbers.setdefault(given, next(self._own_numbers))
        return known

    def _add(self, name: str, kind: str, handle: int) -> None:
        facts: Facts = dict.fromkeys(_FACTS, 0)
        facts.update(name=name, kind=kind, handle=handle, is_async=False, shapes=[], stack=[])
        facts["scope"] = _USER_SCOPE
        facts["sequence_nr"] = -1
        self._take(facts)

    def _take(self, facts: Facts) -> None:
        task = current_task_or_none()
        count = next(self._counts)
        facts["node_id"] = self.worker.id
        facts["thread_id"] = task.id if task is not None else 0
        facts["time_us"] = self.worker.runtime.now() * 1e6 + count * _STEP_US
        facts["is_remote"] = False
        self._marks.append(facts)


def profiler_of(task: Task) -> LegacyProfiler | None:
    """The profiler of a task, which runs while that does; for whoever switches tasks, too."""
    return task.locals.get(PROFILER)


class ProfiledCall:
    """A call that is a range of the caller's profile, and is profiled where it runs."""

    __slots__ = ("_handle", "_profiler", "key")

    def __init__(self, profiler: LegacyProfiler, key: str) -> None:
        self._profiler = profiler
        self.key = key
        self._handle = profiler.push(key)

    def send(self, agent: Agent, to: int, message: Message, timeout_s: float) -> Future[Message]:
        """Send a request with the wish that it be profiled; the future holds the plain reply."""
        profiler = self._profiler
        locals = profiler.worker.locals
        number = next(locals.setdefault(_PROFILER_IDS, itertools.count()))
        request = RunWithProfilingReq(
            message, GlobalUniqueId(profiler.worker.id, number), profiler.options
        )
        return agent.send(to, request.to_message(), timeout_s).map(self._unwrap)

    def _unwrap(self, reply: Future[Message]) -> Message:
        message = reply.raw_value()
        if message.type != MessageType.RUN_WITH_PROFILING_RESP:
            return message
        response = RunWithProfilingResp.from_message(message)
        self._profiler.add_remote(self.key, response.events)
        return response.wrapped

    def end(self) -> None:
        """The call is over, well or not."""
        self._profiler.pop(self._handle)


def profiled_call(
    worker: Process, mode: str, func: Any, operator: Any, dst: WorkerInfo
) -> ProfiledCall | None:
    """The call that is about to be made, if this task is being profiled."""
    profiler = profiler_of(current_task())
    if profiler is None:
        return None
    if isinstance(operator, str):
        name = operator
    elif isinstance(func, torch.jit.ScriptFunction):
        name = torch._jit_internal._qualified_name(func)
    else:
        name = func.__qualname__
    return ProfiledCall(profiler, f"rpc_{mode}#{name}({worker.name} -> {dst.name})")
