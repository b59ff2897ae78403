"""Inside a worker process: rounds of the ``while`` loops of a script, and of all that it imports, are
counted.

See :mod:`squall.sim.scripts.rounds`.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

from squall.real.native.here import Here
from squall.sim.scripts.installed import SHARED
from squall.sim.scripts.rounds import NAME, ROUNDS, Polling, compiled, has_loops
from squall.sim.world.looks import step_s

#: packages whose loops do not wait for anything that is simulated
_NOT_COUNTED = sys.stdlib_module_names | SHARED.keys()


class _Rounds(threading.local):
    """Of one thread: rounds since time last passed, by what the clock then said, and how often it had
    looked since it waited for anything else."""

    count = 0
    at_s = -1.0
    looks = 0


def install(here: Here) -> None:
    """For all modules that are imported from now on, but for those of Python and torch."""
    rounds = _Rounds()

    def another_round() -> None:
        rounds.count += 1
        if rounds.count < ROUNDS:
            return
        rounds.count = 0
        now_s = here.now()
        if now_s != rounds.at_s:  # it has waited, perhaps in this very loop
            rounds.at_s, rounds.looks = now_s, 0
            return
        rounds.looks += 1
        frame = sys._getframe(1)
        place = Polling(frame.f_code.co_filename, frame.f_lineno, ROUNDS * rounds.looks)
        here.ask("look", step_s(rounds.looks, patience=1), place)
        rounds.at_s = here.now()

    vars(builtins)[NAME] = another_round
    sys.meta_path.insert(sys.meta_path.index(PathFinder), _Finder)


class _Finder:
    """Finds what Python finds."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if name.partition(".")[0] in _NOT_COUNTED or spec is None:
            return spec
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _Counted(spec.loader.name, spec.loader.path)
        return spec


class _Counted(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        source = self.get_data(self.path)
        return compiled(source, self.path) if has_loops(source) else super().get_code(fullname)
