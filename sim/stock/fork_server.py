"""The coordinator's side of the process that worker processes are copied from.

with ForkServer(["squall.sim.stock.guest"]) as fork server:
    process = fork_server.fork("squall.sim.stock.guest:main")

No process outlives the coordinator: the kernel kills each when its parent ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from squall.real.native.build import Unavailable, library
from squall.real.own_files import PACKAGE
from squall.sim.stock.patience import wait_readable

#: seconds that importing torch may take, see patience.py
_START_S = 120.0
#: what makes a copy such a process itself
_COPY = "squall.real.native.fork_server:serve"
#: bytes of what a worker wrote to standard error that are kept, its last
_STDERR_BYTES = 20_000

_C = ctypes.CDLL(None)
_MALLOC = (
    # A heap of huge pages is copied, and freed, in half the time.
    "glibc.malloc.hugetlb=1",
    # Code that reads memory after it was freed, or before it was written, reads the same each time;
    # and which memory it is does not depend on which thread was first.
    "glibc.malloc.perturb=165",
    "glibc.malloc.tcache_count=0",
    "glibc.malloc.arena_max=1",
)


@dataclass
class Process:
    """One worker process. ``pid``: 0 until it is known."""

    pid: int
    link: socket.socket
    out: int
    err: int
    #: exit code, negative for a signal; None while it runs
    exit_code: int | None = None
    #: its end has been asked about: from then on another process may have its pid
    awaited: bool = False
    _closed: bool = field(default=False, repr=False)

    def signal(self, number: int) -> None:
        if self.pid and not self.awaited:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def stderr(self) -> str:
        """What it has written to standard error so far, the end of it."""
        return _tail(self.err)

    def stdout(self) -> str:
        return _tail(self.out)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.link.close()
            os.close(self.out)
            os.close(self.err)


def _tail(fd: int) -> str:
    size = os.fstat(fd).st_size
    return os.pread(fd, _STDERR_BYTES, max(0, size - _STDERR_BYTES)).decode("utf-8", "replace")


class MissingModule(Unavailable):
    """A module that the process is to import needs one that is not installed: ``name``."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the process that imports torch needs the module {name}")
        self.name = name


