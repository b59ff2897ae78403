"""Inside a worker process of the engine ``torch``: one rank of one of PyTorch's own tests."""

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

from squall.properties.conformance.listing import module_of
from squall.properties.conformance.tests import IN_GROUPS
from squall.sim.scripts.compat.errors import Uncaught
from squall.sim.stock.script_guest import ScriptGuest

_distributed: Any = torch.distributed
_common: Any = importlib.import_module("torch.testing._internal.common_distributed")
_utils: Any = importlib.import_module("torch.testing._internal.common_utils")
# What PyTorch's tests look at when they are imported, which is later: those of process groups ask which
# backend; one is skipped where Linux schedules its processes, too unevenly for it: not here.
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(IN_GROUPS))
_utils.IS_LINUX = False


class TestGuest(ScriptGuest):
    __test__ = False  # pytest

    def _run(self, role: dict[str, Any]) -> tuple[int, Uncaught | None] | None:
        test = role["test"]
        skips = {skip.exit_code: skip.message for skip in _common.TEST_SKIPS.values()}
        try:
            if test["started"] is None:
                self._run_of_the_wheel(role["number"], test)
            else:
                self._run_of_a_checkout(role["number"], test, **test["started"])
        except SkipTest as skip:
            self.here.ask("skip", str(skip))
        except SystemExit as leaving:
            if leaving.code not in skips:
                raise
            self.here.ask("skip", skips[leaving.code])
        return None

    def _run_of_a_checkout(
        self,
        rank: int,
        test: dict[str, Any],
        file: str,
        ranks: int,
        continuous: bool,
        environ: list[tuple[str, str | None]],
    ) -> None:
        """As ``MultiProcessTestCase._run`` and ``MultiProcContinuousTest._worker_loop`` do."""
        for name, value in [*dict.fromkeys(("BACKEND", "RANK", "WORLD_SIZE")).items(), *environ]:
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _distributed.set_debug_level_from_env()
        case_class: Any = getattr(module_of(file), test["name"])
        if continuous:
            case_class.rank, case_class.world_size = rank, ranks
            case_class._init_pg(rank, ranks, test["file_name"])
            case_class._run_test_given_id(test["method"])
            _distributed.destroy_process_group()
            return
        case_class.run_test = _run_test  # which tells another process what went wrong
        case_class._run(rank, test["method"], test["file_name"], None)

    def _run_of_the_wheel(self, rank: int, test: dict[str, Any]) -> None:
        module = importlib.import_module(test["module"])
        fixture = getattr(importlib.import_module(test["fixture"][0]), test["fixture"][1])
        name = f"Native{test['name'].partition('.')[0]}"
        case_class: Any = type(
            name,
            (attrgetter(test["name"])(module), fixture, _common.MultiProcessTestCase),
            {"__module__": test["module"]},
        )
        # Some tests pickle their own methods.
        setattr(module, name, case_class)
        case = case_class(test["method"])
        case.rank = rank
        case.file_name = test["file_name"]
        torch.manual_seed(_utils.SEED)
        random.seed(_utils.SEED)
        numpy.random.seed(_utils.SEED)
        run = getattr(case, test["method"])
        if test["of_groups"]:
            self._run_in_a_group(module, case, run, test)
        else:
            # torchrun sets them, and PyTorch's harness does not.
            for name in ("RANK", "WORLD_SIZE"):
                os.environ.pop(name, None)
            run()

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


def _run_test(case: Any, method: str, pipe: None) -> None:
    """As ``MultiProcessTestCase.run_test`` does, which classes call from a ``_run`` of their own."""
    _utils.set_rng_seed()
    getattr(case, method)()
    if case.destroy_pg_upon_exit and _distributed.is_initialized():
        _distributed.destroy_process_group()


def main(fd: int, request: dict[str, Any]) -> None:
    """The entry of a copied process."""
    TestGuest(fd).run()
