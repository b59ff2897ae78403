"""torch's autograd profilers and ``record_function`` as a simulated process sees them.

A process profiles its own tasks only, in virtual time; calls to other workers are profiled there.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.autograd.profiler import record_function as real_record_function

from squall.real.future import Future
from squall.real.rpc.profiling import LegacyProfiler, Mark, ProfilerOptions, profiler_of
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.scripts.compat.module_facades import Facade

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace


def make_profiler_legacy(space: ModuleSpace) -> ModuleType:
    """The module, executed from its source, over the profiler of the running task."""
    module = space.execute_library("torch.autograd.profiler_legacy")
    module.__dict__.update(
        ProfilerConfig=options,
        _enable_profiler_legacy=enable_profiler,
        _disable_profiler_legacy=disable_profiler,
    )
    return module


def options(
    state: Any,
    record_shapes: bool,
    profile_memory: bool,
    with_stack: bool,
    with_flops: bool,
    with_modules: bool,
    *_: Any,
) -> ProfilerOptions:
    """In the place of ``ProfilerConfig``; the CPU is profiled, whatever ``state`` says."""
    return ProfilerOptions(record_shapes, profile_memory, with_stack, with_flops, with_modules)


def enable_profiler(options: ProfilerOptions) -> None:
    """Raises RuntimeError if this task is profiled already."""
    LegacyProfiler(current_worker(), options).start()


def disable_profiler() -> list[list[Mark]]:
    """What the running task's profiler has seen. Raises RuntimeError if there is none."""
    profiler = profiler_of(current_task())
    if profiler is None:
        raise RuntimeError("Can't disable profiler when it's not running")
    profiler.stop()
    return [[Mark(facts) for facts in marks] for marks in profiler.finish()]


class record_function(real_record_function):  # noqa: N801 - torch's name
    """A label on what runs inside. Its end may wait for a future of this engine."""

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """A future of the same value that is done when the range has ended."""
        if not isinstance(fut, Future):
            return super()._call_end_callbacks_on_future(fut)
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        return _end_with(self.record, fut)


def call_end_callbacks_on_jit_fut(record: Any, fut: Any) -> Any:
    """``torch.ops.profiler._call_end_callbacks_on_jit_fut``, for a future of this engine too."""
    if not isinstance(fut, Future):
        return torch.ops.profiler._call_end_callbacks_on_jit_fut(record, fut)
    return _end_with(record, fut)


def _end_with(record: Any, fut: Future[Any]) -> Future[Any]:
    """End the range ``record``, of either kind that torch has, when ``fut`` is done.

    Returns a future of the same value that is done after that.
    """
    profiler = profiler_of(current_task())

    def end(done: Future[Any]) -> Any:
        if profiler is None:
            torch.ops.profiler._record_function_exit(record)
        else:
            with profiler.here():
                torch.ops.profiler._record_function_exit(record)
        return done.value()

    return fut.then(end)


def make_ops(space: ModuleSpace) -> ModuleType:
    """``torch.ops.profiler``."""
    replaced = {"_call_end_callbacks_on_jit_fut": call_end_callbacks_on_jit_fut}
    return Facade(space, cast("ModuleType", torch.ops.profiler), replaced)


def make_profiler(space: ModuleSpace) -> ModuleType:
    """``torch.autograd.profiler``, whose ``profile`` is over the running task's profiler, too."""
    real: Any = importlib.import_module("torch.autograd.profiler")
    legacy: Any = space.load("torch.autograd.profiler_legacy")
    signature = inspect.signature(real.profile)
    known = inspect.signature(legacy.profile).parameters

    class profile(legacy.profile):  # type: ignore[misc]  # noqa: N801 - torch's name
        """Takes what ``torch.autograd.profiler.profile`` takes; the CPU is profiled."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs).arguments
            super().__init__(**{name: value for name, value in given.items() if name in known})

    return Facade(space, real, {"profile": profile, "record_function": record_function})
