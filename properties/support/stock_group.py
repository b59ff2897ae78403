"""Runs many scripts on stock PyTorch, in processes that are forked from one that has imported it.

Starting Python and importing torch takes seconds a process; a fork does not. Each script runs as
it does otherwise: a process for each worker, which loads the script as its main module and calls
its ``run(rank)``, over TensorPipe. The store that they meet at has a process of its own, as under
torchrun: if rank 0 kept it, ranks that still count their calls in ``shutdown()`` would lose it
when rank 0 leaves, which a loaded machine shows now and then.

    with StockGroup() as group:
        done = group.run(path, workers=3, timeout_s=60)
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_FORKING = """
import os, sys, signal, time, types, traceback
import torch, torch.distributed.rpc, torch.distributed.autograd, torch.distributed.optim
import torch.multiprocessing
import torch.distributed as dist
torch.set_num_threads(1)
os.environ.update(
    MASTER_ADDR="127.0.0.1", TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0"
)

def store(port):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        kept = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        os.write(writing, b"1")
        while os.getppid() == group:
            time.sleep(1)
        os._exit(0)
    os.close(writing)
    ready = os.read(reading, 1)
    os.close(reading)
    if not ready:
        sys.exit("no store at port " + str(port))
    return pid

def worker(path, rank):
    module = types.ModuleType("__mp_main__")
    module.__file__ = path
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    exec(compile(open(path).read(), path, "exec"), module.__dict__)
    module.run(rank)

group = os.getpid()
print("ready", flush=True)
for line in sys.stdin:
    path, workers, port, out, seconds = line.rstrip("\\n").split("\\t")
    pids = []
    os.environ["MASTER_PORT"] = port
    host = store(int(port))
    for rank in range(int(workers)):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            signal.alarm(int(seconds))
            file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(file, 1)
            os.dup2(file, 2)
            # A line is one write, whatever PYTHONUNBUFFERED says: others write to the file as well.
            sys.stdout = open(1, "w", closefd=False)
            try:
                worker(path, rank)
                code = 0
            except BaseException:
                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    os.kill(host, signal.SIGKILL)
    os.waitpid(host, 0)
    print(*codes, flush=True)
"""


class Done(NamedTuple):
    """What became of a script: what its processes printed, and their exit codes (negative: of that
    signal; -SIGALRM for one that did not end in time)."""

    output: str
    exit_codes: list[int]

    @property
    def ended(self) -> bool:
        """Whether it came to an end by itself."""
        return -signal.SIGALRM not in self.exit_codes


class StockGroup:
    """A process that has imported torch and is forked for each worker of each script."""

    def __enter__(self) -> StockGroup:
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORKING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()

    def run(self, path: Path, *, workers: int, timeout_s: int = 60) -> Done:
        """Run a script that exports a program; each process ends after ``timeout_s``."""
        out = Path(self._folder.name) / f"{time.monotonic_ns()}.txt"
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path}\t{workers}\t{port}\t{out}\t{timeout_s}\n")
        self._process.stdin.flush()
        codes = [int(word) for word in self._process.stdout.readline().split()]
        return Done(out.read_text(encoding="utf-8") if out.exists() else "", codes)
