"""Each simulated process's own modules: user code is executed once per process.

:class:`ModuleSpace` is what ``import`` means inside a process. A user module gets a private copy
(executed from one compiled code object, with a private ``__builtins__`` whose ``__import__`` leads
back here); some standard modules are executed from their source per process, because
they build on threads and clocks; others are replaced or fronted by a :class:`~.facades.Facade`;
everything else is the real module. Imports no torch.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from squall.sim.scripts import rounds
from squall.sim.scripts.compat.polling import counting

if TYPE_CHECKING:
    from squall.real.runtime import Event
    from squall.sim.scripts.compat.program import ScriptFiles
    from squall.sim.world.primitives import SimTask
    from squall.sim.world.scheduler import SimRuntime

#: makes one process's replacement of a module
Substitute = Callable[["ModuleSpace"], ModuleType]

MAIN = "__main__"
CHILD_MAIN = "__mp_main__"
#: squall's own package: never shadowed in the real ``sys.modules``
_OWN = "squall"


class ModuleSpace:
    """The modules of one process.

    ``substitutes`` makes replacements by full module name. ``private`` names library modules that
    are executed from their source for each process, submodules included.
    """

    def __init__(
        self,
        program: ScriptFiles,
        runtime: SimRuntime,
        *,
        substitutes: Mapping[str, Substitute],
        private: tuple[str, ...] = (),
        process: Any = None,
    ) -> None:
        self.program = program
        self.runtime = runtime
        #: the simulated process this belongs to, for substitutes
        self.process = process
        self.path = program.path_of(None)
        self._substitutes = substitutes
        self._private = private
        self._private_prefixes = tuple(f"{name}." for name in private)
        #: everything imported so far, real modules included
        self.loaded: dict[str, ModuleType] = {}
        #: the modules executed for this process alone
        self.own: dict[str, ModuleType] = {}
        #: those of ``own`` that ``sys.modules`` shows while the process runs
        self.shown: dict[str, ModuleType] = {}
        self._loading: dict[str, tuple[SimTask, Event]] = {}
        self._owned: dict[str, bool] = {}
        self.builtins = ModuleType("builtins")
        self.builtins.__dict__.update(builtins.__dict__)
        self.builtins.__dict__["__import__"] = self.import_
        self.builtins.__dict__[rounds.NAME] = counting(runtime)
        self.loaded["builtins"] = self.builtins

    # -- squall.real.worker.ModuleSpace ------------------------------------------------------------

    def owns(self, module: str) -> bool:
        """Whether a module of that name is, or would be, this process's own copy."""
        known = self._owned.get(module)
        if known is None:
            known = module in self.own or self._would_own(module)
            if known or module in self.loaded:
                self._owned[module] = known
        return known

    def find(self, module: str, qualname: str) -> Any:
        """The thing of that name in this process's copy of the module.

        Raises ModuleNotFoundError or AttributeError as unpickling by name does.
        """
        if module == CHILD_MAIN and module not in self.own:
            module = MAIN
        found: Any = self.load(module)
        for name in qualname.split("."):
            if name == "<locals>":
                raise AttributeError(f"Can't get local attribute {qualname!r} on {found!r}")
            try:
                found = getattr(found, name)
            except AttributeError:
                raise AttributeError(
                    f"Can't get attribute {qualname!r} on {self.load(module)!r}"
                ) from None
        return found

    def _would_own(self, name: str) -> bool:
        if name in (MAIN, CHILD_MAIN) or self._is_private(name):
            return True
        if name in self._substitutes or name.partition(".")[0] in sys.builtin_module_names:
            return False
        return self._find_user(name) is not None

    def is_library(self, name: str) -> bool:
        """Whether a module of this process's own is a library's, not the user's."""
        return self._is_private(name) or name in self._substitutes

    # -- import -----------------------------------------------------------------------------

    def import_(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> ModuleType:
        """``builtins.__import__`` of this process."""
        if level > 0:
            full = _resolve(name, globals or {}, level)
        elif not isinstance(name, str):
            raise TypeError("module name must be a string")
        elif not name:
            raise ValueError("Empty module name")
        else:
            full = name
        module = self.load(full)
        if not fromlist:
            if level > 0:
                # `import_("b.c", level=1)` gives the part before the first dot, as Python does.
                head = full[: len(full) - len(name) + len(name.partition(".")[0])]
                return self.load(head) if name else module
            return self.load(name.partition(".")[0]) if "." in name else module
        if hasattr(module, "__path__"):
            self._import_names(module, fromlist)
        elif full in self._loading:
            self._bind_loaded(full, module, fromlist)
        return module

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """``importlib.import_module`` of this process."""
        if name.startswith("."):
            name = importlib.util.resolve_name(name, package)
        return self.load(name)

    def reload(self, module: ModuleType) -> ModuleType:
        """``importlib.reload``: executes a private copy again, in the same module."""
        name = module.__spec__.name if module.__spec__ is not None else module.__name__
        if self.own.get(name) is not module or module.__spec__ is None:
            return module if name in self._substitutes else importlib.reload(module)
        code = self._code(module.__spec__)
        if code is not None:
            exec(code, module.__dict__)
        return self.loaded[name]

    def load(self, name: str) -> ModuleType:
        """The module of that full name, imported if it is not yet. Raises as ``import`` does."""
        module = self.loaded.get(name)
        if module is not None:
            if self._loading:
                self._wait_until_loaded(name)
            return module
        parent_name, _, child = name.rpartition(".")
        parent = self.load(parent_name) if parent_name else None
        module = self.loaded.get(name)  # the parent may have imported it
        if module is None:
            module = self._load_new(name, parent)
        if parent is not None and (
            parent_name in self.own
            # A name that the package gives to something else stays (torch.multiprocessing.spawn).
            or (self._is_replaced(name) and child not in vars(parent))
        ):
            setattr(parent, child, module)
        return module

    def replaced_submodule(self, name: str) -> ModuleType | None:
        """The module of that name if it is one that differs from the real one for this process."""
        parent, _, _ = name.rpartition(".")
        if parent in self._substitutes and self._is_private(parent):
            # A facade among modules that are executed from their source.
            return self.load(name) if name in self._substitutes else None
        return self.load(name) if self._is_replaced(name) else None

    def execute_library(self, name: str) -> ModuleType:
        """Execute an installed module for this process."""
        program = self.program
        return self.execute(name, program.library_spec(name), program.library_code(name))

    def execute(self, name: str, spec: ModuleSpec, code: CodeType | None = None) -> ModuleType:
        """Execute a private copy of a module and take it into the process."""
        module = importlib.util.module_from_spec(spec)
        module.__dict__["__builtins__"] = self.builtins.__dict__
        self.add(name, module)
        task = self.runtime.running
        done = self.runtime.event(f"the import of {name}")
        self._loading[name] = (task, done)
        try:
            if code is None:
                code = self._code(spec)
            if code is not None:
                exec(code, module.__dict__)
        except BaseException:
            self.discard(name)
            raise
        finally:
            del self._loading[name]
            done.set()
        # A module may put something else in its own place.
        return self.loaded.get(name, module)

    def add(self, name: str, module: ModuleType) -> None:
        """Take in a module of this process's own."""
        self.loaded[name] = self.own[name] = module
        self._owned[name] = True
        if self._may_show(name, module):
            self.shown[name] = sys.modules[name] = module

    def discard(self, name: str) -> None:
        self.loaded.pop(name, None)
        self.own.pop(name, None)
        if self.shown.pop(name, None) is not None:
            self._hide(name)

    def show(self) -> None:
        """Let ``sys.modules`` show this process's copies."""
        if self.shown:
            sys.modules.update(self.shown)

    def hide(self) -> None:
        """Put back what was there outside the simulation."""
        for name in self.shown:
            self._hide(name)

    def _hide(self, name: str) -> None:
        outside = self.program.outside.get(name)
        if outside is not None:
            sys.modules[name] = outside
        else:
            sys.modules.pop(name, None)

    # -- inside -----------------------------------------------------------------------------

    def _may_show(self, name: str, module: ModuleType) -> bool:
        """Whether ``sys.modules`` may show the private copy without misleading library code: where there is
        no other one outside, or the same one, of an installed package."""
        if name in (MAIN, CHILD_MAIN) or (self._is_private(name) and name.startswith("torch.")):
            return True
        head = name.partition(".")[0]
        if head == _OWN or self._is_private(name):
            return False
        outside = self.program.outside.get(name)
        if outside is None:
            return True
        installed = self.program.installed
        verdict = None if installed is None else installed.verdicts.get(head)
        file = getattr(module, "__file__", None)
        return (
            verdict is not None and file is not None and file == getattr(outside, "__file__", None)
        )

    def _is_replaced(self, name: str) -> bool:
        return name in self._substitutes or self._is_private(name)

    def _is_private(self, name: str) -> bool:
        return name in self._private or name.startswith(self._private_prefixes)

    def _load_new(self, name: str, parent: ModuleType | None) -> ModuleType:
        if name in sys.builtin_module_names and name not in self._substitutes:
            return self._real(name)
        if parent is None:
            # The user's own directories come first, as in sys.path.
            spec = self._find_user(name)
            if spec is not None and name not in sys.builtin_module_names:
                return self.execute(name, spec)
        substitute = self._substitutes.get(name)
        if substitute is not None:
            module = substitute(self)
            self.loaded[name] = module
            return module
        if self._is_private(name):
            return self.execute_library(name)
        if parent is not None:
            spec = self._find_user(name, parent)
            if spec is not None:
                return self.execute(name, spec)
        return self._real(name)

    def _real(self, name: str) -> ModuleType:
        module = importlib.import_module(name)
        self.loaded[name] = module
        return module

    def _find_user(self, name: str, parent: ModuleType | None = None) -> ModuleSpec | None:
        parent_name, _, _ = name.rpartition(".")
        if not parent_name:
            return self.program.find(name, self.path)
        if parent is None:
            if not self.owns(parent_name) or self._is_private(parent_name):
                return None
            parent = self.loaded.get(parent_name)
            if parent is None:
                spec = self._find_user(parent_name)
                places = spec.submodule_search_locations if spec is not None else None
                return self.program.find(name, places) if places else None
        if parent_name not in self.own:
            return None
        return self.program.find(name, getattr(parent, "__path__", ()))

    def _code(self, spec: ModuleSpec) -> CodeType | None:
        """What to execute for a module; None for a package that is only a directory."""
        if self._is_private(spec.name):
            return self.program.library_code(spec.name)
        if isinstance(spec.loader, SourceFileLoader) and spec.origin is not None:
            installed = not self.program.is_user_entry(os.path.dirname(spec.origin))
            return self.program.code(spec.origin, spec.loader if installed else None)
        get_code = getattr(spec.loader, "get_code", None)
        return get_code(spec.name) if get_code is not None and spec.origin is not None else None

    def _import_names(self, package: ModuleType, names: Any) -> None:
        for name in names:
            if name == "*":
                public = getattr(package, "__all__", None)
                if public is not None:
                    self._import_names(package, [each for each in public if each != "*"])
            elif not hasattr(package, name):
                full = f"{package.__name__}.{name}"
                try:
                    self.load(full)
                except ModuleNotFoundError as error:
                    if error.name != full:
                        raise
                else:
                    if not hasattr(package, name):
                        setattr(package, name, self.loaded[full])

    def _bind_loaded(self, full: str, module: ModuleType, names: Any) -> None:
        """For modules that import one another: what is loaded counts, bound or not."""
        for name in names:
            submodule = self.loaded.get(f"{full}.{name}")
            if submodule is not None and not hasattr(module, name):
                setattr(module, name, submodule)

    def _wait_until_loaded(self, name: str) -> None:
        loading = self._loading.get(name)
        if loading is not None and loading[0] is not self.runtime.running:
            loading[1].wait()


def _resolve(name: str, globals: Mapping[str, Any], level: int) -> str:
    """The full name of a relative import."""
    package = globals.get("__package__")
    if package is None:
        spec = globals.get("__spec__")
        if spec is not None:
            package = spec.parent
        else:
            package = globals.get("__name__", "")
            if "__path__" not in globals:
                package = package.rpartition(".")[0]
    if not package:
        raise ImportError("attempted relative import with no known parent package")
    parts = package.rsplit(".", level - 1)
    if len(parts) < level:
        raise ImportError("attempted relative import beyond top-level package")
    return f"{parts[0]}.{name}" if name else str(parts[0])
