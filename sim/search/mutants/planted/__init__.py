"""Planted bugs, a module for each part of the system; see docs/mutants.md."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.planted import (
    agents,
    engine,
    interface,
    nodes,
    passes,
    recording,
    rrefs,
    services,
)

#: the modules, in the order of the table
FAMILIES = {
    "recording": recording.MUTANTS,
    "passes": passes.MUTANTS,
    "nodes": nodes.MUTANTS,
    "rrefs": rrefs.MUTANTS,
    "agents": agents.MUTANTS,
    "interface": interface.MUTANTS,
    "engine": engine.MUTANTS,
    "services": services.MUTANTS,
}

#: all of them by name
MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant for mutants in FAMILIES.values() for mutant in mutants
}
