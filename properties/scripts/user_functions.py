"""What people send as functions and arguments: classes, partials, enums, dataclasses, NumPy."""

import dataclasses
import enum
import functools
import logging
import os
import sys
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
log = logging.getLogger(__name__)


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = "eval"


class Flag(enum.IntFlag):
    A = 1
    B = 2


Point = namedtuple("Point", "x y")


@dataclass
class Config:
    lr: float = 0.1
    layers: list[int] = field(default_factory=lambda: [1, 2])
    mode: Mode = Mode.TRAIN
    t: torch.Tensor | None = None


@dataclass(frozen=True)
class Key:
    a: int
    b: str


def traced(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return ("traced", fn(*args, **kwargs))

    return wrapper


@traced
def decorated(x, y=2):
    return x + y


def takes_config(c: Config):
    return dataclasses.replace(c, lr=c.lr * 2, t=c.t + 1), c.mode is Mode.TRAIN, type(c).__module__


class Thing:
    count = 0

    def __init__(self, v):
        self.v = v
        type(self).count += 1

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def st(a, b):
        return a * b

    def meth(self, k):
        return self.v * k

    def __eq__(self, other):
        return isinstance(other, Thing) and other.v == self.v

    def __hash__(self):
        return hash(self.v)

    def __repr__(self):
        return f"Thing({self.v})"

    def __call__(self, z):
        return self.v - z

    @property
    def prop(self):
        return self.v

    class Inner:
        def hello(self):
            return "inner"


class Adder(torch.nn.Module):
    def forward(self, x):
        return x + 1


def many(*args, a=1, **kw):
    return args, a, sorted(kw.items())


def identity(x):
    return x


def gen(n):
    return [i * i for i in range(n)]


def np_fn(a):
    return a.sum(), a * 2, np.float32(1.5), a.dtype


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        log.info("hello from %s", rpc.get_worker_info().name)
        print(rpc.rpc_sync("w1", takes_config, args=(Config(t=torch.zeros(2)),)))
        print(rpc.rpc_sync("w1", identity, args=({Key(1, "a"): Mode.EVAL, "f": Flag.A | Flag.B},)))
        print(rpc.rpc_sync("w1", identity, args=(Point(1, torch.ones(1)),)))
        print(rpc.rpc_sync("w1", decorated, args=(3,), kwargs={"y": 4}))
        print(
            rpc.rpc_sync(
                "w1", functools.partial(many, 1, a=5), args=(2,), kwargs={"z": 3, "b": None}
            )
        )
        t = rpc.rpc_sync("w1", Thing.make, args=(7,))
        print(
            t,
            t == Thing(7),
            rpc.rpc_sync("w1", Thing.st, args=(3, 4)),
            rpc.rpc_sync("w1", t.meth, args=(3,)),
        )
        print(rpc.rpc_sync("w1", Thing.meth, args=(t, 5)), rpc.rpc_sync("w1", t, args=(2,)))
        print(
            rpc.rpc_sync("w1", Thing.Inner().hello),
            type(rpc.rpc_sync("w1", Thing.Inner)).__qualname__,
        )
        r = rpc.remote("w1", Thing, args=(9,))
        print(
            r.rpc_sync().meth(2),
            r.remote().meth(4).to_here(),
            r.rpc_async().st(2, 2).wait(),
            r.rpc_sync().make(1),
        )
        print(rpc.rpc_sync("w1", gen, args=(5,)))
        print(rpc.rpc_sync("w1", np_fn, args=(np.arange(4.0),)))
        print(
            list(rpc.rpc_sync("w1", identity, args=(OrderedDict(a=1, b=[2, (3, {4})]),)).items()),
            rpc.rpc_sync("w1", identity, args=(Counter("aab"),)),
        )
        print(
            rpc.rpc_sync("w1", len, args=("unicode ✓ \U0001f600",)),
            rpc.rpc_sync("w1", str.upper, args=("abc",)),
        )
        print(rpc.rpc_sync("w1", "abc".join, args=(["x", "y"],)))
        print(rpc.rpc_sync("w1", Adder(), args=(torch.ones(1),)))
        print(rpc.rpc_sync("w1", torch.nn.functional.relu, args=(torch.tensor([-1.0, 1.0]),)))
        print(
            rpc.rpc_sync("w1", torch.Tensor.add, args=(torch.ones(1), 2)),
            rpc.rpc_sync("w1", torch.ones(2).mul, args=(3,)),
        )
        print(
            rpc.rpc_sync("w1", os.path.join, args=("a", "b")),
            rpc.rpc_sync("w1", np.add, args=(1, 2)),
        )
        print(
            rpc.rpc_sync(1, identity, args=(None,)),
            rpc.rpc_sync(rpc.get_worker_info("w1"), identity, args=(Ellipsis,)),
        )
        for bad in (lambda x: x, (i for i in range(3))):
            try:
                rpc.rpc_sync("w1", identity, args=(bad,))
            except Exception as e:
                print(type(e).__name__, str(e).split(" at 0x")[0])

        def local(x):
            return x

        for fn in (lambda x: x, local):
            try:
                rpc.rpc_sync("w1", fn, args=(1,))
            except Exception as e:
                print(type(e).__name__, str(e).split(" at 0x")[0])
        dd = defaultdict(list)
        dd["a"].append(1)
        print(rpc.rpc_sync("w1", identity, args=(dd,)))
        e = rpc.rpc_sync("w1", identity, args=(ValueError("a value"),))
        print(repr(e))
        print(
            rpc.rpc_sync("w1", identity, args=(torch.Size([1, 2]),)),
            rpc.rpc_sync("w1", identity, args=(torch.float16,)),
            rpc.rpc_sync("w1", identity, args=(torch.device("cpu"),)),
        )
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
