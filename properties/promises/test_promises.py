"""Each promise holds on each engine, or is one whose deviation is named; each public name is met somewhere."""

from __future__ import annotations

import inspect
import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.autograd
import torch.distributed.nn.api.remote_module
import torch.distributed.optim
import torch.distributed.rpc
import torch.futures

from squall.properties.findings.finding import findings
from squall.properties.support.commands import whole_lines
from squall.properties.support.paths import ROOT
from squall.properties.support.scripts import run_file

HERE = Path(__file__).parent
SCRIPTS = (
    "exceptions",
    "functions",
    "limits",
    "members",
    "optimizers",
    "remote_module",
    "replaced",
    "shutdown",
)
_LINE = re.compile(r"^(.+?): (ok|not so: .*)$", re.MULTILINE)
FINDINGS = {one.name for one in findings()}
#: of what only stock PyTorch does otherwise: the agent in it is TensorPipe's
STOCK = {"replaced: life 2: *": "replaced-worker-cannot-be-called"}


def deviations() -> list[dict[str, Any]]:
    return list(tomllib.loads((HERE / "deviations.toml").read_text("utf-8"))["deviation"])


def wrong(script: str, engine: str, printed: str) -> Iterator[str]:
    """What does not hold and is not named, and what is named and holds."""
    lines = _LINE.findall(printed)
    yield from [] if lines else ["nothing was printed"]
    broken = {f"{script}: {name}": said for name, said in lines if said != "ok"}
    met = set()
    for each in deviations():
        if engine in each.get("engines", ("port", "torch")):
            for pattern in each["names"]:
                found = {name for name in broken if fnmatchcase(name, pattern.replace("[", "[[]"))}
                met |= found
                if pattern.startswith(f"{script}: ") and not found:
                    yield f"holds: {pattern}"
    yield from (f"{name}: {broken[name]}" for name in broken.keys() - met)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.usefixtures("compiled_engine")
def test_what_is_promised_holds_or_is_named(script: str, engine: str) -> None:
    printed = io.StringIO()
    report = run_file(HERE / f"{script}.py", engine=engine, stdout=printed, stderr=io.StringIO())
    assert [error.traceback for error in report.errors] == []
    assert engine == "torch" or report.outcome in ("ok", "not checked")
    assert list(wrong(script, engine, printed.getvalue())) == []


@pytest.mark.deep("each runs for a minute and more, with three processes")
@pytest.mark.parametrize("script", SCRIPTS)
def test_stock_pytorch_does_as_the_engine_torch(script: str, free_port: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / f"{script}.py")],
        env={**whole_lines(), "MASTER_PORT": str(free_port), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    found = list(wrong(script, "torch", done.stdout))
    assert [
        each for each in found if not any(fnmatchcase(each, f"{name}*") for name in STOCK)
    ] == []


def test_deviations_name_a_finding_or_a_reason() -> None:
    for each in deviations():
        assert ("finding" in each) != ("why" in each), each
        assert each.get("finding") is None or each["finding"] in FINDINGS, each
        assert all(name.partition(": ")[0] in SCRIPTS for name in each["names"]), each
    assert set(STOCK.values()) <= FINDINGS


# -- every public name --------------------------------------------------------------------------

SURFACE = {
    "rpc": torch.distributed.rpc,
    "rpc.functions": torch.distributed.rpc.functions,
    "rpc.backend_registry": torch.distributed.rpc.backend_registry,
    "autograd": torch.distributed.autograd,
    "nn": torch.distributed.nn.api.remote_module,
    "optim": torch.distributed.optim,
    "futures": torch.futures,
}
#: where they are defined; all else that a module shows is imported
_OURS = ("torch.distributed", "torch._C._distributed", "torch.futures")


def public_names() -> Iterator[str]:
    """Of each module, what distributed PyTorch defines, and what classes of it have that no class besides gives them."""
    for short, module in SURFACE.items():
        for name, thing in vars(module).items():
            ours = str(getattr(thing, "__module__", "")).startswith(_OURS) and callable(thing)
            if name.startswith("_") or not (ours or name in getattr(module, "__all__", ())):
                continue
            yield f"{short}.{name}"
            if inspect.isclass(thing):
                own = [
                    base
                    for base in thing.__mro__
                    if base.__module__.startswith((*_OURS, "torch.jit", "torch._C"))
                ]
                members = {member for base in own for member in vars(base)}
                yield from (
                    f"{short}.{name}.{each}" for each in members if not each.startswith("_")
                )


def test_every_public_name_is_met_somewhere() -> None:
    listed = tomllib.loads((HERE / "surface.toml").read_text("utf-8"))["met"]
    patterns = [(pattern, where) for where, names in listed.items() for pattern in names]
    names = set(public_names())
    assert [
        name for name in sorted(names) if not any(fnmatchcase(name, p) for p, _ in patterns)
    ] == []
    assert [p for p, _ in patterns if not any(fnmatchcase(name, p) for name in names)] == []
    for where in listed:
        path, _, said = where.partition("::")
        file = ROOT / path
        assert file.exists(), where
        assert not said or said in file.read_text("utf-8"), where
