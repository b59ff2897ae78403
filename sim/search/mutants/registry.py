"""All planted bugs: the ``MUTANTS`` of every module of properties/planted, in the order of their ``RANK``, and of
properties/planted/trainings, which are those of process groups.

They are with the tests, which are not installed: where squall is, there are none.
"""

from __future__ import annotations

from importlib.util import find_spec

from squall.model.discovery import modules_in
from squall.sim.search.mutants.mutant import Mutant

#: the packages of their modules
PLANTED = "squall.properties.planted"
_OF_GROUPS = f"{PLANTED}.trainings"
#: the rank of a module that declares none: behind all that do
_LAST = 1_000_000


def _families(package: str) -> dict[str, tuple[Mutant, ...]]:
    modules = [] if find_spec(PLANTED) is None else modules_in(package)
    modules.sort(key=lambda module: (getattr(module, "RANK", _LAST), module.__name__))
    return {module.__name__.rpartition(".")[2]: module.MUTANTS for module in modules}


def _by_name(families: dict[str, tuple[Mutant, ...]]) -> dict[str, Mutant]:
    return {mutant.name: mutant for mutants in families.values() for mutant in mutants}


#: by the name of their module: those of programs, and those of process groups
FAMILIES = _families(PLANTED)
FAMILIES_OF_GROUPS = _families(_OF_GROUPS)

#: the same by name, and all of them
MUTANTS = _by_name(FAMILIES)
MUTANTS_OF_GROUPS = _by_name(FAMILIES_OF_GROUPS)
ALL_MUTANTS = MUTANTS | MUTANTS_OF_GROUPS
#: where they are listed, for who has named one that is not known
LISTED = "squall mutants --list shows them" if MUTANTS else "they are in a checkout of squall alone"
