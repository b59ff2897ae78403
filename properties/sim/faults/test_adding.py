"""A new kind of fault is one new file: nothing else knows its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.support.paths import ROOT

KIND = '''
"""Messages of one type that take twice as long."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal

from squall.model.events.names import type_named
from squall.real.rpc.message import Message
from squall.sim.faults.choices import ALL_TYPES, Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.limits import MessageTypeName
from squall.sim.faults.links import LateLink, LinkFault


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowType(LinkFault):
    """Messages of type ``type`` take twice as long."""

    kind: Literal["slow_type"] = "slow_type"
    type: MessageTypeName

    def done_to(self, links: str) -> str:
        return f"lets each {type_named(self.type)} on {links} take twice as long"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Twice(self, name, injection)


class _Twice(LateLink[SlowType]):
    def covers(self, message: Message, time_s: float) -> bool:
        return message.type.name == self.item.type and super().covers(message, time_s)

    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        return arrives_s + (arrives_s - sent_s)


@drawn("slow type", mild=True)
def one(choices: Choices, stream: random.Random) -> list[SlowType]:
    return [SlowType(type=stream.choice(ALL_TYPES))]
'''

SCRIPT = """
import os
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def work(rank, size):
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank == 0:
        began = time.monotonic()
        rpc.rpc_sync("worker1", abs, args=(-1,))
        print(f"took {time.monotonic() - began:.1f} s")
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A squall of which sim/faults is a copy, and has one module more."""
    package = tmp_path / "squall"
    (package / "sim").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(ROOT / "squall" / name, package)
    for name in ("real", "model"):
        (package / name).symlink_to(ROOT / name)
    for path in (ROOT / "sim").iterdir():
        if path.name != "faults":
            (package / "sim" / path.name).symlink_to(path)
    faults = package / "sim" / "faults"
    shutil.copytree(ROOT / "sim" / "faults", faults, ignore=shutil.ignore_patterns("__pycache__"))
    (faults / "kinds" / "slow_type.py").write_text(KIND, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def start(tree: Path, *words: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, "-m", "squall", *words],
        cwd=tree,
        env={**environment, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_new_kind_is_one_new_file(tree: Path) -> None:
    plan = {"version": 1, "links": [{"kind": "slow_type", "type": "PYTHON_CALL", "src": 0}]}
    (tree / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    run = start(tree, "run", "script.py", "--latency", "1", "--faults", "plan.json")
    fuzz = start(tree, "fuzz", "--seeds", "0:60", "--faults", "storm", "--stats", "--json")
    # There in two seconds instead of one, and back in one.
    out, errors = run.communicate()
    assert (run.returncode, "took 3.0 s" in out) == (0, True), out + errors
    # A campaign draws it, counts it, and holds.
    out, errors = fuzz.communicate()
    assert fuzz.returncode == 0, out + errors
    assert json.loads(out)["faults"]["slow_type"] > 0
