"""Random state of a simulated process: ``random``, ``numpy.random`` and ``os.urandom``.

A process that never sets a seed draws from streams of the runtime, so a run can be repeated.
Torch's random state is swapped with the process; see :mod:`squall.sim.world.isolation`. Imports no torch.
"""

from __future__ import annotations

import importlib
import random as real_random
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.sim.scripts.compat.facades import Facade, builtin
from squall.sim.scripts.compat.owner import current_owner

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace

_STREAM = "entropy"


def entropy() -> real_random.Random:
    """What the operating system's entropy is for the current process."""
    worker = current_owner()
    stream: real_random.Random | None = worker.locals.get(_STREAM)
    if stream is None:
        process = worker.locals.get("process")
        name = process.pid if process is not None else worker.name
        stream = worker.locals[_STREAM] = worker.runtime.random("entropy", name)
    return stream


@builtin
def urandom(size: int, /) -> bytes:
    if size < 0:
        raise ValueError("negative argument not allowed")
    return entropy().randbytes(size)


class Random(real_random.Random):
    """``random.Random``; without a seed it takes one from the process's entropy."""

    def seed(self, a: Any = None, version: int = 2) -> None:
        super().seed(entropy().getrandbits(256) if a is None else a, version)

    def __reduce__(self) -> tuple[Any, ...]:
        return real_random.Random, (), self.getstate()


class SystemRandom(real_random.SystemRandom):
    def random(self) -> float:
        return entropy().random()

    def getrandbits(self, k: int, /) -> int:
        return entropy().getrandbits(k)

    def randbytes(self, n: int) -> bytes:
        return entropy().randbytes(n)


Random.__module__ = SystemRandom.__module__ = "random"


def make_random(space: ModuleSpace) -> ModuleType:
    inst = Random()
    replaced: dict[str, Any] = {"Random": Random, "SystemRandom": SystemRandom, "_inst": inst}
    replaced["_urandom"] = urandom
    for name in real_random.__all__:
        if getattr(getattr(real_random, name), "__self__", None) is real_random._inst:
            replaced[name] = getattr(inst, name)
    return Facade(space, real_random, replaced)


def make_numpy_random(space: ModuleSpace) -> ModuleType:
    real: Any = importlib.import_module("numpy.random")
    shared = real.mtrand._rand
    own = real.RandomState(entropy().getrandbits(32))
    replaced: dict[str, Any] = {"RandomState": _random_state(real), "default_rng": default_rng}
    for name in dir(real):
        if getattr(getattr(real, name), "__self__", None) is shared:
            replaced[name] = getattr(own, name)
    # These two are plain functions over the shared state.
    replaced["seed"] = own.seed
    replaced["ranf"] = replaced["sample"] = own.random_sample
    return Facade(space, real, replaced)


def _random_state(real: Any) -> Any:
    class RandomState(real.RandomState):  # type: ignore[misc]
        def __init__(self, seed: Any = None) -> None:
            super().__init__(entropy().getrandbits(32) if seed is None else seed)

    RandomState.__module__ = "numpy.random"
    return RandomState


@builtin
def default_rng(seed: Any = None) -> Any:
    real: Any = importlib.import_module("numpy.random")
    return real.default_rng(entropy().getrandbits(128) if seed is None else seed)
