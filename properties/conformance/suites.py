"""PyTorch's own tests of RPC, RRefs, distributed autograd and process groups, as suites to run in the simulator.

The tests are those that the torch wheel ships under ``torch.testing._internal.distributed``,
collected from their source: importing them would change settings of whoever asks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from squall.properties.conformance.tests import Test, TestClass
from squall.sim.names import Device, EngineName

_PACKAGE = "torch.testing._internal.distributed"
_RPC = f"{_PACKAGE}.rpc"
_TENSORPIPE = (f"{_RPC}.tensorpipe_rpc_agent_test_fixture", "TensorPipeRpcAgentTestFixture")
_FAULTY = (f"{_RPC}.faulty_rpc_agent_test_fixture", "FaultyRpcAgentTestFixture")


def _tests(module: str, name: str, fixture: tuple[str, str] = _TENSORPIPE) -> TestClass:
    return TestClass(f"{_RPC}.{module}", name, fixture)


SUITES: Mapping[str, tuple[TestClass, ...]] = {
    "dist_autograd": (
        _tests("dist_autograd_test", "DistAutogradTest"),
        _tests("dist_autograd_test", "TensorPipeAgentDistAutogradTest"),
    ),
    "dist_optimizer": (_tests("dist_optimizer_test", "DistOptimizerTest"),),
    "faulty_agent": (
        _tests("faulty_agent_rpc_test", "FaultyAgentRpcTest", _FAULTY),
        _tests("dist_autograd_test", "FaultyAgentDistAutogradTest", _FAULTY),
        _tests("jit.rpc_test_faulty", "JitFaultyAgentRpcTest", _FAULTY),
    ),
    "examples": (
        _tests("examples.parameter_server_test", "ParameterServerTest"),
        _tests("examples.reinforcement_learning_rpc_test", "ReinforcementLearningRpcTest"),
    ),
    "rpc": (_tests("rpc_test", "RpcTest"),),
    "tensorpipe_rpc": (_tests("rpc_test", "TensorPipeAgentRpcTest"),),
}


#: those that need a GPU, or several
GPU_SUITES: Mapping[str, tuple[TestClass, ...]] = {
    "cuda_dist_autograd": (
        _tests("dist_autograd_test", "CudaDistAutogradTest"),
        _tests("dist_autograd_test", "TensorPipeCudaDistAutogradTest"),
    ),
    "cuda_rpc": (
        _tests("rpc_test", "CudaRpcTest"),
        _tests("rpc_test", "TensorPipeAgentCudaRpcTest"),
    ),
}


#: those of the compiled engine alone
GROUP_SUITES: Mapping[str, tuple[TestClass, ...]] = {
    "groups": (
        TestClass(
            f"{_PACKAGE}.distributed_test",
            "DistributedTest._DistTestBase",
            (f"{_PACKAGE}.distributed_test", "TestDistBackend"),
            of_groups=True,
        ),
    ),
}


def suites_of(device: Device, engine: EngineName = "port") -> Mapping[str, tuple[TestClass, ...]]:
    """What there is to play on a device."""
    if device != "cpu":
        return GPU_SUITES
    return SUITES if engine == "port" else {**SUITES, **GROUP_SUITES}


def collect(
    suites: Iterable[str] = (),
    pattern: str = "",
    device: Device = "cpu",
    engine: EngineName = "port",
) -> list[Test]:
    """The tests of ``suites`` (none: of all) whose id contains ``pattern``, whatever its case.

    A whole id chooses that test alone. Raises KeyError for an unknown suite.
    """
    known = suites_of(device, engine)
    names = list(dict.fromkeys(suites)) or list(known)
    tests = [
        Test(name, owner, method, device)
        for name in names
        for owner in known[name]
        for method in _methods(owner.module, owner.name)
    ]
    sought = pattern.lower()
    exact = [test for test in tests if test.id.lower() == sought]
    return exact or [test for test in tests if sought in test.id.lower()]


@cache
def _methods(module: str, name: str) -> tuple[str, ...]:
    """The test methods of a class and of its bases in the same module, sorted."""
    classes = _classes(module)
    found: set[str] = set()
    waiting = [name]
    while waiting:
        methods, bases = classes.get(waiting.pop(), ((), ()))
        found.update(methods)
        waiting.extend(bases)
    return tuple(sorted(found))


@cache
def _classes(module: str) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The test methods and the bases of each class. The trees themselves would be 25 MB to keep."""
    parent, _, leaf = module.rpartition(".")
    torch, *inside = parent.split(".")
    spec = find_spec(torch)  # of a package inside it, this would import torch
    assert spec is not None and spec.submodule_search_locations, "there is no torch"
    path = Path(spec.submodule_search_locations[0]).joinpath(*inside, f"{leaf}.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return dict(_read(tree.body, ""))


def _read(
    body: list[ast.stmt], within: str
) -> Iterator[tuple[str, tuple[tuple[str, ...], tuple[str, ...]]]]:
    """The classes of a body, and those in them."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = f"{within}{node.name}"
            methods = tuple(each for each in _functions(node.body) if each.startswith("test_"))
            yield (
                name,
                (methods, tuple(base.id for base in node.bases if isinstance(base, ast.Name))),
            )
            yield from _read(node.body, f"{name}.")


def _functions(body: list[ast.stmt]) -> Iterator[str]:
    """Those of a class, on whatever condition."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.If):
            yield from _functions(node.body)
            yield from _functions(node.orelse)
