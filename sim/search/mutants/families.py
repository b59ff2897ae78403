"""All planted bugs: the ``MUTANTS`` of every module of planted/, in the order of their ``RANK``."""

from __future__ import annotations

from squall.model.discovery import modules_in
from squall.sim.search.mutants.mutant import Mutant

#: the rank of a module that declares none: behind all that do
_LAST = 1_000_000


def _families() -> dict[str, tuple[Mutant, ...]]:
    modules = modules_in("squall.sim.search.mutants.planted")
    modules.sort(key=lambda module: (getattr(module, "RANK", _LAST), module.__name__))
    return {module.__name__.rpartition(".")[2]: module.MUTANTS for module in modules}


#: by the name of their module
FAMILIES = _families()

#: all of them by name
MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant for mutants in FAMILIES.values() for mutant in mutants
}
