"""All planted bugs: the ``MUTANTS`` of every module of properties/planted, in the order of their ``RANK``.

They are with the tests, which are not installed: where squall is, there are none.
"""

from __future__ import annotations

from importlib.util import find_spec

from squall.model.discovery import modules_in
from squall.sim.search.mutants.mutant import Mutant

#: the package of their modules
PLANTED = "squall.properties.planted"
#: the rank of a module that declares none: behind all that do
_LAST = 1_000_000


def _families() -> dict[str, tuple[Mutant, ...]]:
    modules = [] if find_spec(PLANTED) is None else modules_in(PLANTED)
    modules.sort(key=lambda module: (getattr(module, "RANK", _LAST), module.__name__))
    return {module.__name__.rpartition(".")[2]: module.MUTANTS for module in modules}


#: by the name of their module
FAMILIES = _families()

#: all of them by name
MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant for mutants in FAMILIES.values() for mutant in mutants
}
#: where they are listed, for who has named one that is not known
LISTED = "squall mutants --list shows them" if MUTANTS else "they are in a checkout of squall alone"
