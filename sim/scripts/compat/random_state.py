"""Random state of a simulated process: ``random``, ``numpy.random`` and ``os.urandom``.

A process that never sets a seed draws from streams of the run's seed (:mod:`squall.sim.scripts.generators`), so a
run can be repeated. Torch's random state is swapped with the process; see
:mod:`squall.sim.world.isolation`. Imports no torch.
"""

from __future__ import annotations

import importlib
import random as real_random
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.sim.scripts.compat.module_facades import Facade
from squall.sim.scripts.compat.owner import current_owner
from squall.sim.scripts.compat.signatures import builtin
from squall.sim.scripts.generators import (
    ENTROPY,
    Streams,
    drawing_from,
    numpy_seed,
    of_numpy,
    of_python,
    python_seed,
)

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace


def _streams() -> Streams:
    """The streams of the current process."""
    worker = current_owner()
    process = worker.locals.get("process")
    if process is None:
        return lambda name: worker.runtime.random(name, worker.name)
    streams: Streams = process.stream
    return streams


def entropy() -> real_random.Random:
    """What the operating system's entropy is for the current process."""
    worker = current_owner()
    stream: real_random.Random | None = worker.locals.get(ENTROPY)
    if stream is None:
        stream = worker.locals[ENTROPY] = _streams()(ENTROPY)
    return stream


@contextmanager
def entropy_kept() -> Iterator[None]:
    """What the current process draws from its entropy while it is entered changes nothing later."""
    source = entropy()
    before = source.getstate()
    yield
    source.setstate(before)


urandom, Random, SystemRandom = drawing_from(entropy)
urandom.__module__, urandom.__qualname__ = __name__, "urandom"  # found here by whoever unpickles it
urandom = builtin(urandom)


def make_random(space: ModuleSpace) -> ModuleType:
    replaced: dict[str, Any] = of_python(Random(python_seed(_streams())))
    replaced.update(Random=Random, SystemRandom=SystemRandom, _urandom=urandom)
    return Facade(space, real_random, replaced)


def make_numpy_random(space: ModuleSpace) -> ModuleType:
    replaced = of_numpy(entropy, numpy_seed(_streams()))
    replaced["default_rng"] = builtin(replaced["default_rng"])
    return Facade(space, importlib.import_module("numpy.random"), replaced)
