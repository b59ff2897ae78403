"""An exploration that is not over, as a file: what it has come to, and the choices still to make.

write_frontier(path, scenario, how, explored)
explored = read_frontier(path, scenario, how)        # to be given to explore() as ``since``
"""

from __future__ import annotations

import base64
import io
import pickle
from pathlib import Path
from typing import Any

from squall.model.events.run import Violation
from squall.sim.explore.execution import How
from squall.sim.explore.tree import Explored, Found, Frame, Outer, Subtree
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import name_of
from squall.sim.scenarios.store import write_synced

_VERSION = 4
#: what a file may be made of beside plain values, whoever has written it
_CLASSES = {
    (each.__module__, each.__qualname__): each
    for each in (Explored, Found, Frame, Outer, Subtree, Violation, frozenset, set)
}


class FrontierError(ValueError):
    """A file holds no exploration that can go on here: the text says why."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _CLASSES[module, name]


def write_frontier(path: Path, scenario: Scenario, how: How, explored: Explored) -> None:
    """Write down an exploration of ``scenario``. Raises OSError."""
    told = (_VERSION, name_of(scenario), how.grain, _rest(how), explored)
    write_synced(path, base64.b64encode(pickle.dumps(told)).decode())


def read_frontier(path: Path, scenario: Scenario, how: How) -> Explored:
    """What :func:`write_frontier` has written. Raises OSError, and FrontierError if it was of another
    scenario or explored otherwise, or is no such file."""
    try:
        data = base64.b64decode(path.read_bytes(), validate=True)
        version, name, grain, rest, explored = _Reader(io.BytesIO(data)).load()
    except (ValueError, LookupError, TypeError, EOFError, AttributeError, pickle.PickleError) as e:
        raise FrontierError(f"it holds no exploration: {e!r}") from None
    if version != _VERSION:
        raise FrontierError(f"it is of version {version}, expected {_VERSION}")
    if name != name_of(scenario):
        raise FrontierError("it is an exploration of another scenario")
    if (grain, rest) != (how.grain, _rest(how)):
        raise FrontierError(f"it is an exploration with --grain {grain}, or ordered otherwise")
    assert isinstance(explored, Explored)
    return explored


def _rest(how: How) -> tuple[object, ...]:
    return how.ordered, how.dependence
