"""Runs a piece of source as a script in the simulation, for the tests of squall.sim.scripts.compat."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from squall.properties.support.commands import whole_lines
from squall.real.worker import Worker
from squall.sim.faults.plan import Order
from squall.sim.scripts.compat.launcher import Launcher, ProcessResult
from squall.sim.scripts.read_script import read_script
from squall.sim.world.deadlock import explain
from squall.sim.world.isolation import TorchIsolation
from squall.sim.world.network import Network
from squall.sim.world.scheduler import SimRuntime


@dataclass
class Played:
    """What became of a script: what it printed, how its processes ended, who was left waiting."""

    out: str
    err: str
    results: list[ProcessResult]
    stuck: list[str]
    virtual_time_s: float

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def exit_codes(self) -> list[int | None]:
        return [result.exit_code for result in self.results]


def play(
    script: Path | str,
    *args: str,
    workers: int | None = None,
    seed: int = 0,
    latency: str = "lognormal:0.001:0.5",
    order: Order = "fifo",
    environ: dict[str, str] | None = None,
) -> Played:
    """Run the script file to its end in the simulation."""
    runtime = SimRuntime(seed=seed, order=order, isolation=TorchIsolation())
    network = Network(runtime, latency=latency)
    out, err = io.StringIO(), io.StringIO()
    launcher = Launcher(
        runtime,
        read_script(Path(script), args, workers=workers),
        new_worker=lambda name: Worker(runtime, network, name=name),
        stdout=out,
        stderr=err,
        environ=environ,
    )
    with launcher:
        launcher.start()
        launcher.run()
        stuck = explain(runtime, runtime.stuck())
        now = runtime.now()
    return Played(out.getvalue(), err.getvalue(), launcher.results(), stuck, now)


def write(folder: Path, source: str, name: str = "script.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source), encoding="utf-8")
    return path


def stock(script: Path, *args: str, ranks: int | None = None, port: int) -> list[str]:
    """The lines that stock PyTorch prints, with real processes; one a rank, or one alone."""
    environ = {
        **whole_lines(),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }
    processes = []
    for rank in range(ranks or 1):
        if ranks is not None:
            environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
        processes.append(
            subprocess.Popen(
                [sys.executable, str(script), *args],
                env=dict(environ),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    lines: list[str] = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        lines += out.splitlines()
    return lines
