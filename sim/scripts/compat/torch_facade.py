"""``torch`` as a simulated process sees it: the real one, with this engine behind ``distributed``."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from squall.real import future
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import optimizer, public
from squall.real.worker import current_worker
from squall.sim.scripts.compat import collectives, faulty, multiprocess, profilers, stores
from squall.sim.scripts.compat.futures import rpc_async
from squall.sim.scripts.compat.guard import NotSimulatedError
from squall.sim.scripts.compat.module_facades import Facade, WriteThroughFacade
from squall.sim.scripts.compat.process import current_process, meeting
from squall.sim.scripts.compat.rpc_api import make_rpc_api
from squall.sim.scripts.compat.substitutes import STANDARD, STANDARD_PRIVATE, front
from squall.sim.scripts.compat.torchscript import make_jit

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace, Substitute

#: library modules that build on torch.distributed.rpc and are executed per process
PRIVATE = (
    *STANDARD_PRIVATE,
    *multiprocess.PRIVATE,
    "torch.distributed.nn",
    "torch.distributed.rpc.server_process_global_profiler",
    "torch.testing._internal.dist_utils",
    "torch.testing._internal.distributed.nn",
    "torch.testing._internal.distributed.rpc",
    "torch.testing._internal.distributed.rpc_utils",
    "torch.utils.data._utils",
    "torch.utils.data.dataloader",
)


def init_rpc(
    name: Any,
    backend: Any = None,
    rank: Any = -1,
    world_size: Any = None,
    rpc_backend_options: Any = None,
) -> None:
    """``rpc.init_rpc``; the other ranks of a script that runs once a rank are started first."""
    process = current_process()
    meeting(_number(rank), _number(world_size))
    public.init_rpc(name, backend, rank, world_size, rpc_backend_options)
    if process.group.on_joined is not None:
        process.group.on_joined(process)


@functools.wraps(public.shutdown)
def shutdown(*args: Any, **kwargs: Any) -> None:
    process = current_process()
    if process.group.on_leaving is not None:
        process.group.on_leaving(process)
    public.shutdown(*args, **kwargs)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1


def collect_all(futures: list[Any]) -> Any:
    """``torch.futures.collect_all``."""
    if futures and all(isinstance(each, torch.futures.Future) for each in futures):
        return torch.futures.collect_all(futures)
    return future.collect_all(futures)


def wait_all(futures: list[Any]) -> list[Any]:
    """``torch.futures.wait_all``."""
    if futures and all(isinstance(each, torch.futures.Future) for each in futures):
        return torch.futures.wait_all(futures)
    return future.wait_all(futures)


def make_futures(space: ModuleSpace) -> ModuleType:
    replaced = {"Future": future.Future, "collect_all": collect_all, "wait_all": wait_all}
    return Facade(space, torch.futures, replaced)


def make_distributed(space: ModuleSpace) -> ModuleType:
    real = importlib.import_module("torch.distributed")
    return Facade(space, real, {**collectives.NAMES, **stores.NAMES})


def make_c10d(space: ModuleSpace) -> ModuleType:
    real = importlib.import_module("torch.distributed.distributed_c10d")
    return Facade(space, real, {**collectives.NAMES, **stores.NAMES})


def make_optim(space: ModuleSpace) -> ModuleType:
    real = importlib.import_module("torch.distributed.optim")
    return Facade(space, real, {"DistributedOptimizer": optimizer.DistributedOptimizer})


def make_optim_optimizer(space: ModuleSpace) -> ModuleType:
    real = importlib.import_module("torch.distributed.optim.optimizer")
    return Facade(space, real, {"DistributedOptimizer": optimizer.DistributedOptimizer})


def init_rpc_backend(backend: Any, store: Any = None, *args: Any, **kwargs: Any) -> None:
    """``rpc._init_rpc_backend``, with a store as scripts have it."""
    if isinstance(store, stores.Store):
        store = current_worker().world.store(store._place)
    public._init_rpc_backend(backend, store, *args, **kwargs)


def make_rpc(space: ModuleSpace) -> ModuleType:
    replaced = {
        "Store": stores.Store,
        "_init_rpc_backend": init_rpc_backend,
        "init_rpc": init_rpc,
        "rpc_async": rpc_async,
        "shutdown": shutdown,
    }
    return _Leading(space, public, replaced, name="torch.distributed.rpc")


class _Leading(Facade):
    """A module with names of modules that are executed for the process, at the first use of one: few
    scripts do."""

    def __getattr__(self, name: str) -> Any:
        module = _LED_TO.get((self.__name__, name))
        if module is None:
            return super().__getattr__(name)
        space: ModuleSpace = self.__dict__["_facade_space"]
        return getattr(space.load(module), name)


#: by module and name
_LED_TO = {
    ("torch.distributed.rpc", "_server_process_global_profile"): (
        "torch.distributed.rpc.server_process_global_profiler"
    ),
    ("torch.utils.data", "DataLoader"): "torch.utils.data.dataloader",
    ("torch.utils.data", "get_worker_info"): "torch.utils.data.dataloader",
}


def make_data(space: ModuleSpace) -> ModuleType:
    """``torch.utils.data``, whose loader starts processes."""
    return _Leading(space, importlib.import_module("torch.utils.data"))


def make_core(space: ModuleSpace) -> ModuleType:
    """``torch._C``, for those who ask what a future is an instance of, and without what watches over the
    real processes of a loader."""
    unwatched = dict.fromkeys(_WATCHES_LOADERS, _watch_nothing)
    return Facade(space, torch._C, {"Future": future.Future, **unwatched})


_WATCHES_LOADERS = (
    "_error_if_any_worker_fails",
    "_remove_worker_pids",
    "_set_worker_pids",
    "_set_worker_signal_handlers",
)


def _watch_nothing(*_: object) -> None:
    """A simulated process that ends is noticed where it is waited for."""


def make_rpc_core(space: ModuleSpace) -> ModuleType:
    """``torch._C._distributed_rpc``, whose public names ``torch.distributed.rpc`` has too."""
    real = importlib.import_module("torch._C._distributed_rpc")
    replaced = {name: getattr(public, name) for name in dir(real) if name in vars(public)}
    return Facade(space, real, replaced)


def make_autograd(space: ModuleSpace) -> ModuleType:
    return Facade(space, dist_autograd, name="torch.distributed.autograd")


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """Not available: says so."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotSimulatedError(
            "torch.nn.parallel.DistributedDataParallel is not simulated on the engine port: its "
            "reducer is compiled code that waits for real processes. Use --engine torch, or "
            "average the gradients with torch.distributed.all_reduce."
        )


