"""Tracebacks and stacks that a script prints, or that are printed of it, have no frame of squall's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.support.commands import squall
from squall.properties.support.playing import write
from squall.real.own_files import PACKAGE
from squall.sim.names import EngineName

SCRIPT = """
    import logging, os, queue, sys, threading, time, traceback
    import torch
    import torch.distributed as dist
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc

    def bad(x):
        raise ValueError("bad")

    def ask(to):
        return rpc.rpc_sync(to, bad, args=(1,))

    def refer(to):
        return rpc.remote(to, bad, args=(1,))

    class Destroyed:
        def __del__(self):
            refer("nobody")

    def show(function, *args):
        try:
            function(*args)
        except Exception:
            traceback.print_exc()
            logging.exception("logged")
            print(traceback.format_exc(), file=sys.stderr)

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        show(ask, "w1")
        show(refer, "nobody")
        show(rpc.rpc_sync, "w1", ask, ("w0",))
        show(lambda: refer("w1").to_here())
        show(lambda: rpc.rpc_async("w1", bad, args=(1,)).wait())
        show(lambda: dist_autograd.get_gradients(77))
        show(dist.all_reduce, torch.ones(1))
        show(dist.init_process_group, "nope")
        show(time.sleep, -1)
        show(threading.Lock().release)
        show(lambda: queue.Queue().get(timeout=0.01))
        show(os.stat, "/nowhere/x")
        for _ in range(2):
            threading.Thread(target=refer, args=("nobody",)).start()
        Destroyed()
        traceback.print_stack()
        print("".join(traceback.format_stack()), file=sys.stderr)
    rpc.shutdown()
    if rank == 0:
        sys.excepthook = lambda *error: traceback.print_exception(*error)
        refer("w1")
"""


def test_no_traceback_has_frames_of_squall(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    file = write(tmp_path, SCRIPT)
    # In a process of its own: pytest replaces the hook for errors of destructors.
    ran = squall("run", str(file), "--workers", "2", "--engine", engine)
    text = ran.stdout + ran.stderr
    assert text.count("Traceback") > 40 and text.count("Exception in thread") == 2
    own = [line for line in text.splitlines() if f'File "{PACKAGE}/' in line]
    assert not own


def test_outside_of_a_run_they_are_there(tmp_path: Path) -> None:
    from traceback import format_exc

    from squall.sim.faults.file import load_plan

    try:
        load_plan(tmp_path / "nothing.json")
    except OSError:
        assert f'File "{PACKAGE}/' in format_exc()
    else:
        pytest.fail("there is no such file")
