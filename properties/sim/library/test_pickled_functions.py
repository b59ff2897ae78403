"""What functions of a main module may use, and how it comes to the ranks."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from squall.sim.library.pickled_functions import carried, opened

TIMEOUT_S = 240
SCRIPT = """from __future__ import annotations
import enum
import functools
import logging
import random
import threading
import uuid
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef, remote
from torch.distributed.optim import DistributedOptimizer
import torch.distributed.autograd as dist_autograd
import squall

log = logging.getLogger(__name__)
class Color(enum.Enum):
    RED = 1
@dataclass
class Point:
    x: int
    y: list = field(default_factory=list)
    def go(self): return Point(self.x + 1, [*self.y, 1])
class Pair(NamedTuple):
    a: int
    b: int = 2
class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.l = nn.Linear(n, n)
class Net(Base):
    def __init__(self, n):
        super().__init__(n)
        self.k = 2
    def forward(self, x): return F.relu(self.l(x)) * self.k
    def refs(self): return [RRef(p) for p in self.parameters()]
    @staticmethod
    def st(): return 5
    @classmethod
    def cl(cls): return cls.__name__
    @property
    def pr(self): return self.k
def deco(f):
    @functools.wraps(f)
    def w(*a, **k):
        return f(*a, **k)
    return w
@deco
def show(c, p, q):
    assert c is Color.RED and isinstance(p, Point) and isinstance(q, Pair), (c, p, q)
    log.warning("hi")
    return c, p.go(), Pair(q.b, q.a)
def fact(n): return 1 if n < 2 else n * fact(n - 1)
CONFIG = Point(5)
LOCK = threading.Lock()
def opts(r): return r.local_value().refs()
def step(rank, size=2):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
    out = None
    if rank == 0:
        with LOCK:
            out = rpc.rpc_sync("w1", show, args=(Color.RED, CONFIG, Pair(1)))
        assert fields(Point)[0].name == "x" and replace(CONFIG, x=3).x == 3
        r = remote("w1", Net, args=(3,))
        ps = rpc.rpc_sync("w1", opts, args=(r,))
        with dist_autograd.context() as cid:
            y = r.rpc_sync().forward(torch.rand(2, 3))
            dist_autograd.backward(cid, [y.sum()])
            DistributedOptimizer(torch.optim.SGD, ps, lr=0.1).step(cid)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(fact, [3, 4])) == [6, 24]
        assert Net.st() == 5 and Net.cl() == "Net" and Net(2).pr == 2
        random.random(); np.random.rand(); uuid.uuid4()
    rpc.shutdown()
    return out, fact(5)

run = squall.run(step, workers=2, engine=ENGINE).raise_if_failed()
(color, point, pair), product = run.results[0]
assert color is Color.RED and product == 120
assert (point, pair) == (Point(6, [1]), Pair(2, 1))
print("as here")
"""


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("compiled_engine")
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_a_main_module_with_everything_in_it(tmp_path: Path, engine: str) -> None:
    script = tmp_path / "trial.py"
    script.write_text(SCRIPT.replace("ENGINE", repr(engine)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "as here" in done.stdout, done.stdout + done.stderr


def again(value: object) -> Any:
    return opened(carried(value), importlib.import_module, {})


def test_functions_within_others_may_call_each_other_and_share_variables() -> None:
    count = 0

    def odd(n: int) -> bool:
        nonlocal count
        count += 1
        return n > 0 and even(n - 1)

    def even(n: int) -> bool:
        nonlocal count
        count += 1
        return n == 0 or odd(n - 1)

    first, second, counted = again((odd, even, lambda: count))
    assert first(3) and second(4) and not first(2)
    assert (counted(), count) == (4 + 5 + 3, 0)


def test_a_function_keeps_its_defaults_and_its_attributes() -> None:
    def scaled(n: int, by: int = 3, *, more: int = 1) -> int:
        return n * by + more

    scaled.unit = "s"  # type: ignore[attr-defined]
    found = again(scaled)
    assert found(2) == 7 and found(2, 2, more=0) == 4
    assert (found.unit, found.__qualname__) == ("s", scaled.__qualname__)


def test_what_has_a_name_travels_as_that() -> None:
    assert again(subprocess.run) is subprocess.run
    assert again(sys) is sys
    assert again(importlib.import_module) is importlib.import_module
