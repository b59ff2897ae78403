"""Each simulated process has its own modules, and they behave like modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from squall.properties.support.commands import squall
from squall.properties.support.playing import play, write

PACKAGE = {
    "helper.py": """
        counter = 0
        def bump(n=1):
            global counter
            counter += n
            return counter
        class Thing:
            def __init__(self, x):
                self.x = x
    """,
    "pkg/__init__.py": """
        from . import a
        from .b import Point
        __all__ = ["a", "lazy"]
    """,
    "pkg/a.py": "import pkg.b as late\nfrom . import b\nVALUE = b.BASE + 1\n",
    "pkg/lazy.py": "VALUE = 5\n",
    "pkg/b.py": """
        from dataclasses import dataclass, field
        from enum import Enum
        from typing import NamedTuple
        BASE = 6
        class Color(Enum):
            RED = 1
        @dataclass
        class Point:
            x: "int" = 3
            names: list = field(default_factory=list)
            color: Color = Color.RED
        class Pair(NamedTuple):
            a: int
            b: str
    """,
    "space/inner.py": "WHERE = __name__\n",
}


def folder(tmp_path: Path) -> Path:
    for name, source in PACKAGE.items():
        write(tmp_path, source, name)
    return tmp_path


def test_user_modules_work_as_under_python(tmp_path: Path) -> None:
    script = write(
        folder(tmp_path),
        """
        import copy, dataclasses, importlib, inspect, io, os, pickle, sys, types, typing
        import helper
        import pkg
        import pkg.a as deep
        from pkg import *
        from pkg.b import Color, Pair, Point
        import space.inner
        import torch
        import torch.distributed.rpc as rpc
        from torch import distributed as dist

        assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals()
        assert deep.VALUE == 7 and lazy.VALUE == 5 and a is deep and pkg.a is deep
        assert space.inner.WHERE == "space.inner"
        assert sys.modules["helper"] is helper and "no.such" not in sys.modules
        assert importlib.import_module("pkg.b") is pkg.b
        assert importlib.import_module(".b", "pkg") is pkg.b
        assert isinstance(torch, types.ModuleType) and torch.nn is sys.modules["torch"].nn
        assert dist.rpc is rpc and rpc.__name__ == "torch.distributed.rpc"
        assert "rpc_sync" in dir(rpc) and "ones" in dir(torch)
        assert typing.get_type_hints(Point)["x"] is int
        assert inspect.getsource(helper.bump).startswith("def bump")
        point = Point(5, [Pair(1, "a")])
        for way in (copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))):
            assert way(point) == point and type(way(point)) is Point
        file = io.BytesIO()
        torch.save({"point": point, "thing": helper.Thing(2)}, file)
        file.seek(0)
        assert type(torch.load(file, weights_only=False)["thing"]) is helper.Thing
        helper.bump(3)
        assert importlib.reload(helper) is helper and helper.counter == 0
        spec = importlib.util.spec_from_file_location("extra", os.path.join(os.path.dirname(__file__), "extra.py"))
        extra = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(extra)
        assert extra.sleep is __import__("time").sleep
        try:
            import missing_module
        except ModuleNotFoundError as error:
            print(error, error.name)
        try:
            from helper import nothing
        except ImportError as error:
            print(type(error).__name__)
        namespace = {}
        exec("import time; t = time.time()", namespace)
        assert namespace["t"] > 1704067200 - 1

        @torch.jit.script
        def scripted(x: torch.Tensor, n: int) -> torch.Tensor:
            return torch.relu(x) * n
        print(scripted(torch.tensor([1.0, -1.0]), 3).tolist())
        """,
    )
    write(tmp_path, "from time import sleep\n", "extra.py")
    played = play(script)
    assert played.results[0].error is None, played.err
    assert played.lines == [
        "No module named 'missing_module' missing_module",
        "ImportError",
        "[3.0, 0.0]",
    ]
    assert "helper" not in sys.modules and "pkg.b" not in sys.modules


def test_globals_of_user_modules_are_private_to_a_process(tmp_path: Path) -> None:
    script = write(
        folder(tmp_path),
        """
        import os, threading
        import helper
        import torch.distributed.rpc as rpc
        import torch.multiprocessing as mp
        seen = []

        def add(x):
            seen.append(x)
            return len(seen), helper.bump(), os.environ.get("COLOR"), type(helper.Thing(1)).__module__

        def thing():
            return helper.Thing(9)

        def run(rank, n):
            os.environ["COLOR"] = f"color {rank}"
            os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
            rpc.init_rpc(f"w{rank}", rank=rank, world_size=n)
            if rank == 0:
                print([rpc.rpc_sync(f"w{r}", add, args=(1,)) for r in (0, 1, 1, 2)])
                got = rpc.rpc_sync("w1", thing)
                print(type(got) is helper.Thing, len(seen), __name__)
            rpc.shutdown()

        if __name__ == "__main__":
            helper.bump(100)
            mp.spawn(run, args=(3,), nprocs=3)
            print(helper.counter, seen, os.environ.get("COLOR"))
        """,
    )
    played = play(script)
    assert played.lines == [
        "[(1, 1, 'color 0', 'helper'), (1, 1, 'color 1', 'helper'), "
        "(2, 2, 'color 1', 'helper'), (1, 1, 'color 2', 'helper')]",
        "True 1 __mp_main__",
        "100 [] None",
    ], played.err


#: a user's project whose modules have the names of folders of squall's
NAMESAKES = {
    "model.py": """
        import torch
        calls = 0
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.full((2,), 3.0))
            def forward(self, x):
                return x * self.weight
        def forward(x):
            global calls
            calls += 1
            return Net()(x), calls
    """,
    "real.py": "SCALE = 2\ndef scale(x):\n    return x * SCALE\n",
    "properties.py": "def name():\n    return __name__, __file__\n",
    "sim/__init__.py": "from sim.world import step\n",
    "sim/world.py": """
        import os
        def step(x):
            return x + int(os.environ["MY_RANK"])
    """,
    "script.py": """
        import os
        import torch
        import torch.distributed.autograd as dist_autograd
        import torch.distributed.rpc as rpc
        import torch.multiprocessing as mp
        import model, properties, real, sim, sim.world

        def run(rank):
            os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
            os.environ["MY_RANK"] = str(rank)
            real.SCALE += rank
            rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
            if rank == 0:
                other = "worker1"
                with dist_autograd.context() as context:
                    x = torch.ones(2, requires_grad=True)
                    y, calls = rpc.rpc_sync(other, model.forward, args=(x,))
                    loss = rpc.rpc_sync(other, real.scale, args=(y,)).sum()
                    dist_autograd.backward(context, [loss])
                    gradient = dist_autograd.get_gradients(context)[x]
                print(gradient.tolist(), calls, model.calls, real.SCALE)
                print(*rpc.rpc_sync(other, properties.name))
                print(rpc.rpc_sync(other, sim.step, args=(40,)), sim.world.step(40))
                net = rpc.remote(other, model.Net)
                print(net.rpc_sync().forward(torch.ones(2)).tolist(), type(net.to_here()) is model.Net)
            rpc.shutdown()

        if __name__ == "__main__":
            mp.spawn(run, nprocs=2)
            print(sim.__name__, sim.world.__name__)
    """,
}


def namesakes(folder: Path) -> tuple[Path, list[str]]:
    """The script of that project, and the lines it prints."""
    for name, source in NAMESAKES.items():
        write(folder, source, name)
    return folder / "script.py", [
        "[9.0, 9.0] 1 0 2",
        f"properties {folder / 'properties.py'}",
        "41 40",
        "[3.0, 3.0] True",
        "sim sim.world",
    ]


def test_user_modules_may_be_called_like_folders_of_squall(tmp_path: Path) -> None:
    script, lines = namesakes(tmp_path)
    played = play(script)
    assert played.lines == lines, played.err
    assert not {"model", "real", "properties", "sim"} & sys.modules.keys()


def test_the_command_runs_them_too(tmp_path: Path) -> None:
    script, lines = namesakes(tmp_path)
    ran = squall("run", str(script))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[: len(lines)] == lines


def test_two_processes_import_at_once(tmp_path: Path) -> None:
    write(tmp_path, "import time\nready = False\ntime.sleep(0.5)\nready = True\n", "slow.py")
    script = write(
        tmp_path,
        """
        import threading
        def load(out):
            import slow
            out.append(slow.ready)
        out = []
        threads = [threading.Thread(target=load, args=(out,)) for _ in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(out)
        """,
    )
    assert play(script).lines == ["[True, True]"]


def test_what_an_installer_put_somewhere_with_compiled_modules_is_executed_once(
    tmp_path: Path,
) -> None:
    """``pip install --target``: compiled packages bear no second copy. A folder of the user's own, beside
    it on the path, is executed for each process."""
    write(tmp_path, "", "target/installed/_core.abi3.so")
    write(tmp_path, "", "target/installed-1.0.dist-info/METADATA")
    write(tmp_path, "", "target/installed/__init__.py")
    write(tmp_path, "", "mine/mine.py")
    source = """
        import installed, mine
        import torch.multiprocessing as mp
        def show(rank):
            print(id(installed), id(mine))
        if __name__ == "__main__":
            mp.spawn(show, nprocs=2)
            show(2)
    """
    script = write(tmp_path, source, "scripts/start.py")
    path = os.pathsep.join([str(tmp_path / "target"), str(tmp_path / "mine")])
    said = squall("run", str(script), PYTHONPATH=path)
    installed, mine = zip(*(line.split() for line in said.stdout.splitlines()[:3]), strict=True)
    assert (len(set(installed)), len(set(mine))) == (1, 3), said.stderr
