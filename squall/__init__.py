"""Deterministic simulation and verification of distributed autograd.

    run = squall.run(step, workers=3, seed=7)       each rank calls step(rank); docs/library.md
    @squall.test(workers=3, seeds=100)              a test that pytest runs; docs/howto/tests.md

What :data:`__all__` names is public, and everything else may change. ``squall.real`` is the system
under test, ``squall.model`` what must be true, ``squall.sim`` the world that it runs in, and
``squall.properties`` what tests share. Importing this imports no torch: a name is loaded where it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall import faults as faults
    from squall import network as network
    from squall.sim.library.run import Failed as Failed
    from squall.sim.library.run import Run as Run
    from squall.sim.library.run import run as run
    from squall.sim.library.search import diff as diff
    from squall.sim.library.search import explore as explore
    from squall.sim.library.search import fuzz as fuzz
    from squall.sim.library.search import replay as replay
    from squall.sim.library.search import shrink as shrink
    from squall.sim.library.search import why as why
    from squall.sim.library.testing import test as test
    from squall.sim.scripts.reference import reference as reference

    __version__: str

__all__ = [
    "Failed",
    "Run",
    "__version__",
    "diff",
    "explore",
    "faults",
    "fuzz",
    "network",
    "reference",
    "replay",
    "run",
    "shrink",
    "test",
    "why",
]

#: in which module of sim/ each name stands; those that are not here are modules of this package
_PLACES = {
    "Failed": "library.run",
    "Run": "library.run",
    "diff": "library.search",
    "explore": "library.search",
    "fuzz": "library.search",
    "reference": "scripts.reference",
    "replay": "library.search",
    "run": "library.run",
    "shrink": "library.search",
    "test": "library.testing",
    "why": "library.search",
}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("squall")
    except PackageNotFoundError:  # a checkout that nobody has installed
        return "0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'squall' has no attribute {name!r}")
    if name == "__version__":  # which is looked up in files
        globals()[name] = _version()
        return globals()[name]
    from squall.sim.world.garbage import no_collections

    place = _PLACES.get(name)
    with no_collections():
        module = import_module(f"squall.{name}" if place is None else f"squall.sim.{place}")
    globals()[name] = module if place is None else getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
