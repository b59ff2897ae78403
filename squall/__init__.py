"""Deterministic simulation and verification of distributed autograd.

    run = squall.run(step, workers=3, seed=7)       each rank calls step(rank); docs/library.md
    @squall.test(workers=3, seeds=100)              a test that pytest runs; docs/pytest.md

What :data:`__all__` names is public, and everything else may change. ``squall.real`` is the system
under test, ``squall.model`` what must be true, ``squall.sim`` the world that it runs in, and
``squall.properties`` what tests share. Importing this imports no torch: a name is loaded where it is first used.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.sim.library.run import Failed as Failed
    from squall.sim.library.run import Run as Run
    from squall.sim.library.run import run as run

try:
    __version__ = version("squall")
except PackageNotFoundError:  # a checkout that nobody has installed
    __version__ = "0"

#: public names, and the modules that they stand in
_PLACES = {
    "Failed": "run",
    "Run": "run",
    "run": "run",
}

__all__ = ["Failed", "Run", "__version__", "run"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'squall' has no attribute {name!r}")
    module = import_module(f"squall.sim.library.{_PLACES[name]}")
    value = getattr(module, name, module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
