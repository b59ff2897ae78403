"""Inside a worker process of the engine ``torch``: one process of a script.

The script is stock PyTorch's, unmodified. What belongs to the simulated world is answered by the
coordinator: rendezvous, the start of processes, and the time.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import fcntl
import functools
import itertools
import marshal
import multiprocessing.util
import os
import subprocess
import sys
import threading
import time
import types
from collections import Counter
from contextlib import ExitStack, nullcontext
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlparse

import torch.distributed.autograd
import torch.distributed.rpc
import torch.distributed.rpc.internal
import torch.multiprocessing

from squall.model.events.run import EXITED
from squall.real.native import turns, waits
from squall.real.native.here import FIRST_LANE, Here, debug_info
from squall.real.own_files import OWN_FILES
from squall.real.rpc.rendezvous import store_key
from squall.sim.scripts import dates, event_loop, file_locks, generators, returned, started_programs
from squall.sim.scripts.compat.errors import (
    Uncaught,
    call_hook,
    exit_code_of,
    exited,
    own_frames_left_out,
    report,
    usage_of,
)
from squall.sim.scripts.compat.process import FORKS_RUN_EXIT_HANDLERS
from squall.sim.scripts.compat.threads import hooked
from squall.sim.scripts.computing import Computing
from squall.sim.scripts.reference import told_to
from squall.sim.scripts.rounds import compiled
from squall.sim.scripts.times import EPOCH_S, functions
from squall.sim.stock import (
    ddp_modules,
    fsdp_gradients,
    fsdp_modules,
    group_guest,
    local_gradients,
    made_guest,
    pipelines,
    real_connections,
    replicas_guest,
    script_children,
    script_programs,
    script_rounds,
    sharded_modules,
    signals_guest,
    stacks_from_outside,
    step_guest,
    turn_guest,
)
from squall.sim.stock.after_import import after_import
from squall.sim.stock.packed import Packed
from squall.sim.stock.store_guest import FileStore, PrefixStore, SharedStore, TCPStore, meet
from squall.sim.world.thread_origins import STARTED
from squall.sim.world.thread_origins import started as where_started

#: how far the clock goes on at each reading, in seconds
_READING_S = 1e-6
#: of virtual time, how often one that waits for a thread with a time limit looks after it
_LOOK_S = 0.05
# Modules of torch's of which names are replaced, or used that their stubs do not know.
_distributed: Any = torch.distributed
_autograd: Any = torch.distributed.autograd
_internal: Any = torch.distributed.rpc.internal
_thread_class: Any = threading.Thread
_thread_module: Any = threading
_exit = os._exit
_run_exit_handlers: Any = vars(atexit)["_run_exitfuncs"]
_exit_of_children: Any = vars(multiprocessing.util)["_exit_function"]
_subprocess: Any = subprocess
_DISTRIBUTED = ("torch.distributed", "torch.distributed.distributed_c10d")
#: how often this process has come to the process group of a place
_met: Counter[str] = Counter()


class ScriptGuest:
    def __init__(self, fd: int) -> None:
        self.here = Here(fd, self.serve)
        #: lets time pass for operators, if they take some
        self.computing: Computing | None = None
        self.made = made_guest.MadeGuest()
        self.signals = signals_guest.Signals(self.here)
        #: what the coordinator reads gradients from
        self._given = Packed([])
        self._opened = ExitStack()

    def serve(self, question: tuple[Any, ...]) -> Any:
        what, *args = question
        return getattr(self, f"serve_{what}")(*args)

    def serve_debug_info(self) -> dict[str, int]:
        return debug_info()

    def serve_gradients(self, context_id: int) -> tuple[list[Any], int | None]:
        """As :class:`Packed` has them; none if RPC has ended here, or this worker does not know the context."""
        try:
            gradients = _autograd.get_gradients(context_id)
        except RuntimeError:
            return [], None
        self._given = Packed([gradient.detach() for gradient in gradients.values()])
        return self._given.parts, self._given.fd

    def serve_gradients_read(self) -> None:
        """The coordinator has them: what they lie in is given back."""
        self._given.close()
        self._given = Packed([])

    def serve_stacks(self) -> list[Any]:
        from squall.sim.stock.stacks import stacks

        return stacks()

    def serve_references(self) -> list[str]:
        """What code of the script holds of references, and where; of those of a group that has ended nothing is known."""
        from squall.sim.world.holders import held

        if not torch._C._distributed_rpc._is_current_rpc_agent_set():
            return []
        return [
            f"{reference} of a value of {reference.owner_name()}, in {way}"  # type: ignore[attr-defined]
            for way, reference in held(
                made_guest.roots(), lambda each: isinstance(each, torch._C._distributed_rpc.PyRRef)
            )
        ]

    def serve_file_taken(self, fd: int) -> None:
        os.close(fd)

    def serve_signal(self, number: int) -> bool:
        return self.signals.come(number)

    def serve_collect(self) -> None:
        import gc

        gc.collect()

    def run(self) -> None:
        role = self.here.ask("role")
        self._settle_in(role)
        code, error, usage = 0, None, None
        try:
            with nullcontext() if self.computing is None else self.computing:
                ended = self._run(role)
            if ended is not None:
                code, error = ended
        except BaseException as raised:
            code, error, usage = _uncaught(raised)
        if error is not None and error.type != EXITED:
            script_children.terminate_children()
        if not role["forked"] or FORKS_RUN_EXIT_HANDLERS:
            _thread_module._shutdown()  # waits for threads that are no daemons
            _run_exit_handlers()
        script_children.end_children()
        self._end(code, error, usage)

    def _end(self, code: int, error: Uncaught | None, usage: str | None = None) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        self._leave(code, error, usage)

    def _leave(
        self, code: int, error: Uncaught | None = None, usage: str | None = None
    ) -> NoReturn:
        """The coordinator is told, and the process ends at once, as by ``os._exit``."""
        computed = {} if self.computing is None else self.computing.computed
        left = [] if code else self.made.left()
        error = error or (exited(code) if code else None)
        self.here.ask("exit", code, error, usage, computed, left)
        _exit(code)

    def _settle_in(self, role: dict[str, Any]) -> None:
        here = self.here
        os.environ.clear()
        os.environ.update(role["environ"])
        if not role["forked"]:
            _distributed.set_debug_level_from_env()  # as where it is imported
        sys.argv[:] = [role["script"], *role["args"]]
        sys.path.insert(0, os.path.dirname(os.path.abspath(role["script"])))
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        stacks_from_outside.offer()
        self._opened.enter_context(own_frames_left_out(lambda: True))
        _thread_module.excepthook = _thread_module.__excepthook__ = hooked
        generators.install(role["seed"], role["pid"])
        returned.give_to(
            lambda value: here.ask("returned", int(os.environ["RANK"]), value), first=True
        )
        os.register_at_fork(after_in_child=self._forked)
        here.be_the_network()
        handlers = sys.modules["torch.distributed.rendezvous"].__dict__["_rendezvous_handlers"]
        for scheme in ("env", "tcp", "file"):
            handlers[scheme] = functools.partial(_meet, here)
        group_guest.install(here)
        after_import("torch._dynamo.trace_rules", _left_uncompiled)
        real_connections.install()
        modules, sharded = ddp_modules.DdpModules(), fsdp_modules.FsdpModules()
        if role["replicas"]:
            replicas_guest.install(here, modules, sharded)
        if role["check"]:
            local_gradients.install(here, modules)
            fsdp_gradients.install(here, sharded)
            sharded_modules.install(here)
            pipelines.install(here)
            self._opened.enter_context(told_to(functools.partial(here.tell, "compared")))
        for module in (*_DISTRIBUTED, "torch.distributed.rendezvous"):
            vars(sys.modules[module]).update(
                TCPStore=TCPStore, FileStore=FileStore, PrefixStore=PrefixStore
            )
        if role["watch"]:
            _autograd.backward = self._told_of(_autograd.backward, all=role["check"])
        clock = _Clock(here)
        self.signals.install()
        vars(time).update(functions(clock.read, self.signals.sleep, "time"))
        vars(fcntl).update(file_locks.functions(fcntl, self.signals.sleep))
        script_rounds.install(here)
        dates.install(lambda: EPOCH_S + clock.read())
        vars(os).update(started_programs.functions_of_os(), _exit=self._leave)
        # What it starts has been looked at before; Python 3.13 would start more by os.posix_spawn.
        _subprocess._USE_POSIX_SPAWN = False
        # A class that others have derived from, and functions that call it by its name.
        _subprocess.Popen.__init__ = started_programs.guarded(
            _subprocess.Popen.__init__, "subprocess.Popen", 1
        )
        event_loop.install(asyncio, threading, clock.read)
        script_children.install(here, clock.read)
        script_programs.install(here, clock.read)
        if role["program"] is not None:
            script_programs.settle_in(here, role)
        _thread_class.join = _joining(_thread_class.join, here)
        _thread_class.start = _starting(_thread_class.start, here)
        if role["compute"]:
            self.computing = Computing(
                role["compute"], lambda seconds, name: here.ask("compute", seconds, name)
            )
            self._opened.enter_context(self.computing.watch(_autograd))
            after_import("torch.distributed.pipelining.stage", self.computing.time_stages)
            _thread_class.run = self._computed(_thread_class.run)
            _internal._run_function = self._computed(_internal._run_function)
        if role["steps"]:
            step_guest.install(here, modules, self.computing)
        _thread_class.run = waits.numbered(_thread_class.run)
        _internal._run_function = waits.numbered(_internal._run_function)
        turns.install(lambda: here.ask("start"), self.made.waited)
        turn_guest.install(here)
        self.made.install()

    def _forked(self) -> None:
        """In a process that the script has forked: only the threads that speak to the coordinator
        could, and they were not copied."""

        def refuse(*_: object) -> NoReturn:
            raise RuntimeError(
                "a process that a script forks has no part in the simulation: on the engine torch "
                "start processes with multiprocessing.Process or torch.multiprocessing.spawn"
            )

        vars(self.here).update(ask=refuse, ask_then=refuse)
        vars(os)["_exit"] = _exit

    def _computed(self, function: Any) -> Any:
        """A function of PyTorch's or Python's that runs code of the script in another thread."""

        @functools.wraps(function)
        def run(*args: Any) -> Any:
            assert self.computing is not None
            with self.computing:
                return function(*args)

        return run

    def _told_of(self, backward: Any, *, all: bool) -> Any:
        """``backward``, of whose passes the coordinator is told before they return or raise;
        without ``all``, of those that raise."""

        @functools.wraps(backward)
        def told(context_id: int, roots: Any, retain_graph: bool = False) -> None:
            try:
                backward(context_id, roots, retain_graph)
            except BaseException as error:
                self.here.ask("pass", context_id, str(error))
                raise
            if all:
                self.here.ask("pass", context_id, None)

        return told

    def _run(self, role: dict[str, Any]) -> tuple[int, Uncaught | None] | None:
        """Run what the process is for. Of a ``Process``: its exit code, and what it raised."""
        spawned = role["call"] is not None
        module = types.ModuleType("__main__")
        module.__dict__.update(__file__=role["script"], __builtins__=__builtins__)
        sys.modules["__main__"] = module
        if spawned:
            # What multiprocessing does in a new process: the module, but not as the main one.
            module.__name__ = "__mp_main__"
            sys.modules["__mp_main__"] = module
        if role["program"] is not None:
            script_programs.run(role, module)
            return None
        text = role["text"]
        if text is None:
            with open(role["script"], encoding="utf-8") as file:
                text = file.read()
        code = (
            compiled(text, role["script"]) if role["code"] is None else marshal.loads(role["code"])
        )
        script_children.importing(spawned)
        exec(code, module.__dict__)
        script_children.importing(False)
        if role["forked"]:
            atexit._clear()
            atexit.register(_exit_of_children)
        return script_children.run_child(role["call"]) if spawned else None


class _Clock:
    """Virtual time, of which two readings are never equal, and which advances for a thread that reads it
    again and again and does nothing else."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._readings = script_rounds.Counter(here)
        self._read_s = -1.0

    def read(self) -> float:
        """In seconds."""
        self._readings.count()
        self._read_s = max(self._here.now(), self._read_s + _READING_S)
        return self._read_s


