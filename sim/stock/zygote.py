"""The coordinator's side of the process that worker processes are copied from.

with Zygote(["squall.sim.stock.guest"]) as zygote:
    process = zygote.fork("squall.sim.stock.guest:main")

No process outlives the coordinator: the kernel kills each when its parent ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from squall.real.native.build import Unavailable, library
from squall.real.own_files import PACKAGE
from squall.sim.stock.patience import wait_readable

#: seconds that importing torch may take, see patience.py
_START_S = 120.0
#: bytes of what a worker wrote to standard error that are kept, its last
_STDERR_BYTES = 20_000

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
    """One worker process."""

    pid: int
    link: socket.socket
    out: int
    err: int
    #: exit code, negative for a signal; None while it runs
    exit_code: int | None = None
    _closed: bool = field(default=False, repr=False)

    def signal(self, number: int) -> None:
        if self.exit_code is None:
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


class Zygote:
    """A process with torch imported. Raises :class:`Unavailable` where it cannot be had.

    ``on_build`` is told if the agent has to be built first.
    """

    def __init__(
        self, modules: Sequence[str], *, on_build: Callable[[str], object] | None = None
    ) -> None:
        built = library(on_build)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {
            **os.environ,
            # Threads of these libraries would be threads that are not copied.
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            # The stock modules iterate over sets of names.
            "PYTHONHASHSEED": "0",
            "PYTHONMALLOC": "malloc",
            "GLIBC_TUNABLES": ":".join(_MALLOC),
            "PYTHONPATH": os.pathsep.join(
                [*filter(None, [os.environ.get("PYTHONPATH")]), str(PACKAGE.parent)]
            ),
        }
        #: what the zygote itself writes to standard error
        self._said = os.memfd_create("zygote")
        command = [sys.executable, "-P", "-m", "squall.real.native.zygote", str(os.getpid())]
        self._process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(built), *modules],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=self._said,
        )
        theirs.close()
        self._control = ours
        self._closed = False
        self.live: dict[int, Process] = {}
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

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def fork(self, entry: str, **spec: Any) -> Process:
        """A new worker process, which calls ``entry`` (``module:function``) with its end of a
        link and ``spec``."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
        request = json.dumps({"do": "fork", "entry": entry, **spec}).encode()
        socket.send_fds(self._control, [request], [theirs.fileno(), out, err])
        theirs.close()
        process = Process(self._read()["pid"], ours, out, err)
        self.live[process.pid] = process
        return process

    def kill(self, process: Process) -> int:
        """Kill it if it lives, wait for its end, and give its exit code."""
        process.signal(signal.SIGKILL)
        return self.reap(process)

    def reap(self, process: Process) -> int:
        """Wait for the end of a process that ends, and give its exit code."""
        if process.exit_code is None:
            self._control.send(json.dumps({"do": "reap", "pid": process.pid}).encode())
            process.exit_code = int(self._read()["status"])
            self.live.pop(process.pid, None)
        return process.exit_code

    def close(self) -> None:
        """End every process."""
        for process in list(self.live.values()):
            process.signal(signal.SIGKILL)
            process.close()
        self.live.clear()
        if self._closed:
            return
        self._closed = True
        self._control.close()
        self._process.kill()
        self._process.wait()
        os.close(self._said)

    def _read(self) -> dict[str, Any]:
        try:
            wait_readable(self._control, self._process.pid, _START_S)
            text = self._control.recv(1 << 16)
        except TimeoutError:
            text = b""
        if not text:
            last = _tail(self._said).strip().splitlines()[-1:] or ["nothing was said"]
            self.close()
            raise Unavailable(f"the process that imports torch ended: {last[0]}")
        read: dict[str, Any] = json.loads(text)
        return read
