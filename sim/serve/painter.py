"""Pages of runs, each drawn by a process of its own and kept while the server runs."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import threading
from collections.abc import Callable
from hashlib import blake2b
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from squall.sim.names import PlotlyFrom
from squall.sim.serve import work

#: real seconds that a page may take
PAGE_S = 4 * work.RUN_S
#: runs at a time, and how many more may wait for their turn
RUNS_MAX, WAITING_MAX = 2, 8
# The server has threads and must not be forked; what the other processes need is imported once.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([work.__name__])


class Painter:
    """Draws pages and keeps them, in a folder that ends with it. Threads may share one.

    ``scripts``: whatever script a scenario has, it may run. ``plotly``: where pages have plotly.js
    from.
    """

    def __init__(self, *, scripts: bool = False, plotly: PlotlyFrom = "inline") -> None:
        self.scripts = scripts
        self.plotly = plotly
        self._folder = tempfile.TemporaryDirectory(prefix="squall-serve-")
        self._processes: set[BaseProcess] = set()
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(RUNS_MAX)
        self._places = threading.BoundedSemaphore(RUNS_MAX + WAITING_MAX)

    def close(self) -> None:
        """What is being drawn is not any more."""
        for process in [*self._processes]:
            process.kill()
        self._folder.cleanup()

    def page(self, name: str, scenario: Path) -> str:
        """The page of a scenario. Raises ValueError with what went wrong."""
        return self._made(work.draw, scenario, name, self.plotly)

    def kept_page(self, name: str, scenario: Path) -> str | None:
        """The page of a scenario, if it has been drawn; this runs nothing."""
        file = self._file(work.draw, scenario, name, self.plotly)
        return file.read_text(encoding="utf-8") if file.exists() else None

    def compare(self, one: Path, other: Path) -> dict[str, Any]:
        """Where two runs part, as :func:`squall.sim.serve.work.compare` says. Raises ValueError."""
        found: dict[str, Any] = json.loads(self._made(work.compare, one, other))
        return found

    def kept_comparison(self, one: Path, other: Path) -> dict[str, Any] | None:
        """Where two runs part, if they have been compared; this runs nothing."""
        file = self._file(work.compare, one, other)
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def _file(self, draw: Callable[..., str], *args: Any) -> Path:
        """Where what ``draw`` makes of ``args`` is kept, as the files that they name are now."""
        stats = [path.stat() for path in args if isinstance(path, Path)]
        key = repr((draw.__name__, args, [(stat.st_mtime_ns, stat.st_size) for stat in stats]))
        return Path(self._folder.name) / blake2b(key.encode(), digest_size=8).hexdigest()

    def _made(self, draw: Callable[..., str], *args: Any) -> str:
        file = self._file(draw, *args)
        with self._lock:
            lock = self._locks.setdefault(file.name, threading.Lock())
        with lock:  # whoever asks for the same meanwhile gets it then
            if not file.exists():
                part = file.with_suffix(".part")  # another thread may look for the file now
                part.write_text(self._in_turn(draw, *args, self.scripts), encoding="utf-8")
                part.replace(file)
            return file.read_text(encoding="utf-8")

    def _in_turn(self, draw: Callable[..., str], *args: Any) -> str:
        """As :meth:`_elsewhere`, a few at a time. Raises ValueError if too many wait."""
        if not self._places.acquire(blocking=False):
            raise ValueError(
                f"{RUNS_MAX + WAITING_MAX} runs are under way or wait: try again later"
            )
        try:
            with self._turns:
                return self._elsewhere(draw, *args)
        finally:
            self._places.release()

    def _elsewhere(self, draw: Callable[..., str], *args: Any) -> str:
        """What ``draw(*args)`` gives in another process. Raises ValueError with what went wrong."""
        ours, theirs = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(target=work.answer, args=(theirs, draw, *args), daemon=True)
        process.start()
        self._processes.add(process)
        theirs.close()
        try:
            if not ours.poll(PAGE_S):
                raise ValueError("the run did not end in time")
            succeeded, text = ours.recv()
        except EOFError:
            raise ValueError("the run could not be drawn") from None
        finally:
            self._processes.remove(process)
            process.kill()
            process.join()
            ours.close()
        if not succeeded:
            raise ValueError(text)
        drawn: str = text
        return drawn
