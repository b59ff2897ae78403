"""``sys.modules`` of one simulated process. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace


class LoadedModules(MutableMapping[str, Any]):
    """``sys.modules`` as a process sees it: its own modules in front of the real ones."""

    def __init__(self, space: ModuleSpace) -> None:
        self._space = space

    def __getitem__(self, name: str) -> Any:
        space = self._space
        module = space.loaded.get(name)
        if module is not None:
            return module
        if name not in sys.modules:
            raise KeyError(name)
        replaced = space.replaced_submodule(name)
        return replaced if replaced is not None else sys.modules[name]

    def __setitem__(self, name: str, module: Any) -> None:
        self._space.add(name, module)

    def __delitem__(self, name: str) -> None:
        if name not in self._space.loaded:
            raise KeyError(name)
        self._space.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*sys.modules, *self._space.loaded]))

    def __len__(self) -> int:
        return len(dict.fromkeys([*sys.modules, *self._space.loaded]))

    def __contains__(self, name: object) -> bool:
        return name in self._space.loaded or name in sys.modules

    def copy(self) -> dict[str, Any]:
        return dict(self)
