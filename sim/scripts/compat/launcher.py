"""Brings up the processes of a script, as a shell, ``torchrun`` or the script itself would.

* A script that starts its own processes (``torch.multiprocessing.spawn``) is run once.
* A script that is written to be started once a rank, and learns its rank from the environment,
  is run once at first; when it joins a group (``init_rpc``, ``init_process_group``) without having
  started processes itself, the other ranks are started.
* Arguments may contain ``{rank}`` and ``{world_size}``: then each rank is a process from the start.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import torch

from squall.sim.scripts.compat.children import OWN_RANK
from squall.sim.scripts.compat.errors import ProcessError
from squall.sim.scripts.compat.process import ProcessTable, SimProcess
from squall.sim.scripts.compat.program import Program
from squall.sim.scripts.compat.torches import PRIVATE, SUBSTITUTES
from squall.sim.world.isolation import TorchIsolation

if TYPE_CHECKING:
    from squall.real.worker import Worker
    from squall.sim.world.scheduler import SimRuntime

_REAL_ENVIRON: Any = os.environ
_STREAMS = ("argv", "path", "stdout", "stderr", "excepthook")
MASTER_ADDR = "localhost"
MASTER_PORT = "29500"
_GENERATED = "_remote_module_"
_RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


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
    error: ProcessError | None
    hint: str | None
    #: whether a fault ended it
    crashed: bool = False


class Launcher:
    """The processes of one script. A context manager; inside, :meth:`start` and :meth:`run`.

    ``new_worker(name)`` makes the worker that a process runs as. ``workers`` is the number of
    ranks, None if the script is to decide. ``text``: see :class:`Program`; ``chance_seed``: see
    :class:`ProcessTable`. Script output goes to ``stdout`` and ``stderr``. The
    runtime should have a :class:`~squall.sim.world.isolation.TorchIsolation`. Raises ValueError for arguments
    with a placeholder when ``workers`` is None.
    """

    def __init__(
        self,
        runtime: SimRuntime,
        script: Path,
        args: Sequence[str] = (),
        *,
        new_worker: Callable[[str], Worker],
        workers: int | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
        text: str | None = None,
        chance_seed: int | None = None,
    ) -> None:
        self.runtime = runtime
        self.script = script
        self.args = tuple(args)
        self.workers = workers
        self._environ = dict(os.environ if environ is None else environ)
        if workers is None and any("{rank}" in a or "{world_size}" in a for a in self.args):
            raise ValueError("arguments with {rank} or {world_size} need a number of workers")
        self.table = ProcessTable(
            runtime=runtime,
            program=Program(script, args, text=text),
            new_worker=new_worker,
            substitutes=SUBSTITUTES,
            private=PRIVATE,
            stdout=stdout or sys.stdout,
            stderr=stderr or sys.stderr,
            chance_seed=chance_seed,
        )
        self.table.on_end = self._ended
        self.table.on_join = self._joining
        #: the processes that the launcher itself has started, by rank
        self._ranks: dict[int, SimProcess] = {}
        #: told of each of them
        self.on_start: Callable[[int, SimProcess], object] | None = None
        self._per_rank = False
        self._outside: dict[str, Any] = {}

    # -- for whoever runs it ----------------------------------------------------------------

    def start(self) -> None:
        """Start the first process, or one for each rank if the arguments ask for that."""
        if any("{rank}" in argument for argument in self.args):
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
        """The processes that ended with an uncaught exception, the first to end first."""
        return [self._result(process) for process in self.table.failed]

    def __enter__(self) -> Launcher:
        self._outside = {name: getattr(sys, name) for name in _STREAMS}
        self._outside["environ"] = _REAL_ENVIRON._data
        self._outside["random"] = random.getstate()
        self._outside["threads"] = torch.get_num_threads()
        self._outside["modules"] = self.table.program.outside
        _forget_generated()
        # Library code that draws from Python's own shared state should do so repeatably.
        random.seed(self.runtime.random("shared random state").getrandbits(64))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.runtime.close()
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
        for name, module in self._outside["modules"].items():
            sys.modules.setdefault(name, module)

    # -- inside -----------------------------------------------------------------------------

    def _start(self, rank: int) -> None:
        workers = self.workers
        environ = dict(self._environ)
        own_rank: dict[str, str] = {}
        if workers is not None or self._per_rank:
            own_rank = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            environ.update(own_rank)
            if workers is not None:
                environ["WORLD_SIZE"] = str(workers)
            environ.setdefault("MASTER_ADDR", MASTER_ADDR)
            environ.setdefault("MASTER_PORT", MASTER_PORT)
        values = {"{rank}": str(rank), "{world_size}": str(workers)}
        process = self.table.create(
            name=f"rank {rank}" if self._per_rank else "main",
            parent=None,
            rank=rank if self._per_rank else None,
            argv=[str(self.script), *(_fill(argument, values) for argument in self.args)],
            environ=environ,
        )
        process.locals[OWN_RANK] = own_rank
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
        self._ranks = {own: process}
        process.name, process.rank = f"rank {own}", own
        if self.workers is None:
            self.workers = size
        for other in range(size):
            if other != own:
                self._start(other)

    def _ended(self, process: SimProcess) -> None:
        """A process of ours that failed takes all others with it."""
        if process in self._ranks.values() and process.exit_code != 0:
            for other in self.table.processes:
                other.terminate()

    def _result(self, process: SimProcess) -> ProcessResult:
        worker = process.worker
        rank = process.rank
        if rank is None and worker.id >= 0:
            rank = worker.id
        return ProcessResult(
            name=process.name,
            worker=worker.name,
            rank=rank,
            pid=process.pid,
            parent=process.parent.pid if process.parent is not None else None,
            exit_code=process.exit_code,
            error=process.error,
            hint=self._hint(process.error),
            crashed=process.crashed,
        )

    def _hint(self, error: ProcessError | None) -> str | None:
        if error is None or self.workers is not None:
            return None
        missing = error.type == "KeyError" and error.text.strip("'\"") in _RANK_VARIABLES
        if missing or any(f"variable {name} expected" in error.text for name in _RANK_VARIABLES):
            return "the script is started once a rank: say how many ranks there are with --workers"
        if error.type == "DistStoreError" and "clients joined" in error.text:
            return (
                "nobody started the other ranks: give --workers, and arguments with {rank} if the "
                "script takes its rank from one"
            )
        return None


def _forget_generated() -> None:
    """torch.distributed.nn generates modules that call the RPC module which was imported first."""
    for name in [name for name in sys.modules if name.startswith(_GENERATED)]:
        del sys.modules[name]


def _fill(argument: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        argument = argument.replace(placeholder, value)
    return argument
