"""What is not simulated is refused on the port, and told, whoever asks for it."""

from __future__ import annotations

import re
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from squall.properties.sim.scripts.test_processes import run
from squall.sim.names import EngineName

#: a compiled package, which all processes share
SHARED = """
import os, socket, threading, time

def wait(): time.sleep(1000)
def start(): threading.Thread(target=print).start()
def fork():
    if os.fork() == 0: os._exit(0)
def connect(): socket.socket().connect(("127.0.0.1", 9))
def store():
    from torch._C._distributed_c10d import TCPStore
    TCPStore("127.0.0.1", 0, 1, True)
"""
SCRIPT = """
import os, sys
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import shared
try:
    shared.{what}()
except RuntimeError as error:
    print(error)
"""


def script(folder: Path, what: str) -> str:
    """One that calls a function of the package."""
    package = folder / "site-packages" / "shared"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SHARED, encoding="utf-8")
    (package / "_core.abi3.so").write_text("", encoding="utf-8")
    return SCRIPT.format(what=what)


@pytest.mark.parametrize(
    ("what", "line", "asked"),
    [
        ("start", 5, "a real thread, at script.py:6: shared.start()"),
        ("fork", 7, "a real process"),
        ("connect", 8, "a real connection"),
        ("store", 11, "a real TCPStore"),
    ],
)
def test_a_shared_module_gets_an_error(tmp_path: Path, what: str, line: int, asked: str) -> None:
    _, said = run(tmp_path, "port", script(tmp_path, what))
    assert said.startswith(f"shared (__init__.py:{line}) asks for {asked}")
    assert "on --engine torch each worker is a process" in said


def test_the_sleep_of_a_shared_module_is_virtual(tmp_path: Path) -> None:
    found, said = run(tmp_path, "port", script(tmp_path, "wait"))
    assert (found.errors, said) == ([], "")
    assert 1000 <= found.ended_s < 1001


def test_outside_of_a_run_nothing_is_refused(tmp_path: Path) -> None:
    run(tmp_path, "port", "import torch.distributed\n")
    started = threading.Thread(target=time.sleep, args=(0.001,))
    started.start()
    started.join()
    TCPStore("127.0.0.1", 0, 1, True, timeout=timedelta(seconds=5))


def test_a_script_may_look_for_a_free_port_but_not_connect(tmp_path: Path) -> None:
    text = """
import socket
with socket.socket() as free:
    free.bind(("", 0))
    print(free.getsockname()[1] > 0)
    free.connect(("127.0.0.1", 9))
"""
    found, said = run(tmp_path, "port", text)
    assert said.startswith("True\n") and "real connection" in found.errors[0].message


CHECKPOINT = """
import os, sys
import torch, torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
there = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saved")
checkpoint.save({"all": torch.ones(2) * (rank + 1), f"of {rank}": [rank]}, checkpoint_id=there)
found = {"all": torch.zeros(2), f"of {rank}": [9]}
checkpoint.load(found, checkpoint_id=there)
print(rank, found, sorted(os.listdir(there)), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("engine", ["port", "torch"])
def test_modules_of_torch_that_build_on_groups_are_in_that_of_their_process(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    """A checkpoint is of all ranks. The lines are those of stock PyTorch."""
    found, said = run(tmp_path, engine, CHECKPOINT, workers=2)
    assert found.errors == []
    files = "['.metadata', '__0_0.distcp', '__1_0.distcp']"
    assert sorted(said.splitlines()) == [
        f"{rank} {{'all': tensor([1., 1.]), 'of {rank}': [{rank}]}} {files}" for rank in (0, 1)
    ]


@pytest.mark.parametrize(
    ("uses", "asks"),
    [
        ("fc.all_reduce(torch.ones(1), 'sum', dist.group.WORLD)", "a functional collective"),
        ("dist.group.WORLD._get_backend(torch.device('cpu'))", "_get_backend of a compiled process"),
    ],
)  # fmt: skip
def test_what_needs_a_compiled_group_is_refused(tmp_path: Path, uses: str, asks: str) -> None:
    text = f"""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
dist.init_process_group("gloo")
{uses}
"""
    found, _ = run(tmp_path, "port", text, workers=2)
    message = found.errors[0].message
    assert re.search(f"asks for ({asks})", message), message
    assert "--engine torch" in message


def test_a_mesh_is_refused(tmp_path: Path) -> None:
    text = """
import torch
from torch.distributed.device_mesh import init_device_mesh
init_device_mesh("cpu", (1,))
"""
    found, _ = run(tmp_path, "port", text, workers=1)
    assert "device_mesh.py" in found.errors[0].message
    assert "asks for a compiled process group, at script.py:4" in found.errors[0].message
