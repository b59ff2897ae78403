"""One simulated operating-system process, and the table of all processes of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from squall.real import tracing
from squall.real.worker import current_worker_or_none
from squall.sim.scripts.backends import GLOO, Backend
from squall.sim.scripts.compat import clock
from squall.sim.scripts.compat.environ import Environ
from squall.sim.scripts.compat.errors import (
    OwnInterrupt,
    Uncaught,
    call_hook,
    exit_code_of,
    exited,
    report,
    usage_of,
)
from squall.sim.scripts.compat.modules import CHILD_MAIN, MAIN, ModuleSpace
from squall.sim.scripts.findings import Findings, FoundError
from squall.sim.scripts.generators import streams, torch_seed
from squall.sim.scripts.rounds import compiled
from squall.sim.scripts.unended import kept
from squall.sim.world.busy_loop import SpinningError
from squall.sim.world.isolation import STATE
from squall.sim.world.torch_settings import ProcessSettings
from squall.sim.world.watch import current

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from squall.model.events.kept import Kept
    from squall.real.worker import Worker
    from squall.sim.scripts.compat.modules import Substitute
    from squall.sim.scripts.compat.program import ScriptFiles
    from squall.sim.scripts.compat.threads import ThreadTable
    from squall.sim.world.primitives import SimTask
    from squall.sim.world.scheduler import SimRuntime

#: key of the process in ``Worker.locals``
_PROCESS = "process"
#: key in ``SimProcess.locals``: of its environment, what the launcher has set for that process alone
OWN_RANK = "own rank"
#: before, they run nothing of what has been registered to run at exit
FORKS_RUN_EXIT_HANDLERS = sys.version_info >= (3, 13)
#: process ids are this and a small number
FIRST_PID = 1000
SIGINT = 2
SIGTERM = 15
SIGKILL = 9

_REAL_ENVIRON: Any = os.environ


def current_process() -> SimProcess:
    """The process of the running task. Raises RuntimeError outside every process."""
    process = current_process_or_none()
    if process is None:
        raise RuntimeError("this code runs outside every simulated process")
    return process


def current_process_or_none() -> SimProcess | None:
    worker = current_worker_or_none()
    return None if worker is None else process_of(worker)


def meeting(rank: int, world_size: int) -> None:
    """The current process is about to wait for others, which are started if nobody has. -1: as its environment says."""
    process = current_process_or_none()
    if process is not None and process.group.on_join is not None:
        process.group.on_join(process, rank, world_size)


def process_of(worker: Worker) -> SimProcess | None:
    """The process that a worker of a script is."""
    return worker.locals.get(_PROCESS)


class Stream:
    """Standard output or error of one process: silent once the process has ended."""

    def __init__(self, process: SimProcess, to: TextIO) -> None:
        self._process = process
        self._to = to

    def redirect(self, to: TextIO) -> None:
        """Let what is written from now on go there."""
        self._to = to

    def write(self, text: str) -> int:
        if not self._process.is_silent:
            with clock.of_the_machine():
                self._to.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with clock.of_the_machine():
            self._to.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


class SimProcess:
    """What one process owns. Runs a body on its main task, and then ends.

    Is its own :class:`~squall.sim.world.isolation.PrivateState`: arguments, environment, module path, streams,
    modules and torch's settings are in place while one of its tasks runs.
    """

    def __init__(
        self,
        group: ProcessTable,
        number: int,
        *,
        name: str,
        parent: SimProcess | None,
        rank: int | None,
        argv: Sequence[str],
        environ: Mapping[str, str],
        script: Path | None = None,
        path: Sequence[str] | None = None,
    ) -> None:
        self.group = group
        self.pid = FIRST_PID + number
        self.name = name
        self.parent = parent
        self.rank = rank
        #: the file of its main module; a child has that of its parent
        self.script: Path | None = script or (parent.script if parent is not None else None)
        #: whether a program of its own was started, by ``subprocess``: nobody waits for its end
        #: unasked
        self.is_program = False
        #: its working directory, while it does not run; None: that of all processes
        self.folder: str | None = group.folder()
        self.argv = list(argv)
        self.environ = Environ(environ)
        self.stdin: Any = sys.stdin
        #: where its standard output, 1, and standard error, 2, go: a child's too, by default
        self.files: dict[int, Any] = {1: group.stdout, 2: group.stderr}
        if parent is not None:
            self.files = dict(parent.files)
        self.stdout: Any = Stream(self, self.files[1])
        self.stderr: Any = Stream(self, self.files[2])
        self.excepthook: Any = sys.__excepthook__
        self.is_silent = False
        #: False for a forked child, which ends without them
        self.runs_exit_handlers = True
        #: whether it ends without a word, wherever it is
        self._at_once = False
        self.exit_handlers: list[tuple[Callable[..., object], Any, Any]] = []
        #: of signals, by number
        self.signal_handlers: dict[int, Any] = {}
        self.children: list[SimProcess] = []
        self.threads: ThreadTable | None = None
        self.main_task: SimTask | None = None
        self.exit_code: int | None = None
        #: whether a fault ended it
        self.crashed = False
        self.error: Uncaught | None = None
        #: what it left by of itself, with another exit code than 0
        self.exited: Uncaught | None = None
        #: what it did not like of its arguments, if it said so by argparse
        self.usage: str | None = None
        #: ids handed out by substitutes (process names and the like), by what they count
        self.counts: dict[str, int] = {}
        #: anything else that a substitute keeps for the process
        self.locals: dict[Any, Any] = {}
        #: what it had made and not ended when it came to its end
        self.left: list[Kept] = []
        #: called when it has ended
        self.at_end: list[Callable[[], object]] = []
        self.ended = group.runtime.event(f"the end of process {name}")
        self.torch = ProcessSettings(torch_seed(self.stream))
        self.worker = group.new_worker(name)
        self.worker.locals[_PROCESS] = self
        self.worker.locals[STATE] = self
        self.worker.locals["environ"] = self.environ
        self.space = ModuleSpace(
            group.program,
            group.runtime,
            substitutes=group.substitutes,
            private=group.private,
            process=self,
        )
        self.space.path = group.program.path_of(self.script) if path is None else list(path)
        self.worker.modules = self.space

    def stream(self, name: str) -> Random:
        """One of the streams of what the process draws; see sim/scripts/generators.py."""
        seed = self.group.chance_seed
        if seed is None:
            return self.group.runtime.random(name, self.pid)
        return streams(seed, self.pid)(name)

    # -- life -------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        return self.exit_code is not None

    @property
    def alive(self) -> bool:
        """False once nothing of it runs any more."""
        return not self.ended.is_set()

    def start(self, body: Callable[[], object]) -> None:
        """Run ``body`` on the main task; the process ends after it."""
        self.main_task = self.group.runtime.spawn(
            self._main, body, name=self.name, worker=self.worker, daemon=False
        )

    def run_script(self, name: str = MAIN) -> None:
        """Execute the script as the main module, under ``name``."""
        assert self.script is not None
        path = os.path.realpath(self.script)
        spec = ModuleSpec(name, SourceFileLoader(name, path), origin=path)
        module = self._main_module(name)
        module.__dict__.update(__file__=path, __loader__=spec.loader, __cached__=None)
        exec(self.group.program.code(path), module.__dict__)

    def run_text(self, text: str) -> None:
        """Execute what ``python -c`` was given."""
        module = self._main_module(MAIN)
        exec(compiled(text, "<string>"), module.__dict__)

    def run_module(self, spec: ModuleSpec) -> None:
        """Execute a module of the user's as the main one, as ``python -m`` does."""
        assert spec.origin is not None
        if spec.parent:
            self.space.load(spec.parent)
        module = self._main_module(MAIN)
        module.__dict__.update(
            __file__=spec.origin, __loader__=spec.loader, __cached__=None, __spec__=spec,
            __package__=spec.parent,
        )  # fmt: skip
        exec(self.group.program.code(spec.origin), module.__dict__)

    def _main_module(self, name: str) -> ModuleType:
        module = ModuleType(name)
        module.__dict__["__builtins__"] = self.space.builtins.__dict__
        self.space.add(MAIN, module)
        if name == CHILD_MAIN:
            self.space.add(CHILD_MAIN, module)
        return module

    def _main(self, body: Callable[[], object]) -> None:
        code = 0
        try:
            try:
                body()
            except BaseException as error:
                code = self._uncaught(error)
            code = self._finish(code)
        finally:
            self.end(code)

    def _uncaught(self, error: BaseException) -> int:
        """Record and print an error that ends the process; its exit code. Raises it where the process is being ended:
        what it raises then is nobody's."""
        if self.group.runtime.is_killing:
            raise error
        is_own = isinstance(error, OwnInterrupt)
        if isinstance(error, KeyboardInterrupt | SpinningError) and not is_own:
            self.group.runtime.fail(error)
            return 130
        watcher = current()
        if watcher is not None:
            watcher.raised(error)
        code = exit_code_of(error)
        self.usage = usage_of(error)
        if code and self.error is None:
            self.exited = exited(code, error)
        if code is None:
            self.error = report(error)
            if self.parent is not None and not self.is_program:
                sys.stderr.write(f"Process {self.name}:\n")
            # The script may have set a hook of its own.
            if self.excepthook is sys.__excepthook__ and sys.excepthook is sys.__excepthook__:
                sys.stderr.write(self.error.traceback)
            else:
                call_hook(error)
            code = -SIGINT if is_own else 1
        return code

    def _finish(self, code: int) -> int:
        """Wait for threads, run what was registered to run at exit, then wait for children."""
        children = [child for child in self.children if not child.is_program]
        if self.error is not None:
            for child in children:
                child.terminate()
        try:
            threading = self.space.loaded.get("threading")
            if threading is not None and self.threads is not None:
                threading._shutdown()
            if self.runs_exit_handlers:
                self.run_exit_handlers()
            util: Any = self.space.loaded.get("multiprocessing.util")
            if util is not None:
                util._exit_function()
        except BaseException as error:
            return self._uncaught(error)
        if not code:
            self.left = kept(self.worker)
        return code

    def run_exit_handlers(self) -> None:
        while self.exit_handlers:
            function, args, kwargs = self.exit_handlers.pop()
            try:
                function(*args, **kwargs)
            except BaseException as error:
                if self.group.runtime.is_killing:
                    raise
                if exit_code_of(error) is None:
                    sys.stderr.write(f"Exception ignored in atexit callback: {function!r}\n")
                    sys.stderr.write(report(error).traceback)

    def end_by(self, error: BaseException, where: str) -> None:
        """End the process by an exception that another task of it raised, as if nobody caught it: it
        cannot be raised in the main task, which may wait."""
        code = self._uncaught(error)
        if self.error is not None:
            sys.stderr.write(f"squall: raised in {where}, which runs beside the main thread\n")
        if self.runs_exit_handlers:
            self.run_exit_handlers()
        self.end(code)

    def exit_now(self, code: int = 0, /) -> None:
        """End the process at once, as ``os._exit`` does. Does not return."""
        self.is_silent = self._at_once = True
        self.exited = exited(code) if code else None
        self.end(code)
        self.group.runtime.event("the end of its process").wait()

    def terminate(self, code: int = -SIGTERM) -> None:
        """End the process from outside, as a signal does. No effect once it has ended."""
        if not self.has_ended:
            self.is_silent = self._at_once = True
            self.end(code)

    def crash(self, code: int = -SIGKILL) -> None:
        """Record that a fault has ended the process: nothing of it runs any more, and the launcher
        does not end the other processes for it."""
        self.is_silent = True
        self.crashed = True
        self.exit_code = code
        self._tell()

    def end(self, code: int) -> None:
        if self.exit_code is not None:
            return
        self.exit_code = code
        if self.error is not None or self.exited is not None:
            self.group.failed.append(self)
        # Tasks are killed by the scheduler, never by one another: a `finally` may try to wait.
        self.group.runtime.call_later(0.0, self._clean_up)

    def _clean_up(self) -> None:
        runtime = self.group.runtime
        self.is_silent = True
        if self._at_once:  # what its tasks have on their stacks says no more
            self._disconnect()
        self.forget_finalizers()
        for task in [task for task in runtime.tasks if task.worker is self.worker]:
            runtime.kill(task)
        agent = self.worker.agent
        if agent is not None:
            runtime.spawn(self._disconnect, name="exit", worker=self.worker)
        self._tell()
        self.group.process_ended(self)

    def forget_finalizers(self) -> None:
        """Nothing is done any more where objects of ``multiprocessing`` go."""
        util: Any = self.space.loaded.get("multiprocessing.util")
        if util is not None:
            util._finalizer_registry.clear()

    def _tell(self) -> None:
        """Whoever waits for the process, or for something of it, hears that it has ended."""
        self.worker.world.leave(self.worker)
        self.exit_handlers.clear()
        self.ended.set()
        if self.group.coordinator is not None:
            self.group.coordinator.children.gone(self)
        for tell in self.at_end:
            tell()

    def _disconnect(self) -> None:
        """The peers of a process that is gone see their connections close."""
        agent = self.worker.agent
        if agent is not None and agent.is_running:
            self.worker.tracer.emit(tracing.GROUP_LEFT)
            agent.abandon()

    def count(self, what: str) -> int:
        """The next number of that kind in this process, from 1."""
        self.counts[what] = number = self.counts.get(what, 0) + 1
        return number

    # -- PrivateState -------------------------------------------------------------

    def install(self) -> None:
        self.torch.install()
        _REAL_ENVIRON._data = self.environ._data  # type: ignore[attr-defined]
        sys.argv = self.argv
        sys.path = self.space.path
        if self.folder is not None:
            os.chdir(self.folder)
        sys.stdin = self.stdin
        sys.stdout = self.stdout
        sys.stderr = self.stderr
        sys.excepthook = self.excepthook
        self.space.show()

    def remove(self) -> None:
        self.torch.remove()
        self.argv = sys.argv
        self.space.path = sys.path
        if self.group.has_folders:
            self.folder = os.getcwd()
        self.stdin = sys.stdin
        self.stdout = sys.stdout
        self.stderr = sys.stderr
        self.excepthook = sys.excepthook
        self.space.hide()

    def __repr__(self) -> str:
        return f"process {self.name}"


