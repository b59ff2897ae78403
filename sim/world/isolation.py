"""Swaps what PyTorch keeps per thread, and what a process owns, when a task is switched.

All tasks run in one operating-system thread, so a ``no_grad`` of one would leak into the next.
When a task is switched out, every thread-local setting of torch is put back to its default and
what was there is kept on the task; when it is switched in again, it is restored. A task therefore
starts from the defaults, as a thread does, and one that changed nothing costs only the look.

What belongs to the process (random state, default dtype, and for scripts environment, arguments,
streams, modules) is swapped only when the next task belongs to another worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from squall.real.rpc.profiling import profiler_of
from squall.real.worker import Worker
from squall.sim.world.torch_settings import (
    FreshSettings,
    ProcessSettings,
    ThreadSettings,
    default_device_context,
    take_thread_settings,
)

if TYPE_CHECKING:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    from squall.sim.world.primitives import SimTask

#: key of a process's :class:`PrivateState` in ``Worker.locals``
STATE = "private state"


class PrivateState(Protocol):
    """What one process owns and all share while it runs; swapped by :class:`TorchIsolation`."""

    def install(self) -> None:
        """Put the process's own in place."""

    def remove(self) -> None:
        """Take note of it, because another process is about to run."""


class TorchIsolation:
    """What :class:`~squall.sim.world.scheduler.SimRuntime` calls at each switch.

    Workers without a state of their own under ``Worker.locals[STATE]`` get one at their first
    task: torch's random state, seeded from the runtime by the worker's name. A default device
    that is set when this is made is that of every task. ``processes`` False: all workers share
    the process's settings, with a random state seeded from the runtime; that is quicker, and
    makes no difference to what draws no random numbers and changes none of the settings.
    ``dispatch_mode`` and ``function_mode`` are on the stacks of every task.
    """

    def __init__(
        self,
        *,
        processes: bool = True,
        default_device: torch.device | None = None,
        dispatch_mode: TorchDispatchMode | None = None,
        function_mode: TorchFunctionMode | None = None,
    ) -> None:
        self._processes = processes
        context = default_device_context()
        #: what every task starts with, as ``SimTask.isolated``
        device = default_device if context is None else context.device
        self.fresh: object = None
        if device is not None or dispatch_mode is not None or function_mode is not None:
            self.fresh = FreshSettings(device, dispatch_mode, function_mode)
        #: the settings of the thread that runs the simulation, while tasks run
        self._hub: ThreadSettings | None = None
        self._worker: Worker | None = None
        self._state: PrivateState | None = None
        self._outside: ProcessSettings | None = None

    def enter(self, task: SimTask) -> None:
        if self._processes or self._worker is None:
            worker = task.worker
            if worker is not self._worker and isinstance(worker, Worker):
                self._change(worker)
        saved = task.isolated
        if saved is not None:
            task.isolated = None
            saved.restore()
        if task.locals and (profiler := profiler_of(task)) is not None:
            profiler.resume()

    def leave(self, task: SimTask) -> None:
        if task.locals and (profiler := profiler_of(task)) is not None:
            profiler.pause()
        task.isolated = take_thread_settings()

    def close(self) -> None:
        """Give the caller of the simulation back what was its own."""
        if self._hub is not None:
            self._hub.restore()
            self._hub = None
        if self._state is not None:
            self._state.remove()
            self._state = None
        self._worker = None
        if self._outside is not None:
            self._outside.install()
            self._outside = None

    def _change(self, worker: Worker) -> None:
        if self._state is not None:
            self._state.remove()
        elif self._outside is None:
            self._outside = ProcessSettings()
            self._outside.remove()
            if self.fresh is not None:
                self._hub = ThreadSettings()
            if not self._processes:
                ProcessSettings(
                    worker.runtime.random("torch random state").getrandbits(63)
                ).install()
        self._worker = worker
        if not self._processes:
            return
        state: PrivateState | None = worker.locals.get(STATE)
        if state is None:
            seed = worker.runtime.random("torch random state", worker.name).getrandbits(63)
            state = worker.locals[STATE] = ProcessSettings(seed)
        self._state = state
        state.install()
