"""Inside a worker process of the engine ``torch``: one rank of one of PyTorch's own tests.

RPC and autograd are stock PyTorch's. So are process groups in tests of them; in others, which have a
group for their barriers only, it is the coordinator's.
"""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter
from typing import Any
from unittest import SkipTest

import numpy
import torch.distributed

from squall.properties.conformance.tests import IN_GROUPS
from squall.sim.scripts.compat.errors import Uncaught
from squall.sim.stock.script_guest import ScriptGuest
from squall.sim.stock.store_guest import SharedStore

_distributed: Any = torch.distributed
# What PyTorch's tests of process groups ask for when they are imported.
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(IN_GROUPS))


class TestGuest(ScriptGuest):
    __test__ = False  # pytest

    def _run(self, role: dict[str, Any]) -> tuple[int, Uncaught | None] | None:
        test = role["test"]
        common: Any = importlib.import_module("torch.testing._internal.common_distributed")
        utils: Any = importlib.import_module("torch.testing._internal.common_utils")
        # One test is skipped where Linux schedules its processes, too unevenly for it: not here.
        utils.IS_LINUX = False
        module = importlib.import_module(test["module"])
        fixture = getattr(importlib.import_module(test["fixture"][0]), test["fixture"][1])
        name = f"Native{test['name'].partition('.')[0]}"
        case_class: Any = type(
            name,
            (attrgetter(test["name"])(module), fixture, common.MultiProcessTestCase),
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
        run = getattr(case, test["method"])
        try:
            if test["of_groups"]:
                self._run_in_a_group(module, case, run, test)
            else:
                self._have_a_group()
                run()
        except SkipTest as skip:
            self.here.ask("skip", str(skip))
        except SystemExit as leaving:
            if leaving.code not in skips:
                raise
            self.here.ask("skip", skips[leaving.code])
        return None

    def _run_in_a_group(
        self, module: Any, case: Any, run: Callable[[], object], test: dict[str, Any]
    ) -> None:
        """As ``TestDistBackend`` runs it."""
        folder = os.path.dirname(test["file_name"])
        os.environ.update(BACKEND=module.BACKEND, TEMP_DIR=folder)
        seconds = module.CUSTOM_PG_TIMEOUT.get(test["method"], module.default_pg_timeout)
        _distributed.init_process_group(
            init_method=case.init_method,
            backend=module.BACKEND,
            world_size=int(case.world_size),
            rank=case.rank,
            timeout=timedelta(seconds=seconds),
        )
        case._barrier()
        run()
        case._barrier()
        _distributed.destroy_process_group()

    def _have_a_group(self) -> None:
        group = _Group(self.here)
        _distributed.is_initialized = lambda: group.initialized
        _distributed.init_process_group = group.init
        _distributed.barrier = group.barrier
        _distributed.distributed_c10d._get_default_store = lambda: group


class _Group(SharedStore):
    """The default process group and its store, as far as the tests use them."""

    def __init__(self, here: Any) -> None:
        super().__init__("the default process group")
        self._here = here
        self.initialized = False

    def init(self, *_: Any, **__: Any) -> None:
        self.initialized = True
        self.barrier()

    def barrier(self) -> None:
        self._here.ask("barrier", "process group")


def main(fd: int, request: dict[str, Any]) -> None:
    """The entry of a copied process."""
    TestGuest(fd).run()
