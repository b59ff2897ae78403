"""The script and the user's code around it: found and compiled once for all processes."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

from squall.real.own_files import OWN_FILES, PACKAGE
from squall.sim.scripts.installed import Installed, installed_spec, is_compiled
from squall.sim.scripts.rounds import code_of, compiled

#: the entry of ``sys.path`` that squall itself is imported from
_ROOT = PACKAGE.resolve().parent
_LIBRARY = tuple(
    dict.fromkeys(
        str(Path(path).resolve())
        for key, path in sysconfig.get_paths().items()
        if key in ("stdlib", "platstdlib", "purelib", "platlib")
    )
)


class ScriptFiles:
    """The scripts that processes run, and where modules are looked for.

    ``scripts``: the text of each, by its file, which need not be there. ``search_path`` is what
    ``sys.path`` would be without the directory of a script. ``rewrite``: what becomes of the source of
    library modules that processes execute for themselves. ``installed`` says which packages they do that
    with; without it, none.
    """

    def __init__(
        self,
        scripts: Mapping[Path, str] | None = None,
        *,
        search_path: Sequence[str] | None = None,
        rewrite: Callable[[str], str] | None = None,
        installed: Installed | None = None,
    ) -> None:
        self._rewrite = rewrite
        self.installed = installed
        self._script_dirs = frozenset(_folder(script) for script in scripts or {})
        if search_path is None:
            # The first entry belongs to the command that runs the simulation, not to the script.
            search_path = [entry for entry in sys.path[1:] if entry]
        self.search_path = list(search_path)
        #: ``sys.modules`` outside the simulation
        self.outside = dict(sys.modules)
        self._codes: dict[str, CodeType] = {}
        for script, text in (scripts or {}).items():
            path = os.path.realpath(script)
            self._codes[path] = compiled(text, path)
            # Tracebacks quote it, and travel in messages.
            linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        #: (name, user entries) of library modules that no user module stands in front of
        self._elsewhere: set[tuple[str, tuple[str, ...]]] = set()
        self._user_entries: dict[str, bool] = {}

    @classmethod
    def of_libraries(cls, rewrite: Callable[[str], str] | None = None) -> ScriptFiles:
        """No script, and none of the user's modules: what is installed, and nothing else."""
        program = cls(rewrite=rewrite)
        program.search_path = [p for p in program.search_path if not program.is_user_entry(p)]
        return program

    def add(self, script: Path) -> None:
        """One more script, which a process has started another process on."""
        folder = _folder(script)
        self._script_dirs |= {folder}
        self._user_entries.pop(folder, None)

    def path_of(self, script: Path | None) -> list[str]:
        """What ``sys.path`` is in a process that runs this script: its directory comes first."""
        return [*([] if script is None else [_folder(script)]), *self.search_path]

    def code(self, path: str, loader: SourceFileLoader | None = None) -> CodeType:
        """The compiled source file, whose loops are counted. Raises what ``open`` or ``compile`` raise.

        ``loader``: that of an installed module, which keeps bytecode.
        """
        code = self._codes.get(path)
        if code is None:
            if loader is not None:
                code = _installed_code(loader, os.stat(path).st_mtime_ns)
            else:
                code = compiled(Path(path).read_bytes(), path)
            self._codes[path] = code
        return code

    def library_code(self, name: str) -> CodeType:
        """The code of an installed module, by its full name. Raises ImportError."""
        code = self._codes.get(f"<{name}>")
        if code is None:
            code = (
                _library_code(name)
                if self._rewrite is None
                else self._rewritten(self.library_spec(name))
            )
            self._codes[f"<{name}>"] = code
        return code

    def _rewritten(self, spec: ModuleSpec) -> CodeType:
        assert self._rewrite is not None
        if spec.origin is None or not spec.origin.endswith(".py"):
            return _loader_code(spec)
        # Whoever else would load it: pytest does with modules that are named as tests.
        source = Path(spec.origin).read_text(encoding="utf-8")
        return compile(self._rewrite(source), spec.origin, "exec", dont_inherit=True)

    def library_spec(self, name: str) -> ModuleSpec:
        return _library_spec(name)

    def find(self, name: str, path: Iterable[str]) -> ModuleSpec | None:
        """Where a module lies that each process executes for itself: the user's, or an installed one.

        ``path``: ``sys.path`` of a process, or that of the package it is in. None if it is shared, an
        extension module, or not there at all.
        """
        path = list(path)
        return self._find_user(name, path) or self._find_installed(name, path)

    def _find_installed(self, name: str, path: list[str]) -> ModuleSpec | None:
        head, _, rest = name.partition(".")
        if self.installed is None or head in sys.stdlib_module_names:
            return None
        places = [entry for entry in path if not self.is_user_entry(entry)]
        if not self.installed.simulated(head, partial(installed_spec, path=places)):
            return None
        spec = PathFinder.find_spec(name, places) if rest else installed_spec(name, places)
        return None if spec is None or is_compiled(spec) else spec

    def _find_user(self, name: str, path: list[str]) -> ModuleSpec | None:
        entries = tuple(entry for entry in path if self.is_user_entry(entry))
        if not entries or (name, entries) in self._elsewhere:
            return None
        spec = PathFinder.find_spec(name, entries)
        if spec is None:
            if name in self.outside:
                # A script may write a module and then import it, but not one of a library's.
                self._elsewhere.add((name, entries))
            return None
        if isinstance(spec.loader, ExtensionFileLoader):
            return None
        places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        if any(place.startswith(OWN_FILES) for place in places):
            return None
        return spec

    def is_user_entry(self, entry: str) -> bool:
        """Whether modules found there are the user's, and so private to a process."""
        known = self._user_entries.get(entry)
        if known is None:
            known = self._user_entries[entry] = self._is_user_entry(entry)
        return known

    def _is_user_entry(self, entry: str) -> bool:
        path = os.path.realpath(entry or ".")
        if path in self._script_dirs:
            return True
        return not (belongs_to_python(entry) or _is_installed_to(path))


