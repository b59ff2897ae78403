"""One test of PyTorch's on a fresh simulated cluster: a process a rank, as its own harness has it.

Stands in for ``MultiProcessTestCase`` of torch/testing/_internal/common_distributed.py, which
starts ``world_size`` processes that each run the test method as one rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO
from unittest import SkipTest

import torch

from squall.model.events.stream_order import races
from squall.properties.conformance.on_stand_in import count_stand_ins, rewritten
from squall.properties.conformance.tests import TIMEOUT_S, WORLD_SIZE, Played, Test
from squall.real.worker import Worker
from squall.sim.scripts.compat.process import ProcessTable, SimProcess, current_process
from squall.sim.scripts.compat.program import ScriptFiles
from squall.sim.scripts.compat.torch_facade import PRIVATE, SUBSTITUTES
from squall.sim.world.deadlock import explain
from squall.sim.world.garbage import deterministic_garbage
from squall.sim.world.isolation import TorchIsolation
from squall.sim.world.latency import DEFAULT_LATENCY
from squall.sim.world.network import Network
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.stand_in import STAND_IN_NAME
from squall.sim.world.stand_in.backend import begin_run, register
from squall.sim.world.stand_in.streams import STAND_IN

#: how a process ends whose test skips itself (common_distributed.TEST_SKIPS)
_SKIP_CODES = range(72, 90)
_GENERIC_SKIP = 86


def play(test: Test, directory: Path, output: TextIO) -> Played:
    """Run one test to its end, in this process, which must not be used for anything else after.

    ``directory`` must exist; what the test prints goes to ``output``.
    """
    torch.set_num_threads(1)
    on_stand_in = test.device == STAND_IN_NAME
    if on_stand_in:
        register(to_be_copied=False)
        begin_run(0, 0, lambda: -1)
        STAND_IN.lag()
    runtime = SimRuntime(isolation=TorchIsolation())
    network = Network(runtime, latency=DEFAULT_LATENCY)
    table = ProcessTable(
        runtime=runtime,
        # None of the user's modules: a test does the same wherever it is started.
        program=ScriptFiles.of_libraries(rewritten if on_stand_in else None),
        new_worker=lambda name: Worker(runtime, network, name=name),
        substitutes=SUBSTITUTES,
        private=PRIVATE,
        stdout=output,
        stderr=output,
    )
    table.on_end = lambda process: _ended(table, process)
    with deterministic_garbage():
        for rank in range(WORLD_SIZE):
            process = table.create(
                name=f"rank {rank}",
                parent=None,
                rank=rank,
                argv=[test.id],
                environ={"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"},
            )
            process.start(_Rank(test, rank, directory))
        runtime.run(until_idle=False, max_time_s=TIMEOUT_S)
        # Run what the end of the last process causes at this instant.
        runtime.run(max_time_s=runtime.now())
    played = _outcome(table, runtime)
    if on_stand_in and played.outcome == "passed":
        found = races(STAND_IN.log)
        if found:
            first, second = STAND_IN.log[found[0].first], STAND_IN.log[found[0].second]
            return Played("failed", f"two kernels in no order: {first} || {second}")
    return played


class _Rank:
    """What one process runs: the test method, as that rank."""

    def __init__(self, test: Test, rank: int, directory: Path) -> None:
        self.test = test
        self.rank = rank
        self.directory = directory

    def __call__(self) -> None:
        test = self.test
        space = current_process().space
        # One test is skipped where Linux schedules its processes, too unevenly for it: not here.
        utils: Any = space.load("torch.testing._internal.common_utils")
        utils.IS_LINUX = False
        common: Any = space.load("torch.testing._internal.common_distributed")
        if test.device == STAND_IN_NAME:
            count_stand_ins(common, utils)
        fixture_module, fixture = test.owner.fixture
        module = space.load(test.owner.module)
        name = f"Simulated{test.owner.name}"
        case_class: Any = type(
            name,
            (
                getattr(module, test.owner.name),
                getattr(space.load(fixture_module), fixture),
                common.MultiProcessTestCase,
            ),
            {"__module__": test.owner.module},
        )
        # Some tests pickle their own methods.
        setattr(module, name, case_class)
        case = case_class(test.method)
        case.rank = self.rank
        case.file_name = str(self.directory / "rendezvous")
        _seed(utils)
        try:
            getattr(case, test.method)()
        except SkipTest as skip:
            current_process().locals["skip"] = str(skip)
            raise SystemExit(_GENERIC_SKIP) from None


def _seed(common_utils: Any) -> None:
    """As torch's harness does before each test."""
    space = current_process().space
    seed: int = common_utils.SEED
    torch.manual_seed(seed)
    random: Any = space.load("random")
    random.seed(seed)
    numpy_random: Any = space.load("numpy.random")
    numpy_random.seed(seed)


def _ended(table: ProcessTable, process: SimProcess) -> None:
    """A rank that failed takes the others with it; the test is over."""
    if process.rank is not None and process.error is not None:
        for other in table.processes:
            other.terminate()


def _outcome(table: ProcessTable, runtime: SimRuntime) -> Played:
    if table.failed:
        first = table.failed[0]
        error = first.error
        assert error is not None
        return Played("failed", f"{first.name}: {error.type}: {error.message}")
    if runtime.foreground:
        if runtime.now() >= TIMEOUT_S or runtime.env.pending > 0:
            return Played("failed", f"no end within {TIMEOUT_S:g} s of virtual time")
        waits = "\n".join(explain(runtime, runtime.stuck()))
        return Played("failed", f"nothing can happen any more, and these wait:\n{waits}")
    codes = {process.name: process.exit_code for process in table.processes}
    skipping = [process for process in table.processes if process.exit_code in _SKIP_CODES]
    if skipping:
        return Played("skipped", _skip_reason(skipping[0]))
    for name, code in codes.items():
        if code:
            return Played("failed", f"{name} ended with exit code {code}")
    return Played("passed")


def _skip_reason(process: SimProcess) -> str:
    said: str | None = process.locals.get("skip")
    if said is not None:
        return said
    from torch.testing._internal.common_distributed import TEST_SKIPS

    for skip in TEST_SKIPS.values():
        if skip.exit_code == process.exit_code:
            return str(skip.message)
    return f"exit code {process.exit_code}"
