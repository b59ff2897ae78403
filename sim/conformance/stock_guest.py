"""Inside a worker process of the engine ``torch``: one rank of one of PyTorch's own tests.

RPC and autograd are stock PyTorch's. The process group, which such a test has for its barriers
only, is the coordinator's: gloo would use sockets instead of the simulated network, in real time.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from unittest import SkipTest

import numpy
import torch.distributed

from squall.sim.stock.script_guest import ScriptGuest

_distributed: Any = torch.distributed


class TestGuest(ScriptGuest):
    __test__ = False  # pytest

    def _run(self, role: dict[str, Any]) -> tuple[int, dict[str, str] | None] | None:
        self._have_a_group()
        test = role["test"]
        common: Any = importlib.import_module("torch.testing._internal.common_distributed")
        utils: Any = importlib.import_module("torch.testing._internal.common_utils")
        # One test is skipped where Linux schedules its processes, too unevenly for it: not here.
        utils.IS_LINUX = False
        module = importlib.import_module(test["module"])
        fixture = getattr(importlib.import_module(test["fixture"][0]), test["fixture"][1])
        name = f"Native{test['name']}"
        case_class: Any = type(
            name,
            (getattr(module, test["name"]), fixture, common.MultiProcessTestCase),
            {"__module__": test["module"]},
        )
        # Some tests pickle their own methods.
        setattr(module, name, case_class)
        case = case_class(test["method"])
        case.rank = role["number"]
        case.file_name = test["file_name"]
        torch.manual_seed(utils.SEED)
        random.seed(utils.SEED)
        numpy.random.seed(utils.SEED)
        skips = {skip.exit_code: skip.message for skip in common.TEST_SKIPS.values()}
        try:
            getattr(case, test["method"])()
        except SkipTest as skip:
            self.here.ask("skip", str(skip))
        except SystemExit as leaving:
            if leaving.code not in skips:
                raise
            self.here.ask("skip", skips[leaving.code])
        return None

    def _have_a_group(self) -> None:
        group = _Group(self.here)
        _distributed.is_initialized = lambda: group.initialized
        _distributed.init_process_group = group.init
        _distributed.barrier = group.barrier
        _distributed.distributed_c10d._get_default_store = lambda: group


class _Group:
    """The default process group and its store, as far as the tests use them."""

    def __init__(self, here: Any) -> None:
        self._here = here
        self.initialized = False

    def init(self, *_: Any, **__: Any) -> None:
        self.initialized = True
        self.barrier()

    def barrier(self) -> None:
        self._here.ask("barrier", "process group")

    def set(self, key: str, value: str) -> None:
        self._here.ask("set", key, value)

    def wait(self, keys: Iterable[str], timeout: timedelta) -> None:
        """Raises RuntimeError after ``timeout`` of virtual time."""
        if not self._here.ask("wait", tuple(keys), timeout.total_seconds()):
            raise RuntimeError(f"wait timeout after {timeout}, keys: {', '.join(keys)}")


def main(fd: int, request: dict[str, Any]) -> None:
    """The entry of a copied process."""
    TestGuest(fd).run()
