"""Random numbers of a process that sets no seed: the same for a seed of the run, on every engine.

A process begins with what is drawn from streams of its own, which its place in the order of
processes names: one for the state of torch, one for that of ``random``, one for that of
``numpy.random``, and one for whatever asks the operating system for entropy. So it does not matter
which of them a script imports first, and ranks differ, as processes do that the operating system
starts.
"""

from __future__ import annotations

import importlib
import os
import random as real_random
import secrets
from collections.abc import Callable
from typing import Any

TORCH, PYTHON, NUMPY, ENTROPY = (
    "torch random state",
    "python random state",
    "numpy random state",
    "entropy",
)
#: of a process: the stream of that name
Streams = Callable[[str], real_random.Random]


def streams(seed: int, pid: int) -> Streams:
    """Those of process ``pid`` in a run with ``seed``; what
    :meth:`squall.sim.world.scheduler.SimRuntime.random` gives for the same names."""
    return lambda name: real_random.Random(repr((seed, name, pid)))


def torch_seed(process: Streams) -> int:
    return process(TORCH).getrandbits(63)


def python_seed(process: Streams) -> int:
    return process(PYTHON).getrandbits(256)


def numpy_seed(process: Streams) -> int:
    return process(NUMPY).getrandbits(32)


def of_python(inst: real_random.Random) -> dict[str, Any]:
    """The functions of module ``random`` over another generator than its own."""
    found = {
        name: getattr(inst, name)
        for name in real_random.__all__
        if getattr(getattr(real_random, name), "__self__", None) is _SHARED
    }
    return {**found, "_inst": inst}


#: the generator of module ``random`` itself
_SHARED: Any = vars(real_random)["_inst"]


def of_numpy(entropy: Callable[[], real_random.Random], seed: int) -> dict[str, Any]:
    """The functions of module ``numpy.random`` over a generator that begins with ``seed``, and what
    takes a seed there, from ``entropy`` if it is given none."""
    real: Any = importlib.import_module("numpy.random")
    shared = real.mtrand._rand
    own = real.RandomState(seed)

    class RandomState(real.RandomState):  # type: ignore[misc]
        def __init__(self, seed: Any = None) -> None:
            super().__init__(entropy().getrandbits(32) if seed is None else seed)

    RandomState.__module__ = "numpy.random"
    make_rng = real.default_rng

    def default_rng(seed: Any = None) -> Any:
        return make_rng(entropy().getrandbits(128) if seed is None else seed)

    found: dict[str, Any] = {
        name: getattr(own, name)
        for name in dir(real)
        if getattr(getattr(real, name), "__self__", None) is shared
    }
    # These two are plain functions over the shared state.
    found["seed"] = own.seed
    found["ranf"] = found["sample"] = own.random_sample
    return {**found, "RandomState": RandomState, "default_rng": default_rng}


def drawing_from(entropy: Callable[[], real_random.Random]) -> tuple[Any, Any, Any]:
    """``os.urandom``, and the classes of module ``random``: what the operating system's entropy is comes from that."""

    def urandom(size: int, /) -> bytes:
        if size < 0:
            raise ValueError("negative argument not allowed")
        return entropy().randbytes(size)

    class Random(real_random.Random):
        def seed(self, a: Any = None, version: int = 2) -> None:
            super().seed(entropy().getrandbits(256) if a is None else a, version)

        def __reduce__(self) -> tuple[Any, ...]:
            return real_random.Random, (), self.getstate()

    class SystemRandom(real_random.SystemRandom):
        # As the real one, whose own source stays as it is: numpy draws from that, too, whenever a
        # generator is made, and throws it away where there is a seed.
        def random(self) -> float:
            return float(int.from_bytes(urandom(7), "big") >> 3) * 2.0**-53

        def getrandbits(self, k: int, /) -> int:
            if k < 0:
                raise ValueError("number of bits must be non-negative")
            size = (k + 7) // 8
            return int.from_bytes(urandom(size), "big") >> (size * 8 - k)

        def randbytes(self, n: int) -> bytes:
            return urandom(n)

    for kind in (Random, SystemRandom):
        kind.__module__, kind.__qualname__ = "random", kind.__name__
    return urandom, Random, SystemRandom


def install(seed: int, pid: int) -> None:
    """Let this process, a real one, draw as process ``pid`` of a run with ``seed``."""
    import torch

    # It draws from the operating system when it is imported: before that is replaced, so that it
    # does not matter who has imported it.
    try:
        numpy_random: Any = importlib.import_module("numpy.random")
    except ModuleNotFoundError:
        numpy_random = None  # torch works without it, and so may a script
    process = streams(seed, pid)
    source = process(ENTROPY)
    urandom, Random, SystemRandom = drawing_from(lambda: source)  # noqa: N806
    vars(os)["urandom"] = urandom
    own = of_python(Random(python_seed(process)))
    vars(real_random).update(own, Random=Random, SystemRandom=SystemRandom)
    system = SystemRandom()
    vars(secrets).update(
        _sysrand=system,
        SystemRandom=SystemRandom,
        randbits=system.getrandbits,
        choice=system.choice,
    )
    if torch.version.cuda or torch.version.hip:
        torch.manual_seed(torch_seed(process))
    else:  # the same without a traceback for devices that there are not
        torch.default_generator.manual_seed(torch_seed(process))
    if numpy_random is not None:
        vars(numpy_random).update(of_numpy(lambda: source, numpy_seed(process)))
