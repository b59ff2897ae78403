"""PyTorch's own tests on its compiled engine: a worker process a rank, on the simulated network.

The other half is properties/conformance/cluster.py, which plays them on the port.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from squall.properties.conformance.tests import (
    LOG_CHARACTERS,
    TIMEOUT_S,
    TOO_FEW,
    MissingPackageError,
    Played,
    Test,
)
from squall.sim.scenario import Script
from squall.sim.scripts.compat.errors import Uncaught
from squall.sim.scripts.findings import FoundError
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.fork_server import ForkServer, MissingModule
from squall.sim.stock.script import ScriptProcesses
from squall.sim.stock.shared import WARM
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.latency import DEFAULT_LATENCY
from squall.sim.world.virtual_time import Livelock

_ENTRY = "squall.properties.conformance.stock_guest:main"
#: what files of a checkout import, most of them; the file itself is imported by each rank
OF_A_CHECKOUT = (
    "torch.testing._internal.common_fsdp",
    "torch.testing._internal.distributed._tensor.common_dtensor",
    "torch.testing._internal.distributed.checkpoint_utils",
)
#: of commands and timers, in one test; the longest takes a tenth of it
MAX_STEPS = 200_000


def play_all_native(tests: Sequence[Test]) -> Iterator[tuple[Test, Played]]:
    """Each test with what became of it, one after the other.

    Raises :class:`squall.real.native.build.Unavailable`, and :class:`MissingPackageError`.
    """
    # A backend that another fixture registers makes BackendType anew, and the old one is no use.
    for fixture, those in groupby(tests, key=lambda test: test.owner.fixture[0]):
        yield from _play_those(fixture, list(those))


def _play_those(fixture: str, tests: Sequence[Test]) -> Iterator[tuple[Test, Played]]:
    modules = {
        "squall.properties.conformance.stock_guest",
        "squall.sim.stock.stacks",
        "torch.testing._internal.common_distributed",
        *(OF_A_CHECKOUT if fixture == "" else (fixture, *(test.owner.module for test in tests))),
    }
    with (
        _fork_server(sorted(modules)) as fork_server,
        tempfile.TemporaryDirectory(prefix="squall-conformance-") as name,
    ):
        for test in tests:
            if test.skip:
                yield test, Played("skipped", test.skip)
                continue
            for size in test.owner.sizes:
                played = play(test, fork_server, Path(name) / test.id / str(size), size)
                if played.why != TOO_FEW:
                    break
            yield test, played


def _fork_server(modules: list[str]) -> ForkServer:
    try:
        return ForkServer([*modules, WARM])
    except MissingModule as missing:
        raise MissingPackageError.named(missing.name) from None


class _Ranks(ScriptProcesses):
    """The ranks of a test: what they ask."""

    def __init__(self, test: Test, directory: Path, cluster: NativeCluster, size: int) -> None:
        super().__init__(
            Script(path=str(directory / "test"), text="", workers=size, check=False),
            cluster,
            entry=_ENTRY,
        )
        self.test = test
        self.directory = directory
        self.skipped: str | None = None
        self.first_error: str | None = None
        cluster.size = size
        cluster.answers["skip"] = self._skip

    def role(self, number: int) -> dict[str, Any]:
        owner = self.test.owner
        return {
            "watch": False,  # its own backward, which TorchScript knows
            "test": {
                "module": owner.module,
                "name": owner.name,
                "fixture": owner.fixture,
                "method": self.test.method,
                "of_groups": owner.of_groups,
                "started": None if owner.started is None else asdict(owner.started),
                "file_name": str(self.directory / "rendezvous"),
            },
        }

    def _skip(self, worker: NativeWorker, question: int, reason: str) -> None:
        self.skipped = reason
        self.cluster.answer(worker, question, None)

    def _ended(self, worker: NativeWorker, code: int, error: Uncaught | None) -> None:
        """A rank that failed takes the others with it; the test is over."""
        self.cluster.end(worker)
        if not code and error is None:
            return
        if self.first_error is None:
            said = f"{error.type}: {error.message}" if error else f"exit code {code}"
            self.first_error = f"{worker.name}: {said}"
        for other in self.cluster.workers:
            self.cluster.end(other)


def play(test: Test, fork_server: ForkServer, directory: Path, size: int) -> Played:
    """Run one test to its end with ``size`` ranks, in a directory that is made for it."""
    started = time.monotonic()
    for each in ("barrier", "test_dir", "init_dir"):  # as PyTorch's tests of process groups want it
        (directory / each).mkdir(parents=True)
    cluster = NativeCluster(0, fork_server, _ENTRY, latency=DEFAULT_LATENCY, max_steps=MAX_STEPS)
    with cluster:
        ranks = _Ranks(test, directory, cluster, size)
        try:
            for rank in range(size):
                ranks.start(rank, rank=rank)
            cluster.runtime.run(max_time_s=TIMEOUT_S)
            why = _why(ranks, cluster)
        except FoundError as error:  # its ranks do with their groups what goes well by chance only
            why = str(error)
        except (TimeoutError, Livelock) as error:
            why = f"{type(error).__name__}: {error}"
        log = "".join(
            f"{worker.name}: {line}\n"
            for worker in cluster.workers
            for line in (worker.process.stdout() + worker.process.stderr()).splitlines()
        )[-LOG_CHARACTERS:]
    seconds = time.monotonic() - started
    if why is not None:
        return Played("failed", why, log, seconds)
    if ranks.skipped is not None:
        return Played("skipped", ranks.skipped, log, seconds)
    return Played("passed", "", log, seconds)


def _why(ranks: _Ranks, cluster: NativeCluster) -> str | None:
    """What went wrong, if anything did."""
    if cluster.deaths:
        return str(cluster.deaths[0])
    if ranks.first_error is not None:
        return ranks.first_error
    if any(worker.alive for worker in cluster.workers):
        if cluster.runtime.now() >= TIMEOUT_S:
            return f"no end within {TIMEOUT_S:g} s of virtual time"
        waits = "\n".join(cluster.waits())
        return f"nothing can happen any more, and these wait:\n{waits}"
    return None