def belongs_to_python(entry: str) -> bool:
    """Whether every process of this Python looks for modules there, whoever runs it."""
    return _belongs_to_python(os.path.abspath(entry or "."))


@lru_cache(maxsize=1024)
def _belongs_to_python(entry: str) -> bool:
    path = Path(entry).resolve()
    if path == _ROOT or "site-packages" in path.parts or "dist-packages" in path.parts:
        return True
    if path.suffix == ".zip":
        return True
    return any(path == Path(place) or Path(place) in path.parents for place in _LIBRARY)


def _is_installed_to(folder: str) -> bool:
    """Whether an installer has put packages there (``pip install --target``): most of those with
    compiled parts can be executed only once in an interpreter. A folder that is being worked on has
    an ``.egg-info`` at most."""
    return os.path.isdir(folder) and any(name.endswith(".dist-info") for name in os.listdir(folder))


@lru_cache(maxsize=4096)
def _installed_code(loader: SourceFileLoader, stamp: int) -> CodeType:
    """For all runs of this interpreter. ``stamp``: when the file was written, for the cache."""
    return code_of(loader) or compiled(loader.get_data(loader.path), loader.path)


def _folder(script: Path) -> str:
    return os.path.dirname(os.path.realpath(script))


@lru_cache(maxsize=4096)
def _library_spec(name: str) -> ModuleSpec:
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return spec


@lru_cache(maxsize=4096)
def _library_code(name: str) -> CodeType:
    """For all runs of this interpreter."""
    return _loader_code(_library_spec(name))


def _loader_code(spec: ModuleSpec) -> CodeType:
    get_code = getattr(spec.loader, "get_code", None)
    if get_code is None and spec.origin is not None and spec.origin.endswith(".py"):
        # Somebody else's loader, such as pytest's, of an ordinary source file.
        get_code = SourceFileLoader(spec.name, spec.origin).get_code
    code = get_code(spec.name) if get_code is not None else None
    if code is None:
        raise ImportError(f"module {spec.name!r} has no Python source", name=spec.name)
    return code  # type: ignore[no-any-return]
