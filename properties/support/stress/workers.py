"""Workers of one group on real threads of this process."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from squall.properties.support.waiting import PATIENCE_S
from squall.real.process import ModuleSpace
from squall.real.rpc import api as rpc
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.transport import QueueWorld
from squall.real.runtime import run_as
from squall.real.threads import ThreadRuntime
from squall.real.worker import Worker

#: seconds between two switches of threads that are asked of the interpreter: 500 times as many
SWITCH_INTERVAL_S = 1e-5
INIT_METHOD = "queue://stress"


def options(num_worker_threads: int = 16) -> TensorPipeRpcBackendOptions:
    return TensorPipeRpcBackendOptions(
        init_method=INIT_METHOD, num_worker_threads=num_worker_threads
    )


class ThreadWorkers:
    """Workers that share nothing but a network of queues, in a world of their own."""

    def __init__(self, modules: Sequence[ModuleSpace | None]) -> None:
        self.runtime = ThreadRuntime()
        world = QueueWorld(self.runtime)
        self.workers = [
            Worker(self.runtime, world, name=f"worker{rank}", modules=space)
            for rank, space in enumerate(modules)
        ]

    def run(self, main: Callable[[int], object]) -> list[object]:
        """Call ``main(rank)`` on a thread for each worker, as the worker, and give the results.

        Raises the first error of a worker, and AssertionError if a worker does not end.
        """
        results: list[object] = [None] * len(self.workers)
        errors: list[BaseException] = []

        def process(rank: int) -> None:
            with run_as(self.workers[rank].task()):
                try:
                    results[rank] = main(rank)
                except BaseException as error:
                    errors.append(error)
                    raise

        threads = [
            threading.Thread(target=process, args=(rank,), daemon=True, name=f"worker{rank}")
            for rank in range(len(self.workers))
        ]
        for thread in threads:
            thread.start()
        until_s = time.monotonic() + PATIENCE_S
        while any(thread.is_alive() for thread in threads) and not errors:
            if time.monotonic() > until_s:
                faulthandler.dump_traceback(sys.__stderr__ or sys.stderr)
                raise AssertionError(f"a worker has not ended in {PATIENCE_S:g} s")
            threads[0].join(0.01)
            time.sleep(0.01)
        if errors:
            raise errors[0]
        self.runtime.close()
        return results


def on_threads(
    size: int, main: Callable[[int], Any], *, modules: Sequence[ModuleSpace | None] | None = None
) -> list[Any]:
    """Run ``main(rank)`` between ``init_rpc`` and ``shutdown`` on ``size`` workers."""

    def process(rank: int) -> object:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=options())
        result = main(rank)
        rpc.shutdown()
        return result

    return ThreadWorkers(modules or [None] * size).run(process)


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Threads switch often inside. Gives a list that fills with what goes wrong out of sight: tasks
    that died, callbacks that raised."""
    complaints: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:  # whoever only warns has none
                complaints.append(self.format(record))

    listener, logger = Listener(), logging.getLogger("squall")
    between = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    logger.addHandler(listener)
    propagate, logger.propagate = logger.propagate, False
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # what callees print of planted errors
            yield complaints
    finally:
        logger.propagate = propagate
        logger.removeHandler(listener)
        sys.setswitchinterval(between)
