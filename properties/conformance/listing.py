"""``python -m squall.properties.conformance.listing FILE...``: the tests of files of a checkout, as JSON.

Files are imported, since PyTorch makes tests of parameters (``instantiate_parametrized_tests``) then. That changes
settings of whoever does it, so this is a process of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
import traceback
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

#: why tests of such a class are not played
IN_THREADS = "its ranks are threads of one process"
IN_ONE_PROCESS = "its ranks are in one process (LocalTensor)"
NO_DEVICES = "it has a rank for each GPU, and there is none"


def module_of(file: str) -> ModuleType:
    """The module of a file, which finds its neighbours as if it were started as a script."""
    path = Path(file)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def listed(file: str) -> dict[str, Any]:
    """``tests``: of each its class, method, number of ranks, whether they go on to the next test, and why it is
    skipped, if it is; or ``error``: why the file cannot be imported."""
    try:
        module = module_of(file)
        loader = unittest.TestLoader()
        found = [
            {"class": name, "method": method, **about(each, method)}
            for name, each in sorted(vars(module).items())
            if inspect.isclass(each)
            and each.__module__ == module.__name__
            and each.__name__ == name
            and issubclass(each, unittest.TestCase)
            for method in loader.getTestCaseNames(each)
        ]
        return {"tests": [each for each in found if "ranks" in each]}
    except (Exception, SystemExit) as error:
        said = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        return {"error": said}
    finally:
        sys.path.remove(str(Path(file).parent))


def about(owner: Any, method: str) -> dict[str, Any]:
    """Nothing of a test that has no ranks."""
    common: Any = importlib.import_module("torch.testing._internal.common_distributed")
    skip = next(
        (
            str(getattr(each, "__unittest_skip_why__", ""))
            for each in (owner, getattr(owner, method))
            if getattr(each, "__unittest_skip__", False)
        ),
        None,
    )
    continuous = issubclass(owner, common.MultiProcContinuousTest)
    if issubclass(owner, common.MultiThreadedTestCase):
        return {"ranks": 1, "skip": skip or IN_THREADS}
    if not continuous and not issubclass(owner, common.MultiProcessTestCase):
        return {}
    if getattr(object.__new__(owner), "is_local_tensor_enabled", False):
        return {"ranks": 1, "skip": skip or IN_ONE_PROCESS}
    if skip is not None:
        return {"ranks": 1, "skip": skip or "skipped"}
    try:
        ranks = _ranks(owner, method, continuous)
        if ranks < 1:
            raise unittest.SkipTest(NO_DEVICES)
        return {"ranks": ranks, "continuous": continuous}
    except unittest.SkipTest as error:
        return {"ranks": 1, "skip": str(error)}


def _ranks(owner: Any, method: str, continuous: bool) -> int:
    if not continuous:
        return int(owner(method).world_size)
    device = inspect.getattr_static(owner, "device_type")
    if isinstance(device, property):
        kind = object.__new__(owner).device_type
    else:
        kind = owner.device_type() if callable(owner.device_type) else owner.device_type
    if kind == "cpu" and owner.world_size == -2:
        raise unittest.SkipTest(NO_DEVICES)
    return int(owner._get_world_size(kind))


def main(files: list[str]) -> None:
    answer = {file: listed(file) for file in files}
    # What files print goes before: the answer is the last line.
    print(f"\n{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