def _with_no_ddp(name: str) -> Substitute:
    def make(space: ModuleSpace) -> ModuleType:
        replaced = {"DistributedDataParallel": DistributedDataParallel}
        return Facade(space, importlib.import_module(name), replaced)

    return make


def _rpc_submodule(name: str) -> Substitute:
    def make(space: ModuleSpace) -> ModuleType:
        # What is set there concerns the engine.
        return WriteThroughFacade(
            space, public.SUBMODULES[name], name=f"torch.distributed.rpc.{name}"
        )

    return make


#: every replacement, by full module name
SUBSTITUTES: dict[str, Substitute] = {
    **STANDARD,
    **multiprocess.SUBSTITUTES,
    "torch": front("torch"),
    "torch._C": make_core,
    "torch._C._distributed_rpc": make_rpc_core,
    "torch.autograd": front("torch.autograd"),
    "torch.autograd.profiler": profilers.make_profiler,
    "torch.autograd.profiler_legacy": profilers.make_profiler_legacy,
    "torch.distributed": make_distributed,
    "torch.distributed.autograd": make_autograd,
    "torch.distributed.distributed_c10d": make_c10d,
    "torch.distributed.optim": make_optim,
    "torch.distributed.optim.optimizer": make_optim_optimizer,
    "torch.distributed.rpc": make_rpc,
    "torch.distributed.rpc._testing": faulty.make_testing,
    "torch.futures": make_futures,
    "torch.jit": make_jit,
    "torch.nn": front("torch.nn"),
    "torch.nn.parallel": _with_no_ddp("torch.nn.parallel"),
    "torch.nn.parallel.distributed": _with_no_ddp("torch.nn.parallel.distributed"),
    "torch.ops": front("torch.ops"),
    "torch.ops.profiler": profilers.make_ops,
    "torch.testing": front("torch.testing"),
    "torch.testing._internal": front("torch.testing._internal"),
    "torch.testing._internal.distributed": front("torch.testing._internal.distributed"),
    "torch.utils": front("torch.utils"),
    "torch.utils.data": make_data,
    **{f"torch.distributed.rpc.{name}": _rpc_submodule(name) for name in public.SUBMODULES},
    "torch.distributed.rpc.api": make_rpc_api,
}
