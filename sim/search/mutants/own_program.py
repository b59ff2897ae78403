"""Programs of planted bugs that none of the small worlds shows: what random search found, made small,
without the order and the faults that it found.

Each is a scenario file in properties/planted/programs, by the name of the bug. ``squall mutants --explore`` explores
it after the worlds, in every order and with each fault.
"""

from __future__ import annotations

from importlib.resources import files

from squall.sim.explore.worlds import SmallWorld
from squall.sim.scenarios.file import load_scenario
from squall.sim.search.mutants.registry import PLANTED

#: what such a world is called
OWN = "its own program"
#: real seconds for which it is explored in each grain, and with each fault
_SECONDS, _FAULTY_SECONDS = 12.0, 3.0


def own_program(mutant: str) -> list[SmallWorld]:
    """The program that is kept for a planted bug, if there is one."""
    file = files(PLANTED) / "programs" / f"{mutant}.json"
    if not file.is_file():
        return []
    scenario = load_scenario(file.read_text(encoding="utf-8"))
    return [
        SmallWorld(
            OWN,
            "what random search found, made small, without its order and its faults",
            scenario,
            seconds=_SECONDS,
            faulty_seconds=_FAULTY_SECONDS,
        )
    ]
