"""PyTorch's own backward passes: each has a thread for itself while another one has not ended.

A hook of ``loss.backward()`` may wait, for a collective or a call. Tasks are greenlets of one thread, and the engine of
PyTorch has one queue of nodes a thread: a pass that another rank begins meanwhile would run the nodes of the first, and
their hooks in its own name, or wait for what it holds up itself. It goes to a thread of its own, which does nothing
while others do; its task stays what waits, is woken and is ended.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Protocol

import torch

from squall.real.runtime import current_task_variable

#: by thread: the task in whose name the engine runs there
_passing: dict[int, object] = {}


class Runtime(Protocol):
    """What switches between tasks."""

    running: Any

    def switch(self) -> None: ...
    def leave(self, task: Any) -> None: ...
    def enter(self, task: Any) -> None: ...


class Apart:
    """Runs a function of the running task on a thread of its own, where all that the task calls is as on its own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._task = runtime, runtime.running
        self._here, self._there = allocate_lock(), allocate_lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._thrown: BaseException | None = None
        self._ended = False

    def call(self, function: Callable[[], object]) -> Any:
        """What it returns, or raises. The greenlet of the task does the waiting of the function."""
        runtime, task = self._runtime, self._task
        self._here.acquire()
        self._there.acquire()
        runtime.leave(task)
        task.apart = self
        try:
            start_new_thread(copy_context().run, (self._run, function))
            self._here.acquire()
            while not self._ended:
                try:
                    runtime.switch()
                except BaseException as error:
                    self._thrown = error
                runtime.leave(task)
                self._there.release()
                self._here.acquire()
        finally:
            task.apart = None
        runtime.enter(task)
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            self._error = self._value = None

    def _run(self, function: Callable[[], object]) -> None:
        self._runtime.enter(self._task)
        try:
            self._value = function()
        except BaseException as error:
            self._error = error
        self._runtime.leave(self._task)
        self._ended = True
        self._here.release()

    def wait(self) -> None:
        """On that thread, which the task has left: come back to it when its turn comes. Raises what the task is ended by."""
        self._here.release()
        self._there.acquire()
        self._runtime.enter(self._task)
        thrown, self._thrown = self._thrown, None
        if thrown is not None:
            raise thrown


class _Engine(torch._C._ImperativeEngine):
    def run_backward(self, *args: Any, **options: Any) -> Any:
        run = partial(super().run_backward, *args, **options)
        task: Any = current_task_variable.get(None)
        runtime: Any = getattr(task, "runtime", None)
        # Tasks of other runtimes have threads for themselves.
        if getattr(runtime, "running", None) is not task or task is None or task.apart is not None:
            return run()
        thread = get_ident()
        passing = _passing.get(thread)
        if passing is task:  # a pass that a hook of its own begins
            return run()
        if passing is not None:
            return Apart(runtime).call(run)
        _passing[thread] = task
        try:
            return run()
        finally:
            del _passing[thread]


@cache
def install() -> None:
    """For as long as the interpreter lives: to whatever is no task nothing is different."""
    torch.autograd.Variable._execution_engine = _Engine()
