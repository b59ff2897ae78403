"""Inside a worker process of the engine ``torch``: what programs call, answered by stock PyTorch.

The functions of a program (sim/programs/host.py and what it imports) call ``squall.real.rpc.api`` and
``squall.real.autograd.api``. Here these names stand for ``torch.distributed.rpc`` and
``torch.distributed.autograd``, and a task of the runtime is a thread: the same program text runs
on both engines. :func:`install` must come before the first import of any of them.
"""

from __future__ import annotations

import itertools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig
from torch.distributed.optim import DistributedOptimizer

from squall.real.native.here import FIRST_LANE, Here

_lanes = itertools.count(FIRST_LANE)
_local = threading.local()


_Meta: Any = type(torch.futures.Future)
_torch_autograd: Any = torch.autograd


class _FutureType(_Meta):  # type: ignore[misc]
    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, torch._C.Future)  # what an RPC gives is no subclass of it


class Future(torch.futures.Future, metaclass=_FutureType):  # type: ignore[type-arg]
    """A future as programs make them: by the names that the port's has."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def mark_completed(self, value: Any) -> None:
        self.set_result(value)

    def set_error(self, error: Exception) -> None:
        self.set_exception(error)


def completed(value: Any) -> torch.futures.Future[Any]:
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(value)
    return future


class StockRuntime:
    """Tasks are threads, and time is the coordinator's."""

    def now(self) -> float:
        return Here.process().now()

    def sleep(self, seconds: float) -> None:
        Here.process().sleep(seconds)

    def lock(self, what: object = "") -> Any:
        return threading.Lock()

    def spawn(self, fn: Callable[..., object], *args: Any, name: str, **_: object) -> None:
        lane = next(_lanes)

        def run() -> None:
            here = Here.process()
            here.set_lane(lane)
            here.ask("start")  # one thread at a time begins
            fn(*args)

        threading.Thread(target=run, name=name, daemon=True).start()


class StockWorker:
    """What a program finds on its worker."""

    def __init__(self) -> None:
        self.locals: dict[str, Any] = {}
        self.runtime = StockRuntime()


_WORKER = StockWorker()


def current_worker() -> StockWorker:
    return _WORKER


def current_task() -> Any:
    """The running thread, as far as a program looks at it."""
    task = getattr(_local, "task", None)
    if task is None:
        task = _local.task = types.SimpleNamespace(
            worker=_WORKER, runtime=_WORKER.runtime, locals={}, name="task"
        )
    return task


class LegacyProfiler:
    """PyTorch's profiler of the running thread, by the names that the port's has."""

    def __init__(self, worker: object, options: ProfilerConfig) -> None:
        self._config = options
        self._threads: list[list[Any]] = []

    def start(self) -> None:
        _torch_autograd._enable_profiler_legacy(self._config)

    def stop(self) -> None:
        self._threads = _torch_autograd._disable_profiler_legacy()

    def finish(self) -> list[list[dict[str, Any]]]:
        """What was seen here, and then what was for each call elsewhere; times are numbers."""
        numbers = itertools.count()
        own: list[dict[str, Any]] = []
        elsewhere: list[list[dict[str, Any]]] = []
        for thread in self._threads:
            marks = [
                {
                    "name": event.name(),
                    "kind": event.kind(),
                    "handle": event.handle(),
                    "time_us": next(numbers),
                }
                for event in thread
            ]
            if thread and thread[0].is_remote():
                elsewhere.append(marks)
            else:
                own += marks
        return [own, *elsewhere]


def _profiler_options() -> ProfilerConfig:
    state, plain = ProfilerState.CPU, _ExperimentalConfig()
    return ProfilerConfig(state, False, False, False, False, False, plain)


def _profiler_of(task: object) -> bool | None:
    return _torch_autograd._profiler_enabled() or None


class ThreadLocalDistAutogradContext:
    """The context that a gradient belongs to, while hooks of an AccumulateGrad run."""

    @staticmethod
    def get_context_ptr() -> Any:
        context_id = Here.process().hook_context()
        return None if context_id is None else types.SimpleNamespace(context_id=context_id)


def install() -> None:
    """Let the names of the port's modules stand for those of PyTorch."""
    for name in (
        "squall.real.rpc.api",
        "squall.real.autograd.api",
        "squall.real.future",
        "squall.real.runtime",
        "squall.real.worker",
    ):
        if name in sys.modules:
            raise RuntimeError(f"{name} has been imported already")
    _stand_in("squall.real.rpc.api", vars(rpc.api), vars(rpc))
    _stand_in("squall.real.autograd.api", vars(dist_autograd))
    _stand_in(
        "squall.real.autograd.context",
        {"ThreadLocalDistAutogradContext": ThreadLocalDistAutogradContext},
    )
    engine: Any = torch.autograd.Variable._execution_engine
    _stand_in("squall.real.autograd.graph_task", {"queue_callback": engine.queue_callback})
    _stand_in(
        "squall.real.future",
        {
            "Future": Future,
            "completed": completed,
            "collect_all": torch.futures.collect_all,
            "wait_all": torch.futures.wait_all,
        },
    )
    _stand_in(
        "squall.real.runtime",
        {"current_task": current_task, "current_task_or_none": current_task},
    )
    _stand_in(
        "squall.real.worker",
        {"current_worker": current_worker, "current_worker_or_none": current_worker},
    )
    for name in (
        "squall.real.rpc.all_gather",
        "squall.real.rpc.calls",
        "squall.real.rpc.rref_proxy",
    ):
        _stand_in(name, vars(rpc.api))
    _stand_in("squall.real.rpc.functions", vars(rpc.functions))
    _stand_in("squall.real.rpc.server_profiling", vars(torch._C._distributed_rpc))
    _stand_in(
        "squall.real.rpc.profiling",
        {
            "LegacyProfiler": LegacyProfiler,
            "ProfilerOptions": _profiler_options,
            "profiler_of": _profiler_of,
        },
    )
    _stand_in("squall.real.rpc.optimizer", {"DistributedOptimizer": DistributedOptimizer})


def _absent(module: str) -> Callable[[str], type]:
    """What a stand-in gives for a name that it does not have: modules may import it and derive from
    it, as those of the port do, but nothing that runs on this engine may call it."""

    def get(name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        def refuse(*_: object, **__: object) -> Any:
            raise NotImplementedError(f"{module}.{name} is for the engine port alone")

        return type(name, (Exception,), {"__init__": refuse})

    return get


def _stand_in(name: str, *sources: dict[str, Any]) -> None:
    module = types.ModuleType(name)
    for source in sources:
        module.__dict__.update({k: v for k, v in source.items() if not k.startswith("__")})
    module.__dict__["__getattr__"] = _absent(name)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    setattr(__import__(parent, fromlist=["*"]), last, module)
