"""A process that has imported torch and is copied for every worker: ``python -m squall.real.native.fork_server``.

A copy can be such a process itself, of which more has been imported (:func:`serve`). It has one
thread and never a second, so that a copy of it is sound. First it says that it is ready, how many threads it
has and which torch, or which module is missing. Then the coordinator sends it one JSON object a request, with file
descriptors beside it, and reads one for each:

``{"do": "fork", "entry": "module:function", "folder": …}`` and three descriptors (the link to the coordinator,
standard output, standard error) -> ``{"pid": …}``. The copy calls the entry with the link, in that folder.
``{"do": "reap", "pid": …}`` -> ``{"status": …}`` when it has ended, as ``os.waitstatus_to_exitcode``
gives it.

Whoever loses its parent is killed by the kernel: a copy with the fork server, the fork server with the
coordinator.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import sys
import traceback
import weakref
from types import ModuleType
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
#: how many passes of a worker can run nodes at the same time. By default there is a thread for each
#: core, and what passes come to whose hooks sleep would depend on the machine.
_PASSES_AT_ONCE = 8


def die_with_parent(parent: int) -> None:
    """Be killed when ``parent``, the parent of this process, ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(0)


def load(path: str) -> ModuleType:
    """The extension module at ``path``."""
    spec = importlib.util.spec_from_file_location("squall_agent", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["squall_agent"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parent, control_fd, library, *modules = sys.argv[1:]
    die_with_parent(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the coordinator's to hear
    gc.disable()  # it is collected once, when all is there
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(_PASSES_AT_ONCE)
    load(library)
    serve(int(control_fd), {"modules": modules})


def serve(control_fd: int, asked: dict[str, Any]) -> None:
    """Import the ``modules`` that are asked for, and make copies of this process from then on."""
    gc.disable()
    torch = sys.modules["torch"]
    control = socket.socket(fileno=control_fd)
    try:
        for called in asked["modules"]:
            name, _, call = called.partition(":")
            module = importlib.import_module(name)
            if call:
                function, *given = call.split(" ", 1)
                getattr(module, function)(*given)
    except ModuleNotFoundError as error:
        control.send(json.dumps({"missing": error.name}).encode())
        return
    # What the libraries would put in order as a process ends, 30 ms in each copy, ends with it.
    for finalizer in list(vars(weakref.finalize)["_registry"]):
        finalizer.atexit = False
    gc.collect()
    gc.freeze()
    threads = len(os.listdir("/proc/self/task"))
    control.send(
        json.dumps({"ready": True, "threads": threads, "torch": torch.__version__}).encode()
    )
    while True:
        text, fds, _, _ = socket.recv_fds(control, 1 << 16, 8)
        if not text:
            os._exit(0)
        request = json.loads(text)
        control.send(json.dumps(_serve(request, fds, control)).encode())


def _serve(request: dict[str, Any], fds: list[int], control: socket.socket) -> dict[str, Any]:
    if request["do"] == "reap":
        _, status = os.waitpid(request["pid"], 0)
        return {"status": os.waitstatus_to_exitcode(status)}
    me = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_worker(me, request, fds, control)
    for fd in fds:
        os.close(fd)
    return {"pid": pid}


def _be_worker(
    parent: int, request: dict[str, Any], fds: list[int], control: socket.socket
) -> NoReturn:
    try:
        die_with_parent(parent)
        control.close()
        link, out, err = fds
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        os.chdir(request["folder"])
        faulthandler.enable()
        # Its pool of threads is made anew by the first thread of a copy that asks, and is none for a
        # second one that asks meanwhile, which ends the process.
        sys.modules["torch"].set_num_threads(1)
        module, _, name = request["entry"].partition(":")
        getattr(importlib.import_module(module), name)(link, request)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)


if __name__ == "__main__":
    main()
