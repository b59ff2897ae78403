"""PyTorch's own tests of RPC, RRefs and distributed autograd, as suites to run in the simulator.

The tests are those that the torch wheel ships under ``torch.testing._internal.distributed``,
collected from their source: importing them would change settings of whoever asks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from squall.sim.conformance.cluster import Played
from squall.sim.conformance.pool import play_all
from squall.sim.conformance.table import NOT_APPLICABLE, NOT_APPLICABLE_TORCH

Verdict = Literal["passed", "failed", "not_applicable"]
VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "not_applicable")

_PACKAGE = "torch.testing._internal.distributed"
_RPC = f"{_PACKAGE}.rpc"
_TENSORPIPE = (f"{_RPC}.tensorpipe_rpc_agent_test_fixture", "TensorPipeRpcAgentTestFixture")
_FAULTY = (f"{_RPC}.faulty_rpc_agent_test_fixture", "FaultyRpcAgentTestFixture")


@dataclass(frozen=True)
class TestClass:
    """A class of tests, and the fixture that torch's ``generate_tests`` mixes into it."""

    module: str
    name: str
    fixture: tuple[str, str] = _TENSORPIPE

    __test__ = False  # pytest


@dataclass(frozen=True)
class Test:
    """One test method. ``id`` is ``Class.method``, unique among all suites."""

    suite: str
    owner: TestClass
    method: str

    __test__ = False  # pytest

    @property
    def id(self) -> str:
        return f"{self.owner.name}.{self.method}"


SUITES: Mapping[str, tuple[TestClass, ...]] = {
    "dist_autograd": (
        TestClass(f"{_RPC}.dist_autograd_test", "DistAutogradTest"),
        TestClass(f"{_RPC}.dist_autograd_test", "TensorPipeAgentDistAutogradTest"),
    ),
    "dist_optimizer": (TestClass(f"{_RPC}.dist_optimizer_test", "DistOptimizerTest"),),
    "faulty_agent": (
        TestClass(f"{_RPC}.faulty_agent_rpc_test", "FaultyAgentRpcTest", _FAULTY),
        TestClass(f"{_RPC}.dist_autograd_test", "FaultyAgentDistAutogradTest", _FAULTY),
        TestClass(f"{_RPC}.jit.rpc_test_faulty", "JitFaultyAgentRpcTest", _FAULTY),
    ),
    "examples": (
        TestClass(f"{_RPC}.examples.parameter_server_test", "ParameterServerTest"),
        TestClass(
            f"{_RPC}.examples.reinforcement_learning_rpc_test", "ReinforcementLearningRpcTest"
        ),
    ),
    "rpc": (TestClass(f"{_RPC}.rpc_test", "RpcTest"),),
    "tensorpipe_rpc": (TestClass(f"{_RPC}.rpc_test", "TensorPipeAgentRpcTest"),),
}


@dataclass(frozen=True)
class Result:
    """How one test came out. ``why`` is empty for one that passed; ``log`` is what it printed."""

    test: Test
    verdict: Verdict
    why: str
    log: str
    #: wall time
    seconds: float


def collect(suites: Iterable[str] = (), pattern: str = "") -> list[Test]:
    """The tests of ``suites`` (none: of all) whose id contains ``pattern``, whatever its case.

    A whole id chooses that test alone. Raises KeyError for an unknown suite.
    """
    names = list(dict.fromkeys(suites)) or list(SUITES)
    tests = [
        Test(name, owner, method)
        for name in names
        for owner in SUITES[name]
        for method in _methods(owner.module, owner.name)
    ]
    sought = pattern.lower()
    exact = [test for test in tests if test.id.lower() == sought]
    return exact or [test for test in tests if sought in test.id.lower()]


def run(tests: Iterable[Test], *, jobs: int = 1, engine: str = "port") -> Iterator[Result]:
    """Play each test on a cluster of its own, ``jobs`` at a time; results as they come.

    On the engine ``torch`` it is one at a time, whatever ``jobs`` says.
    """
    if engine == "torch":
        from squall.sim.conformance.stock import play_all_native

        for test, played in play_all_native(list(tests)):
            yield judge(test, played, NOT_APPLICABLE_TORCH)
        return
    for test, played in play_all(list(tests), jobs=jobs):
        yield judge(test, played)


def judge(test: Test, played: Played, table: Mapping[str, str] | None = None) -> Result:
    """The verdict: the table excuses a test that did not pass, never one that did."""
    reason = (NOT_APPLICABLE if table is None else table).get(test.id)
    verdict: Verdict
    if reason is not None:
        verdict, why = "not_applicable", reason
        if played.outcome == "passed":
            verdict, why = "failed", f"passes, but the table calls it not applicable: {reason}"
    elif played.outcome == "passed":
        verdict, why = "passed", ""
    elif played.outcome == "skipped":
        verdict, why = "failed", f"skips itself, and the table does not say why: {played.why}"
    else:
        verdict, why = "failed", played.why
    return Result(test, verdict, why, played.log, played.seconds)


@cache
def _methods(module: str, name: str) -> tuple[str, ...]:
    """The test methods of a class and of its bases in the same module, sorted."""
    classes = _classes(module)
    found: set[str] = set()
    waiting = [name]
    while waiting:
        node = classes.get(waiting.pop())
        if node is not None:
            found.update(
                item.name
                for item in node.body
                if isinstance(item, ast.FunctionDef) and item.name.startswith("test_")
            )
            waiting.extend(base.id for base in node.bases if isinstance(base, ast.Name))
    return tuple(sorted(found))


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    parent, _, leaf = module.rpartition(".")
    spec = find_spec(_PACKAGE)
    assert spec is not None and spec.submodule_search_locations, "torch ships no tests"
    inside = parent.removeprefix(_PACKAGE).strip(".").split(".")
    path = Path(spec.submodule_search_locations[0]).joinpath(*inside, f"{leaf}.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
