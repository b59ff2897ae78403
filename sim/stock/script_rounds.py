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
from squall.sim.scripts.rounds import AGAIN, ASKED, NAME, ROUNDS, Polling, code_of
from squall.sim.world.polling_tasks import Looks

#: packages whose loops do not wait for anything that is simulated
_NOT_COUNTED = sys.stdlib_module_names | SHARED.keys()


#: of this process, if a script runs in it
counter: Counter | None = None


class Counter(threading.local):
    """Counts, for each thread, what it does again and again: from :data:`ROUNDS` times without a wait on it
    looks, and time passes."""

    def __init__(self, here: Here) -> None:
        self._here = here
        #: so often it may be done until it is looked at, and how often it was done
        self._left, self._rounds = ROUNDS, 0
        self._looks = Looks()
        #: when the last look had ended
        self._ended_s = -1.0

    def count(self) -> None:
        """Once more, in the frame that calls the caller."""
        self._left -= 1
        self._rounds += 1
        if self._left > 0:
            return
        now_s = self._here.now()
        if now_s != self._ended_s:  # it has waited, perhaps in between
            self._ended_s, self._looks.count, self._left, self._rounds = now_s, 0, ROUNDS, 0
            return
        step_s = self._looks.again(now_s, patience=1)
        frame = sys._getframe(2)
        polling = Polling(frame.f_code.co_filename, frame.f_lineno, self._rounds)
        self._here.ask("look", step_s, polling)
        self._ended_s, self._left = self._here.now(), AGAIN

    def asked(self) -> None:
        """Somebody else was asked, and has answered at once."""
        self._left -= ASKED


def install(here: Here) -> None:
    """For all modules that are imported from now on, but for those of Python and torch."""
    global counter
    counter = rounds = Counter(here)
    vars(builtins)[NAME] = lambda: rounds.count()
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
        return code_of(self)