def _joining(join: Any, here: Here) -> Any:
    """``Thread.join``, whose time limit is one of virtual time."""

    @functools.wraps(join)
    def joined(self: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:
            join(self)
            return
        end_s = here.now() + timeout
        while self.is_alive() and here.now() < end_s:
            here.sleep(min(_LOOK_S, max(0.0, end_s - here.now())))
        join(self, 0)

    return joined


class _Begun:
    """``Thread._started``. Whether a thread begins before who starts it waits for that is chance, which nobody sees: who
    is woken by one of these does not ask whether it may go on."""

    def __init__(self) -> None:
        self._is_set = False
        self._at_fork_reinit()

    def _at_fork_reinit(self) -> None:
        self._lock = _thread.allocate_lock()
        if not self._is_set:
            self._lock.acquire()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        with self._lock:
            return True


def _starting(start: Any, here: Here) -> Any:
    """``Thread.start``, after which one thread at a time goes on: those that were started, in the order of their starts, and
    who has started them."""
    lanes = itertools.count(FIRST_LANE)

    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        if (begun := where_started(self)) is not None:
            STARTED[self] = begun
        lane, run = next(lanes), self.run

        def begin() -> None:
            vars(self).pop("run")
            here.set_lane(lane)
            here.ask("start")
            run()

        vars(self)["run"] = begin
        if not self._started.is_set():  # type: ignore[attr-defined]
            vars(self)["_started"] = _Begun()
        start(self)
        here.ask("start")

    return started


def _meet(here: Here, url: str, **kwargs: Any) -> Any:
    """Replaces the rendezvous of a group: its store, the rank and the world size.

    Each time that a process comes to a process group it is a new store, as it is a new one under
    stock PyTorch, unless an agent of torchrun keeps it. That of RPC is one for all that join a group which has no
    size, by turns.

    Raises ValueError as PyTorch does for a URL, and variables of the environment, that say too little.
    """
    parsed = urlparse(url)
    asked = dict(parse_qsl(parsed.query))
    rank, world_size = (int(asked.pop(name, -1)) for name in ("rank", "world_size"))
    key = store_key(url.partition("?")[0], rank, world_size)
    if parsed.scheme == "env":
        rank = int(os.environ["RANK"]) if rank == -1 else rank
        world_size = int(os.environ["WORLD_SIZE"]) if world_size == -1 else world_size
    timeout = kwargs.get("timeout")
    for name, value in (("rank", rank), ("world size", world_size)):
        # A group of RPC, which gives no timeout, may be one that has no size.
        if value == -1 and (timeout is not None or name == "rank"):
            raise ValueError(
                f"Error initializing torch.distributed using {parsed.scheme}:// rendezvous: "
                f"{name} parameter missing"
            )
    if timeout is None:
        yield SharedStore(f"{key} rendezvous"), rank, world_size
        return
    # An agent of torchrun has started all members again.
    key = f"{key} {os.environ.get('TORCHELASTIC_RESTART_COUNT', '')}"
    meet(rank, world_size)
    if parsed.scheme != "env" or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True):
        _met[key] += 1
    yield SharedStore(f"{key} process group {_met[key]}", timeout), rank, world_size


def _left_uncompiled(trace_rules: Any) -> None:
    """``torch.compile`` takes what PyTorch's compiled code calls here for code of the script, which on stock PyTorch calls
    none: it is run as it is."""
    trace_rules.SKIP_DIRS.extend(OWN_FILES)
    trace_rules._recompile_re()


def _uncaught(error: BaseException) -> tuple[int, Uncaught | None, str | None]:
    """What ends the process: its exit code, an error that is printed now, and what the script did
    not like of its arguments."""
    code = exit_code_of(error)
    if code is not None:
        return code, exited(code, error) if code else None, usage_of(error)
    told = report(error)
    if sys.excepthook is sys.__excepthook__:
        sys.stderr.write(told.traceback)
    else:  # the script has set a hook of its own
        call_hook(error)
    return 1, told, None


def main(fd: int, request: dict[str, Any]) -> None:
    """The entry of a copied process."""
    ScriptGuest(fd).run()
