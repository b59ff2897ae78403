"""Installed packages are a process's own, as between real processes, where a process could tell."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from squall.properties.sim.scripts.test_processes import run
from squall.properties.support.commands import squall
from squall.sim.names import EngineName
from squall.sim.scripts.installed import Installed, installed_spec

ENGINES = pytest.mark.parametrize("engine", ["port", "torch"])

#: packages by file; the script has their folder in its path
PACKAGES = {
    "thinrpc": """
        import torch, torch.distributed.rpc as rpc
        def start(rank, world): rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)
        def add(to): return rpc.rpc_sync(to, torch.add, args=(torch.tensor(1), 2)).item()
        def stop(): rpc.shutdown()
        """,
    "keeper": """
        import time
        seen = []
        def note(x):
            seen.append(x)
            return len(seen)
        def now(): return time.time()
        """,
    "logs": """
        import logging
        logger = logging.getLogger("logs")
        handler = logging.StreamHandler(__import__("sys").stdout)
        logger.addHandler(handler)
        """,
    "above": "import keeper\n",
    "plain": "seen = []\n",
    "nested/plain": "seen = []\n",
    "polls": """
        import torch.futures
        def until(done):
            while not done():
                pass
        """,
    "operators/__init__": "import time\nfrom operators import defined\n",
    "operators/defined": """
        import torch
        library = torch.library.Library("squall_test_defined", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

        @torch.library.custom_op("squall_test_custom::thrice", mutates_args=())
        def thrice(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        @torch.library.register_fake("squall_test_defined::twice")
        def _(x):
            return torch.empty_like(x)

        @torch._decomp.register_decomposition([torch.ops.squall_test_defined.twice])
        def _(x):
            return x + x
        """,
}

START = """
import os, sys, time
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import torch, torch.distributed.rpc as rpc
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
"""
GROUP = f"{START}rpc.init_rpc(f'w{{rank}}', rank=rank, world_size=world)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of packages."""
    for name, text in PACKAGES.items():
        lines = [line.removeprefix("        ") for line in text.splitlines()]
        file = tmp_path / "site-packages" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


@ENGINES
def test_one_that_uses_rpc_joins_the_group_of_its_process(
    folder: Path, engine: EngineName, compiled_engine: None
) -> None:
    body = (
        "import thinrpc\nthinrpc.start(rank, world)\n"
        "if rank == 0: print('got', thinrpc.add('w1'))\nthinrpc.stop()\n"
    )
    found, said = run(folder, engine, START + body, workers=2)
    assert (found.errors, said) == ([], "got 3\n")


@ENGINES
def test_its_state_and_its_clock_are_of_its_process(
    folder: Path, engine: EngineName, compiled_engine: None
) -> None:
    body = (
        "import above\nkeeper = above.keeper\nbefore = keeper.now()\ntime.sleep(1)\n"
        "print(keeper.note(rank), round(keeper.now() - before))\nrpc.shutdown()\n"
    )
    found, said = run(folder, engine, GROUP + body, workers=2)
    assert (found.errors, said) == ([], "1 1\n1 1\n")


@ENGINES
def test_a_line_is_logged_once_by_whoever_logs_it(
    folder: Path, engine: EngineName, compiled_engine: None
) -> None:
    body = "import logs\nlogs.logger.warning('from %s', rank)\nrpc.shutdown()\n"
    found, said = run(folder, engine, GROUP + body, workers=2)
    assert (found.errors, sorted(said.splitlines())) == ([], ["from 0", "from 1"])


@ENGINES
def test_its_loops_are_counted(folder: Path, engine: EngineName, compiled_engine: None) -> None:
    body = (
        "import polls\nif rank == 0:\n"
        "    polls.until(rpc.rpc_async('w1', time.sleep, args=(0.5,)).done)\n    print('came')\n"
        "rpc.shutdown()\n"
    )
    found, said = run(folder, engine, GROUP + body, workers=2)
    assert (found.errors, found.waits, said) == ([], [], "came\n")


@pytest.mark.parametrize("time", ["first", "second"])
def test_operators_are_defined_once_a_run(folder: Path, time: str) -> None:
    """The second test would be told that they are there already."""
    body = (
        "import operators\nx = torch.ones(1)\n"
        "print(torch.ops.squall_test_defined.twice(x), operators.defined.thrice(x))\n"
        "rpc.shutdown()\n"
    )
    found, said = run(folder, "port", GROUP + body, workers=2)
    assert (found.errors, said) == ([], "tensor([2.]) tensor([3.])\n" * 2)


def decided(folder: Path, package: str, **overruled: tuple[str, ...]) -> tuple[bool, str]:
    installed = Installed(**overruled)
    simulated = installed.simulated(package, partial(installed_spec, path=[str(folder)]))
    return simulated, installed.verdicts[package].reason


def test_compiled_packages_are_shared_unless_they_are_about_groups(tmp_path: Path) -> None:
    made = {
        "pure": "import time",
        "fast": '"""import torch.distributed"""\nimport time',
        "rays": "def later():\n    from torch import distributed",
    }
    for name, text in made.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text, encoding="utf-8")
        if name != "pure":
            (tmp_path / name / "_core.abi3.so").write_text("", encoding="utf-8")
    assert decided(tmp_path, "pure") == (True, "it is Python alone")
    assert decided(tmp_path, "fast")[1].startswith("_core.abi3.so is compiled")
    reason = "imports torch.distributed (rays/__init__.py:2); _core.abi3.so, which is compiled, is shared"
    assert decided(tmp_path, "rays") == (True, reason)
    assert decided(tmp_path, "fast", simulate=("fast",)) == (True, "--simulate")
    assert decided(tmp_path, "rays", share=("rays",)) == (False, "--share")


def test_the_command_explains_and_is_overruled(folder: Path) -> None:
    script = folder / "script.py"
    body = (
        "import plain\nimport nested.plain\nplain.seen.append(rank)\nnested.plain.seen.append(rank)\n"
        "print(len(plain.seen + nested.plain.seen))\nrpc.shutdown()\n"
    )
    script.write_text(GROUP + body, encoding="utf-8")
    words = ("run", str(script), "--workers", "2", "--explain-imports")
    path = {"PYTHONPATH": str(folder / "site-packages")}
    said = squall(*words, **path)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[:2] == ["2", "2"]
    for package in ("plain", "nested"):
        assert re.search(rf"^{package} +own +it is Python alone", said.stdout, re.MULTILINE)
    again = squall(*words, "--share", "plain", "--json", **path)
    told = json.loads(again.stdout)["packages"]
    assert {"package": "plain", "simulated": False, "reason": "--share"} in told
    assert again.stderr.splitlines()[:2] == ["2", "3"]
    shown = squall(*words, "--share", "plain", **path).stdout
    assert "--share plain" in shown.partition("again: ")[2]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--simulate", "no.such"], "expected a package as it is imported, got 'no.such'"),
        (["--share", "nosuch"], "expected an installed package, there is no 'nosuch'"),
        (["--share", "json", "--simulate", "json"], "--simulate json is given too"),
    ],
)
def test_wrong_names_are_told(folder: Path, words: list[str], problem: str) -> None:
    (folder / "script.py").write_text(GROUP, encoding="utf-8")
    said = squall("run", str(folder / "script.py"), *words)
    assert said.returncode == 2 and problem in said.stderr
