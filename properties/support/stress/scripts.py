"""Unmodified scripts on threads: each worker has a copy of the script's module, as a process would."""

from __future__ import annotations

import builtins
import importlib
import io
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from squall.properties.support.scripts import run_file
from squall.properties.support.stress.workers import ThreadWorkers, options
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import optimizer, public
from squall.sim.scripts.compat.module_facades import Facade
from squall.sim.scripts.compat.torch_facade import make_futures

#: the seed that a thread has set last: processes would not share a generator
_seed = threading.local()
_generator = threading.Lock()


class _Linear(nn.Linear):
    """Its weights are those that its thread's seed gives, whatever other threads draw."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with _generator:
            torch.manual_seed(_seed.last)
            super().__init__(*args, **kwargs)


def _manual_seed(seed: int) -> None:
    _seed.last = seed


class ThreadModules:
    """What ``import`` means to one worker: the engine in the place of ``torch.distributed.rpc``."""

    def __init__(self, script: Path, put: Callable[[str], object]) -> None:
        """``put`` is given each line that the script prints."""
        self._replaced: dict[str, ModuleType] = {}
        distributed = importlib.import_module("torch.distributed")
        optim = importlib.import_module("torch.distributed.optim")
        space: Any = self
        for name, module in (
            ("torch", Facade(space, torch, {"manual_seed": _manual_seed})),
            ("torch.nn", Facade(space, nn, {"Linear": _Linear})),
            ("torch.futures", make_futures(space)),
            ("torch.distributed", Facade(space, distributed)),
            ("torch.distributed.rpc", Facade(space, public, {"init_rpc": _init_rpc})),
            ("torch.distributed.autograd", Facade(space, dist_autograd)),
            (
                "torch.distributed.optim",
                Facade(space, optim, {"DistributedOptimizer": optimizer.DistributedOptimizer}),
            ),
        ):
            module.__name__ = name
            self._replaced[name] = module
        #: the script's own name: on threads nobody is the main module
        self.main = ModuleType(script.stem)
        names = {**vars(builtins), "__import__": self._import, "print": partial(_print, put)}
        self.main.__dict__["__builtins__"] = names
        exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), self.main.__dict__)

    def replaced_submodule(self, name: str) -> ModuleType | None:
        return self._replaced.get(name)

    def owns(self, module: str) -> bool:
        return module == self.main.__name__

    def find(self, module: str, qualname: str) -> Any:
        found: Any = self.main
        for name in qualname.split("."):
            found = getattr(found, name)
        return found

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> ModuleType:
        module = importlib.import_module(name)
        module = self._replaced.get(name, module)
        head = name.partition(".")[0]
        return module if fromlist else self._replaced.get(head, importlib.import_module(head))


def _init_rpc(name: str, rank: int, world_size: int) -> None:
    public.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options())


def _print(put: Callable[[str], object], *values: object, **_: object) -> None:
    put(" ".join(map(str, values)))


def lines_on_threads(script: Path, workers: int, steps: int) -> list[str]:
    """What a script prints that has ``run(rank, world_size, steps)`` for each process."""
    lines: list[str] = []
    modules = [ThreadModules(script, lines.append) for _ in range(workers)]
    ThreadWorkers(modules).run(lambda rank: modules[rank].main.run(rank, workers, steps))
    return lines


def lines_in_simulation(script: Path, workers: int, steps: int) -> list[str]:
    """What it prints on the simulator, where gradients are checked as well."""
    printed = io.StringIO()
    run = run_file(script, "--steps", str(steps), workers=workers, stdout=printed)
    assert run.crash is None and not run.waits, (run.crash, run.waits)
    return printed.getvalue().splitlines()
