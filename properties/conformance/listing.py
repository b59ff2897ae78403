"""``python -m squall.properties.conformance.listing FILE...``: the tests of files of a checkout, as JSON.

Files are imported, since PyTorch makes tests of parameters (``instantiate_parametrized_tests``) then. That changes
settings of whoever does it, so this is a process of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

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
    """``tests``: of each its class, method, number of ranks, whether they go on to the next test, what is changed in
    their environment, and why it is skipped, if it is; or ``error``: why the file cannot be imported."""
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
        return {"error": _said(error)}
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
    if continuous and owner.world_size == -2 and _device_type(owner) == "cpu":
        return {"ranks": 1, "skip": NO_DEVICES}
    before = dict(os.environ)
    try:
        ranks = _ranks_begun(owner, method, continuous)
        changed = [
            [name, os.environ.get(name)]
            for name in sorted({*before, *os.environ})
            if os.environ.get(name) != before.get(name)
        ]
    except unittest.SkipTest as error:
        return {"ranks": 1, "skip": str(error)}
    except Exception as error:
        return {"ranks": 1, "skip": f"it cannot be set up: {_said(error)}"}
    finally:
        os.environ.clear()
        os.environ.update(before)
    if ranks < 1:
        return {"ranks": 1, "skip": NO_DEVICES}
    return {"ranks": ranks, "continuous": continuous, "environ": changed}


class _Begins(BaseException):
    """Ranks are about to be started."""


def _ranks_begun(owner: Any, method: str, continuous: bool) -> int:
    """How many are started where a test is set up, with the environment that there is then."""

    def begin(*_: object) -> None:
        raise _Begins

    case = owner(method)
    begins = "_spawn_processes" if continuous else "_start_processes"
    with mock.patch.object(owner if continuous else case, begins, begin):
        try:
            owner.setUpClass()
            case.setUp()
        except _Begins:
            pass
        finally:
            case.doCleanups()
            owner.doClassCleanups()
            if not continuous and (file := getattr(case, "file_name", None)):
                Path(file).unlink(missing_ok=True)
    return int(case.world_size)


def _device_type(owner: Any) -> str:
    device = inspect.getattr_static(owner, "device_type")
    if isinstance(device, property):
        return str(object.__new__(owner).device_type)
    return str(owner.device_type() if callable(owner.device_type) else owner.device_type)


def _said(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


def main(files: list[str]) -> None:
    answer = {file: listed(file) for file in files}
    # What files print goes before: the answer is the last line.
    print(f"\n{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
