"""A bounded pool of tasks: the RPC threads of a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.real.process import Process
    from squall.real.runtime import Runtime


class TaskPool:
    """Runs work on at most ``size`` tasks at a time; more work waits its turn.

    A task that blocks keeps its place, as a thread would: nested blocking calls can exhaust
    the pool (torch/csrc/distributed/rpc/tensorpipe_agent.h, threadPool_).
    """

    def __init__(self, runtime: Runtime, worker: Process, size: int) -> None:
        self._runtime = runtime
        self._worker = worker
        self.size = size
        self.busy = 0
        self.waiting: deque[tuple[int, str, Callable[..., object], tuple[Any, ...]]] = deque()
        self._lock = runtime.lock("RPC thread pool")

    def submit(self, cause: int, name: str, fn: Callable[..., object], *args: Any) -> None:
        """Run ``fn(*args)`` on a task of its own as soon as there is a place for it.

        ``cause`` is the number of the message that brought the work, or -1.
        """
        with self._lock:
            if self.busy >= self.size:
                self.waiting.append((cause, name, fn, args))
                return
            self.busy += 1
        self._runtime.spawn(self._run, fn, args, name=name, worker=self._worker, cause=cause)

    def _run(self, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            fn(*args)
        finally:
            with self._lock:
                following = self.waiting.popleft() if self.waiting else None
                if following is None:
                    self.busy -= 1
            if following is not None:
                cause, name, *work = following
                self._runtime.spawn(self._run, *work, name=name, worker=self._worker, cause=cause)
