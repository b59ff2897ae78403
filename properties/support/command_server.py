"""A process that has imported all of squall and is copied for each command: a test of the command line
need not import torch again, which takes seconds.

    done = Commands(env).run(["squall", "run", "x.py"], env, timeout_s=60)

The copy has the environment, the arguments and the pipes of a process that was started with the command. What only
the start of an interpreter can say (``PYTHONHASHSEED``, what a command imports, how a signal ends it before
it has begun) is tested with real starts.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from squall.properties.support.paths import ROOT
from squall.sim.world.sandbox import end_with_parent

#: packages of which everything is imported
_PACKAGES = ("squall.real", "squall.model", "squall.sim")
#: modules of which the names begin so are left out: they make the process that imports them another one, or
#: import a library that starts threads, which are not copied
_NOT_IMPORTED = (
    "squall.sim.campaigns.parquet",
    "squall.sim.campaigns.ray_",
    "squall.sim.pictures.events_frame",
    "squall.sim.stock.guest",
)
#: variables of which the names begin so count as an interpreter starts, and never again
_AT_THE_START = ("PYTHON", "LD_", "OMP_", "MKL_", "GLIBC_", "MALLOC_")


def counts_at_the_start(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that a copy does not hear of."""
    return {name: value for name, value in env.items() if name.startswith(_AT_THE_START)}


class Commands:
    """The process, and the commands that it runs. ``env``: what it is started with."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.started_with = counts_at_the_start(env)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # who interrupts the tests interrupts no command
                preexec_fn=end_with_parent,
            )
        self._control.recv(1)
        atexit.register(self.close)

    def run(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        timeout_s: float,
        folder: Path = ROOT,
        together: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """``squall``, ``pytest`` or ``python FILE`` with words, as ``subprocess.run`` would run it in the folder.

        ``together``: what it writes to standard error comes in its order in standard output.
        """
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        asked = json.dumps(
            {"words": list(words), "env": dict(env), "folder": str(folder), "together": together}
        ).encode()
        with open(out, "rb", buffering=0) as stdout, open(err, "rb", buffering=0) as stderr:
            with _memory(asked) as file:
                socket.send_fds(self._control, [b"run"], [file.fileno(), their_out, their_err])
            os.close(their_out)
            os.close(their_err)
            pid = json.loads(self._control.recv(100))
            try:
                told = _read([stdout, stderr], timeout_s)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._wait(pid)
                raise subprocess.TimeoutExpired(list(words), timeout_s) from None
        texts = [text.decode().replace("\r\n", "\n") for text in told]
        return subprocess.CompletedProcess(list(words), self._wait(pid), *texts)

    def _wait(self, pid: int) -> int:
        self._control.send(b"wait %d" % pid)
        return int(self._control.recv(100))

    def close(self) -> None:
        self._control.close()
        self._process.wait()


def _memory(content: bytes) -> IO[bytes]:
    """A file without a place that holds this."""
    file = open(os.memfd_create("asked"), "w+b")  # noqa: SIM115 - whoever asks closes it
    file.write(content)
    file.seek(0)
    return file


def _read(files: Sequence[IO[bytes]], timeout_s: float) -> list[bytes]:
    """All that comes until the files end. Raises TimeoutError."""
    ends = time.monotonic() + timeout_s
    told = {file: bytearray() for file in files}
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(ends - time.monotonic())
            if not ready and time.monotonic() > ends:
                raise TimeoutError
            for key, _ in ready:
                it: Any = key.fileobj
                chunk = it.read(1 << 16)
                told[it] += chunk
                if not chunk:
                    selector.unregister(it)
    return [bytes(told[file]) for file in files]


def main(control_fd: int) -> None:
    """In the server: copies of it, until who asks for them is gone."""
    control = socket.socket(fileno=control_fd)
    for package in _PACKAGES:
        _import_all(package)
    _read_commands()
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads - 1} threads would not be copied"
    gc.collect()
    gc.freeze()
    control.send(b"1")
    while True:
        text, fds, _, _ = socket.recv_fds(control, 100, 8)
        if not text:
            return
        if text != b"run":
            _, status = os.waitpid(int(text.split()[1]), 0)
            control.send(b"%d" % os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            _be_the_command(*fds)
        for fd in fds:
            os.close(fd)
        control.send(json.dumps(pid).encode())


def _import_all(package: str) -> None:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not found.name.startswith(_NOT_IMPORTED) and not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def _read_commands() -> None:
    from squall.sim.cli.main import command

    command()


def _be_the_command(file: int, out: int, err: int) -> None:
    with open(file, "rb") as asked:
        told = json.loads(asked.read())
    os.dup2(out, 1)
    os.dup2(out if told["together"] else err, 2)
    os.close(out)
    os.close(err)
    # New ones: those of the server may be of files, and would look where in them they are.
    for fd, name in (1, "stdout"), (2, "stderr"):
        before = getattr(sys, name)
        how = {"encoding": before.encoding, "errors": before.errors, "closefd": False}
        stream = open(fd, "w", buffering=1 if told["together"] or fd == 2 else -1, **how)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["folder"])
    time.tzset()
    code: Any = 1
    try:
        code = _run(told["words"])
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does as it ends
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _run(words: list[str]) -> int:
    program, *rest = words
    if program == "squall":
        from squall.sim.cli.entry import main as entry

        sys.argv[:] = words
        entry()
    elif program == "pytest":
        sys.path.insert(0, "")
        # What it would rewrite is imported already.
        quiet = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
        return int(pytest.main([*quiet, *rest]))
    elif program == "python":
        sys.argv[:] = rest
        sys.path.insert(0, "")
        runpy.run_path(rest[0], run_name="__main__")
    else:
        raise ValueError(f"{program} is no command that is run here")
    return 0


if __name__ == "__main__":
    main(int(sys.argv[1]))