class ForkServer:
    """A process with torch imported, and ``modules``, of which ``module:function`` calls one besides, and
    ``module:function TEXT`` with that text. Raises :class:`Unavailable` where it cannot be had.

    ``of``: one that has torch imported already, which this one is a copy of and ends with; without it,
    a new interpreter does. ``wait`` False: the process is begun, and
    whoever is going to use it calls :meth:`ready` before, which waits and raises.
    """

    def __init__(
        self, modules: Sequence[str], *, of: ForkServer | None = None, wait: bool = True
    ) -> None:
        self._of = of
        self._process = self._started(modules) if of is None else of.begin_copy(modules)
        self._closed = False
        #: those that have not been seen to end
        self.live: list[Process] = []
        #: what to do with the replies that are still to come, in their order
        self._awaited: deque[Callable[[dict[str, Any]], object]] = deque()
        #: by what it was asked for: a process that nobody has yet; None if it was asked for once
        self._spare: dict[str, Process | None] = {}
        self._is_ready = False
        if wait:
            self.ready()

    def _started(self, modules: Sequence[str]) -> Process:
        """A new interpreter."""
        built = library()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {
            **os.environ,
            # Threads of these libraries would be threads that are not copied.
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            # Symbols are found once, and not by each copy when it first calls a function.
            "LD_BIND_NOW": "1",
            # The stock modules iterate over sets of names.
            "PYTHONHASHSEED": "0",
            "PYTHONMALLOC": "malloc",
            "GLIBC_TUNABLES": ":".join(_MALLOC),
            "PYTHONPATH": os.pathsep.join(
                [*filter(None, [os.environ.get("PYTHONPATH")]), str(PACKAGE.parent)]
            ),
        }
        process = Process(0, ours, os.memfd_create("stdout"), os.memfd_create("stderr"))
        command = [sys.executable, "-P", "-m", "squall.real.native.fork_server", str(os.getpid())]
        with theirs:
            self._interpreter = subprocess.Popen(
                [*command, str(theirs.fileno()), str(built), *modules],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=process.out,
                stderr=process.err,
            )
        process.pid = self._interpreter.pid
        return process

    def begin_copy(self, modules: Sequence[str]) -> Process:
        """Begin a process like this one, which imports ``modules`` too."""
        request = {"do": "fork", "entry": _COPY, "folder": os.getcwd(), "modules": list(modules)}
        return self._begin(request, socket.SOCK_SEQPACKET)

    @property
    def pid(self) -> int:
        """0 until it is known."""
        return self._process.pid

    def ready(self) -> None:
        """Wait until it has imported all. Raises :class:`Unavailable`."""
        if self._is_ready:
            return
        if self._of is not None:
            self._of.ready()
            self._of.await_start(self._process)
        ready = self._read()
        if "missing" in ready:
            self.close()
            raise MissingModule(ready["missing"])
        if ready["threads"] != 1:
            self.close()
            raise Unavailable(
                f"importing torch started {ready['threads'] - 1} threads, and a process with "
                "threads cannot be copied"
            )
        self._is_ready = True

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fork(self, entry: str, *, again: bool = False, **spec: Any) -> Process:
        """A new worker process in the folder of this one, which calls ``entry`` (``module:function``) with its
        end of a link and ``spec``, and with ``processor``: the number of the one that this process is on.

        ``again``: more of the same will be asked for. From the second one on, the next is begun
        while the caller is at work with this one, and gets as far as its first question.
        """
        request = {"do": "fork", "entry": entry, "folder": os.getcwd(), **spec}
        key = json.dumps(request)
        process = self._spare.get(key) or self._begin(request)
        if again:
            self._spare[key] = self._begin(request) if key in self._spare else None
        self.await_start(process)
        return process

    def await_start(self, process: Process) -> None:
        """Wait until the number of a copy is known."""
        self._await(lambda: process.pid != 0)

    def _begin(
        self, request: dict[str, Any], kind: socket.SocketKind = socket.SOCK_STREAM
    ) -> Process:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        process = Process(0, ours, os.memfd_create("stdout"), os.memfd_create("stderr"))
        self.live.append(process)
        with theirs:
            fds = [theirs.fileno(), process.out, process.err]
            asked = {**request, "processor": _C.sched_getcpu()}
            socket.send_fds(self._process.link, [json.dumps(asked).encode()], fds)

        def known(reply: dict[str, Any]) -> None:
            process.pid = reply["pid"]

        self._awaited.append(known)
        return process

    def discard(self, process: Process) -> None:
        """Kill it if it lives. Its end, which takes the kernel milliseconds, is not waited for."""
        process.signal(signal.SIGKILL)
        self._reap(process)

    def kill(self, process: Process) -> int:
        """Kill it if it lives, wait for its end, and give its exit code."""
        process.signal(signal.SIGKILL)
        return self.reap(process)

    def reap(self, process: Process) -> int:
        """Wait for the end of a process that ends, and give its exit code."""
        self._reap(process)
        self._await(lambda: process.exit_code is not None)
        assert process.exit_code is not None
        return process.exit_code

    def _reap(self, process: Process) -> None:
        if process.awaited:
            return
        process.awaited = True
        self.live.remove(process)
        self._process.link.send(json.dumps({"do": "reap", "pid": process.pid}).encode())

        def ended(reply: dict[str, Any]) -> None:
            process.exit_code = int(reply["status"])

        self._awaited.append(ended)

    def _await(self, done: Callable[[], bool]) -> None:
        """Read replies until ``done``."""
        while not done():
            reply = self._read()
            self._awaited.popleft()(reply)

    def close(self) -> None:
        """End every process."""
        for process in self.live:
            process.signal(signal.SIGKILL)
            process.close()
        self.live.clear()
        self._spare.clear()
        if self._closed:
            return
        self._closed = True
        if self._of is None:
            self._interpreter.kill()
            self._interpreter.wait()
        elif self._process in self._of.live:  # else it has ended with that one
            self._of.kill(self._process)
        self._process.close()

    def _read(self) -> dict[str, Any]:
        try:
            wait_readable(self._process.link, self._process.pid, _START_S)
            text = self._process.link.recv(1 << 16)
        except TimeoutError:
            text = b""
        if not text:
            last = self._process.stderr().strip().splitlines()[-1:] or ["nothing was said"]
            self.close()
            raise Unavailable(f"the process that imports torch ended: {last[0]}")
        read: dict[str, Any] = json.loads(text)
        return read
