"""Which installed packages a simulated process executes for itself.

Between real processes nothing of a library is shared: its state, its threads, its clock are a process's own.
Here all processes are one, so each of them executes the packages that it imports, as it does the script, but
for a short list, and for packages with compiled modules: an interpreter can load those once, and what keeps
classes or state of the Python code around them needs that to be there once too. Where a compiled package is
about groups of processes, its Python code is executed for each of them all the same. Imports no torch.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

from squall.real.own_files import PACKAGE

#: where a package lies; None if it is not there
Find = Callable[[str], ModuleSpec | None]

#: packages that are shared whatever they import, each with the reason
SHARED = {
    "_pytest": "it runs the tests",
    "functorch": "a part of torch",
    "greenlet": "simulated threads are made of it",
    "hypothesis": "it runs the tests",
    "numpy": "compiled; its random numbers are each process's own",
    "pluggy": "it runs the tests",
    "pytest": "it runs the tests",
    "simpy": "virtual time is made of it",
    PACKAGE.name: "the simulation itself",
    "torch": "its kernels and operators are; what of it is simulated is replaced by name",
    "torchgen": "a part of torch",
    "mpmath": "torch computes with it",
    "sympy": "torch computes with it",
    "typing_extensions": "it keeps no state",
}
#: what a package with compiled modules imports that is about groups of processes
_GROUPS = ("torch.distributed", "torch.multiprocessing", "torch.futures")
_WORTH_PARSING = re.compile(rb"\btorch\b[^\n]*\b(?:distributed|multiprocessing|futures)\b")
#: folders of a package that nobody imports
_NOT_OF_IT = ("__pycache__", "test", "tests")


class PackageRole(NamedTuple):
    """What becomes of an installed package, and why."""

    package: str
    simulated: bool
    reason: str


@dataclass(frozen=True)
class _Files:
    """The files of a package."""

    #: what the names of places are told without
    root: str
    sources: tuple[str, ...]
    #: the name of one of its compiled modules, if there is one
    compiled: str | None


class Installed:
    """Decides, for the packages that processes import. ``simulate`` and ``share`` overrule it, by package."""

    def __init__(self, simulate: Collection[str] = (), share: Collection[str] = ()) -> None:
        self._overruled = dict.fromkeys(simulate, True) | dict.fromkeys(share, False)
        #: what has been decided, in the order in which it was asked
        self.verdicts: dict[str, PackageRole] = {}

    def simulated(self, package: str, find: Find) -> bool:
        """Whether each process executes this package for itself."""
        known = self.verdicts.get(package)
        if known is None:
            spec = find(package)
            if spec is None:  # a script may put it there later
                return False
            known = self.verdicts[package] = PackageRole(package, *self._decide(package, spec))
        return known.simulated

    def _decide(self, package: str, spec: ModuleSpec) -> tuple[bool, str]:
        overruled = self._overruled.get(package)
        if overruled is not None:
            return overruled, "--simulate" if overruled else "--share"
        if package in SHARED:
            return False, SHARED[package]
        places = _places(spec)
        if not places:
            return False, "it has no source"
        files = _files(places, _stamps(places))
        if files.compiled is None:
            return True, "it is Python alone"
        used = _about_groups(files)
        if used is not None:
            return True, f"imports {used}; {files.compiled}, which is compiled, is shared"
        return False, f"{files.compiled} is compiled: what it keeps, all processes see"


def is_compiled(spec: ModuleSpec) -> bool:
    return (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))


def installed_spec(name: str, path: Collection[str]) -> ModuleSpec | None:
    """Where a package of that name lies among entries of ``sys.path``, or where an installer has linked it."""
    found = PathFinder.find_spec(name, list(path))
    for finder in sys.meta_path:
        if found is None and type(finder).__module__.startswith("__editable__"):
            found = finder.find_spec(name, None)
    return found


def _places(spec: ModuleSpec) -> tuple[str, ...]:
    """The folders of a package, of which a namespace may have several, or the file of a module."""
    if spec.submodule_search_locations is not None:
        return tuple(spec.submodule_search_locations)
    origin = spec.origin or ""
    return (origin,) if origin.endswith((".py", *EXTENSION_SUFFIXES)) else ()


def _stamps(places: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(os.stat(place).st_mtime_ns for place in places if os.path.exists(place))


@cache
def _files(places: tuple[str, ...], stamps: tuple[int, ...]) -> _Files:
    """``stamps``: when the folders were written, for the cache."""
    found = [place for place in places if os.path.isfile(place)]
    for place in places:
        for folder, folders, names in os.walk(place):
            folders[:] = sorted(name for name in folders if name not in _NOT_OF_IT)
            found += [os.path.join(folder, name) for name in sorted(names)]
    compiled = (os.path.basename(f) for f in found if f.endswith(tuple(EXTENSION_SUFFIXES)))
    root = f"{os.path.dirname(places[0])}/"
    return _Files(root, tuple(file for file in found if file.endswith(".py")), next(compiled, None))


def _about_groups(files: _Files) -> str | None:
    """A module about groups of processes that a package imports, by full name, with the place."""
    for file in files.sources:
        source = Path(file).read_bytes()
        if _WORTH_PARSING.search(source):
            for name, line in _imports(source):
                if name.startswith(_GROUPS):
                    return f"{name} ({file.removeprefix(files.root)}:{line})"
    return None


def _imports(source: bytes) -> Iterator[tuple[str, int]]:
    """What a file imports, by full name, with the line."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for each in node.names:
                yield f"{node.module}.{each.name}", node.lineno
