"""``torch.multiprocessing`` as a simulated process sees it: ``spawn`` and what it gives back."""

from __future__ import annotations

import importlib
import signal
import traceback
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch.multiprocessing as real_torch_multiprocessing
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from squall.sim.scripts.compat import children
from squall.sim.scripts.compat.errors import report
from squall.sim.scripts.compat.facades import Facade
from squall.sim.scripts.compat.multiprocess import Context, default_names
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.waiting import wait_for_any

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace
    from squall.sim.scripts.compat.process import SimProcess

_SPAWN_ERROR = "torch.multiprocessing.spawn error"
_TERMINATION_WAIT_S = 30.0


def run_spawned(fn: Callable[..., object], index: int, args: tuple[Any, ...]) -> None:
    """What a process started by ``spawn`` does; its error is kept for the parent."""
    try:
        fn(index, *args)
    except Exception as error:
        process = current_process()
        process.error = report(error)
        process.locals[_SPAWN_ERROR] = process.error.traceback
        traceback.clear_frames(error.__traceback__)
        raise SystemExit(1) from None


class ProcessContext:
    """The processes that one call of ``start_processes`` has started."""

    def __init__(self, processes: Sequence[children.BaseProcess]) -> None:
        self.processes = list(processes)
        self._running = {process._live(): index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid or 0) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for some to end; True once all have.

        Raises ProcessRaisedException or ProcessExitedException, the others being terminated,
        if one of them fails. Waits ``timeout`` seconds at most; after a failure, gives the rest
        ``grace_period`` seconds to end by themselves.
        """
        if not self._running:
            return True
        failed: int | None = None
        for process in wait_for_any(list(self._running), timeout):
            index = self._running.pop(process)
            if process.exit_code != 0:
                failed = index
                break
        if failed is None:
            return not self._running
        if grace_period is not None:
            self._join_all(grace_period)
        for process in [child._live() for child in self.processes]:
            process.terminate()
        self._join_all(_TERMINATION_WAIT_S)
        raise _failure(failed, self.processes[failed]._live())

    def _join_all(self, timeout: float) -> None:
        runtime = current_process().group.runtime
        end = runtime.now() + timeout
        for process in self.processes:
            process.join(max(0.0, end - runtime.now()))


class SpawnContext(ProcessContext):
    pass


def _failure(index: int, process: SimProcess) -> Exception:
    text = process.locals.get(_SPAWN_ERROR)
    if text is not None:
        return ProcessRaisedException(
            f"\n\n-- Process {index:d} terminated with the following error:\n{text}",
            index,
            process.pid,
        )
    code = process.exit_code or 0
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(
            f"process {index:d} terminated with signal {name}",
            error_index=index,
            error_pid=process.pid,
            exit_code=code,
            signal_name=name,
        )
    return ProcessExitedException(
        f"process {index:d} terminated with exit code {code:d}",
        error_index=index,
        error_pid=process.pid,
        exit_code=code,
    )


def start_processes(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start ``fn(i, *args)`` in ``nprocs`` processes, and wait for them if ``join``."""
    context = Context().get_context(start_method)
    processes = []
    for index in range(nprocs):
        process = context.Process(target=run_spawned, args=(fn, index, args), daemon=daemon)
        process.start()
        processes.append(process)
    started = ProcessContext(processes)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """``torch.multiprocessing.spawn``: :func:`start_processes` by the method "spawn"."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}); "
            "torch.multiprocessing.start_processes takes others",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


_SPAWN_NAMES: dict[str, Any] = {
    "ProcessContext": ProcessContext,
    "SpawnContext": SpawnContext,
    "spawn": spawn,
    "start_processes": start_processes,
}


def make_torch_multiprocessing(space: ModuleSpace) -> ModuleType:
    return Facade(space, real_torch_multiprocessing, {**default_names(), **_SPAWN_NAMES})


def make_torch_spawn(space: ModuleSpace) -> ModuleType:
    return Facade(space, importlib.import_module("torch.multiprocessing.spawn"), _SPAWN_NAMES)
