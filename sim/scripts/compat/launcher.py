"""Brings up the processes of a script, as a shell, ``torchrun`` or the script itself would.

* A script that starts its own processes (``torch.multiprocessing.spawn``) is run once.
* A script that is written to be started once a rank, and learns its rank from the environment,
  is run once at first; when it joins a group (``init_rpc``, ``init_process_group``) without having
  started processes itself, the other ranks are started.
* Where arguments have the placeholder ``{rank}``, or each rank a command line of its own, each
  rank is a process from the start (sim/scripts/ranks.py).
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch

from squall.sim.scenario import Script
from squall.sim.scripts import dates, ranks
from squall.sim.scripts.backends import BACKENDS
from squall.sim.scripts.compat import clock, guard, operators, torch_registers
from squall.sim.scripts.compat.errors import Uncaught
from squall.sim.scripts.compat.process import OWN_RANK, ProcessTable, SimProcess
from squall.sim.scripts.compat.program import ScriptFiles
from squall.sim.scripts.compat.torch_facade import PRIVATE, SUBSTITUTES
from squall.sim.scripts.findings import Findings
from squall.sim.scripts.hints import hint, hint_for_size, hint_for_usage
from squall.sim.scripts.installed import Installed
from squall.sim.world.isolation import TorchIsolation

if TYPE_CHECKING:
    from squall.real.worker import Worker
    from squall.sim.world.scheduler import SimRuntime

_REAL_ENVIRON: Any = os.environ
_STREAMS = ("argv", "path", "stdin", "stdout", "stderr", "excepthook")
_GENERATED = "_remote_module_"


@dataclass(frozen=True)
class ProcessResult:
    """How one process ended.

    ``worker`` is its name in the RPC group, ``rank`` its rank if it had one. ``exit_code`` is None
    if it had not ended when the simulation did, negative if it was terminated. ``parent`` is the
    process id of the one that started it; None if that was the launcher.
    """

    name: str
    worker: str
    rank: int | None
    pid: int
    parent: int | None
    exit_code: int | None
    error: Uncaught | None
    hint: str | None
    #: whether a fault ended it
    crashed: bool = False


class Launcher:
    """The processes of one script. A context manager; inside, :meth:`start` and :meth:`run`.

    ``new_worker(name)`` makes the worker that a process runs as. ``chance_seed``: see
    :class:`ProcessTable`. Script output goes to ``stdout`` and ``stderr``. The
    runtime should have a :class:`~squall.sim.world.isolation.TorchIsolation`. Raises ValueError for a
    script whose command lines have a placeholder and that leaves the number of workers open.
    """

    def __init__(
        self,
        runtime: SimRuntime,
        script: Script,
        *,
        new_worker: Callable[[str], Worker],
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
        chance_seed: int | None = None,
    ) -> None:
        self.runtime = runtime
        self.script = script
        self.workers = script.workers
        self._environ = dict(os.environ if environ is None else environ)
        lines = ranks.lines_of(script)
        placeholder = ranks.placeholder_in(lines)
        if self.workers is None and placeholder is not None:
            raise ValueError(f"arguments with {placeholder} need a number of workers")
        self.installed = Installed(script.simulate, script.share)
        self.table = ProcessTable(
            runtime=runtime,
            program=ScriptFiles(
                {Path(line.path): line.text for line in lines},
                installed=self.installed,
            ),
            new_worker=new_worker,
            substitutes=SUBSTITUTES,
            private=PRIVATE,
            stdout=stdout or sys.stdout,
            stderr=stderr or sys.stderr,
            chance_seed=chance_seed,
            findings=Findings(go_on=script.go_on),
            backend=BACKENDS[script.backend],
        )
        self.table.on_end = self._ended
        self.table.on_join = self._joining
        #: the processes that the launcher itself has started, by rank
        self._ranks: dict[int, SimProcess] = {}
        #: told of each of them
        self.on_start: Callable[[int, SimProcess], object] | None = None
        #: the first of them that failed, for which all others were ended
        self.first_failed: SimProcess | None = None
        #: what to know of how the script was started
        self.hints: list[str] = []
        self._per_rank = False
        self._outside: dict[str, Any] = {}
        self._undo = ExitStack()

    # -- for whoever runs it ----------------------------------------------------------------

    def start(self) -> None:
        """Start the first process, or one for each rank if the arguments ask for that."""
        if ranks.has_ranks(self.script):
            self._per_rank = True
            for rank in range(self.workers or 0):
                self._start(rank)
        else:
            self._start(0)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose processes the launcher has started."""
        return tuple(self._ranks)

    def start_rank(self, rank: int) -> None:
        """Start a process of a rank whose earlier one has ended."""
        self._start(rank)

    def run(self) -> bool:
        """Step the simulation until every process has ended; False if some wait for ever."""
        self.runtime.run(until_idle=False)
        # The end of the last process still has effects at this instant: its tasks are killed, its
        # end is recorded.
        self.runtime.run(max_time_s=self.runtime.now())
        return all(process.has_ended for process in self.table.processes)

    def results(self) -> list[ProcessResult]:
        """How each process ended, in order of start."""
        return [self._result(process) for process in self.table.processes]

    def errors(self) -> list[ProcessResult]:
        """The processes that ended with an uncaught exception or, of themselves, with another exit code than 0;
        the first to end first."""
        return [self._result(process) for process in self.table.failed]

    def __enter__(self) -> Launcher:
        self._outside = {name: getattr(sys, name) for name in _STREAMS}
        self._outside["environ"] = _REAL_ENVIRON._data
        self._outside["random"] = random.getstate()
        self._outside["threads"] = torch.get_num_threads()
        self._outside["modules"] = self.table.program.outside
        _forget_generated()
        self._undo.enter_context(dates.simulated(clock.wall_time_s))
        self._undo.enter_context(torch_registers.one_for_each_process())
        self._undo.enter_context(operators.shared_by_processes())
        self._undo.enter_context(guard.nothing_real())
        # Library code that draws from Python's own shared state should do so repeatably.
        random.seed(self.runtime.random("shared random state").getrandbits(64))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.table.processes:
            process.forget_finalizers()
        self.runtime.close()
        self._undo.close()
        self.table.at_the_end.close()
        isolation = self.runtime.isolation
        if isinstance(isolation, TorchIsolation):
            isolation.close()
        for name in _STREAMS:
            setattr(sys, name, self._outside[name])
        _REAL_ENVIRON._data = self._outside["environ"]
        if torch.get_num_threads() != self._outside["threads"]:
            torch.set_num_threads(self._outside["threads"])
        random.setstate(self._outside["random"])
        _forget_generated()
        outside = self._outside["modules"]
        if not outside.keys() <= sys.modules.keys():
            for name, module in outside.items():
                sys.modules.setdefault(name, module)

    # -- inside -----------------------------------------------------------------------------

    def _start(self, rank: int) -> None:
        line = ranks.command_line(self.script, rank)
        environ = ranks.environment(self._environ, rank, self.workers, line)
        process = self.table.create(
            name=f"rank {rank}" if self._per_rank else "main",
            parent=None,
            rank=rank if self._per_rank else None,
            script=Path(line.path),
            argv=[line.path, *line.args],
            environ=environ,
        )
        if not self._per_rank:
            process.locals[OWN_RANK] = ranks.own_variables(environ, self.workers)
        self._ranks[rank] = process
        if self.on_start is not None:
            self.on_start(rank, process)
        process.start(process.run_script)

    def _joining(self, process: SimProcess, rank: int, world_size: int) -> None:
        """``process`` is about to join a group: start the other ranks if it runs once a rank."""
        if self._per_rank or process.parent is not None or process.children:
            return
        if "RANK" not in process.environ:
            return
        size = world_size if world_size > 0 else int(process.environ.get("WORLD_SIZE", "1"))
        own = rank if rank >= 0 else int(process.environ["RANK"])
        if size <= 1:
            return
        self._per_rank = True
        process.locals.pop(OWN_RANK, None)
        self._ranks = {own: process}
        process.name, process.rank = f"rank {own}", own
        if told := hint_for_size(self.workers, size):
            self.hints.append(told)
        if self.workers is None:
            self.workers = size
        for other in range(size):
            if other != own:
                self._start(other)

    def _ended(self, process: SimProcess) -> None:
        """A process of ours that failed takes all others with it."""
        if process in self._ranks.values() and process.exit_code != 0:
            self.first_failed = self.first_failed or process
            for other in self.table.processes:
                other.terminate()

    def _result(self, process: SimProcess) -> ProcessResult:
        worker = process.worker
        rank = process.rank
        if rank is None and worker.id >= 0:
            rank = worker.id
        return ProcessResult(
            name=process.name,
            worker=worker.known_as,
            rank=rank,
            pid=process.pid,
            parent=process.parent.pid if process.parent is not None else None,
            exit_code=process.exit_code,
            error=process.error or process.exited,
            hint=self._hint(process),
            crashed=process.crashed,
        )

    def _hint(self, process: SimProcess) -> str | None:
        if process.usage is not None:
            return hint_for_usage(self.script, process.usage)
        error = process.error
        return None if error is None else hint(self.script, error.type, error.message)


def _forget_generated() -> None:
    """torch.distributed.nn generates modules that call the RPC module which was imported first."""
    if _GENERATED in "\n".join(sys.modules):  # thousands of names, of which rarely one is meant
        for name in [name for name in sys.modules if name.startswith(_GENERATED)]:
            del sys.modules[name]