@dataclass
class ProcessTable:
    """All processes of one run, in order of start.

    ``new_worker(name)`` makes the worker that a process runs as.
    """

    runtime: SimRuntime
    program: ScriptFiles
    new_worker: Callable[[str], Worker]
    substitutes: Mapping[str, Substitute]
    private: tuple[str, ...]
    stdout: TextIO
    stderr: TextIO
    processes: list[SimProcess] = field(default_factory=list)
    #: those that ended with an uncaught exception, in that order
    failed: list[SimProcess] = field(default_factory=list)
    #: answers what ``multiprocessing`` in processes asks, once one does
    coordinator: Any = None
    #: told of each process that has ended
    on_end: Callable[[SimProcess], object] | None = None
    #: told when a process wants to join a group of processes: (process, rank, world size)
    on_join: Callable[[SimProcess, int, int], object] | None = None
    #: told of each process for which ``init_rpc`` is over, before it goes on
    on_joined: Callable[[SimProcess], object] | None = None
    #: told of each process that has come to a process group of so many, and to no RPC group before
    on_grouped: Callable[[SimProcess, int], object] | None = None
    #: told of each process that begins to shut RPC down
    on_leaving: Callable[[SimProcess], object] | None = None
    pid: int = FIRST_PID - 1
    #: what processes without a seed of their own draw from; None: the seed of the run
    chance_seed: int | None = None

    #: its process groups, once there is one
    groups: Any = None
    findings: Findings = field(default_factory=Findings)
    backend: Backend = GLOO
    #: whether each process has a working directory of its own
    has_folders: bool = False
    #: what is to be done when the run is over
    at_the_end: ExitStack = field(default_factory=ExitStack)

    def found(self, outcome: str, text: str) -> None:
        """Something is wrong in the script's process groups: the run ends, unless it is to go on."""
        try:
            self.findings.note(outcome, text)
        except FoundError as error:
            self.runtime.fail(error)
            if self.runtime.running is not self.runtime.hub_task:
                self.runtime.event("the end of the run").wait()

    def folder(self) -> str | None:
        """The working directory of a new process; None: that of all."""
        return os.getcwd() if self.has_folders else None

    def keep_folders_apart(self) -> None:
        """From now on each process has a working directory of its own."""
        if not self.has_folders:
            self.has_folders = True
            folder = os.getcwd()
            self.at_the_end.callback(os.chdir, folder)
            for process in self.processes:
                process.folder = folder

    def create(self, **details: Any) -> SimProcess:
        process = SimProcess(self, len(self.processes), **details)
        self.processes.append(process)
        if process.parent is not None:
            process.parent.children.append(process)
        return process

    def by_pid(self, pid: int) -> SimProcess | None:
        index = pid - FIRST_PID
        return self.processes[index] if 0 <= index < len(self.processes) else None

    def process_ended(self, process: SimProcess) -> None:
        if self.on_end is not None:
            self.on_end(process)
