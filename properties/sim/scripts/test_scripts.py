"""Ordinary PyTorch RPC programs print under squall what they print on stock PyTorch.

``scripts/X.expected`` is what ``python scripts/X.py`` printed on stock PyTorch with real
processes. To write one anew: ``python properties/scripts/X.py > properties/scripts/X.expected``.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.properties.support.commands import whole_lines
from squall.properties.support.paths import SCRIPTS
from squall.properties.support.scripts import alike, run_file
from squall.sim.faults.plan import Order

NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py"))
#: those that are run on stock PyTorch again; ``STOCK=all`` for all, which takes minutes
AGAIN = NAMES if os.environ.get("STOCK") == "all" else ["hooks", "nested_rpc"]


def play(
    name: str, *, seed: int = 0, latency: str = "lognormal:0.001:0.5", order: Order = "fifo"
) -> tuple[Run, str]:
    printed = io.StringIO()
    report = run_file(
        SCRIPTS / f"{name}.py",
        seed=seed,
        latency=latency,
        order=order,
        stdout=printed,
        stderr=sys.stderr,
    )
    return report, printed.getvalue()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("latency", ["0", "lognormal:0.001:0.5"])
@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_what_it_prints_on_stock_pytorch(name: str, latency: str) -> None:
    report, printed = play(name, latency=latency)
    assert [error.traceback for error in report.errors] == []
    assert alike(printed, (SCRIPTS / f"{name}.expected").read_text(encoding="utf-8"))
    assert report.outcome == "ok"
    assert report.gradients is not None
    assert report.gradients.mismatches == []
    assert (report.rpc_groups.leaked_rrefs, report.rpc_groups.leaked_contexts) == (0, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_the_same_run_every_time(name: str) -> None:
    first, second = play(name, seed=3)[0], play(name, seed=3)[0]
    assert first.digest == second.digest


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", AGAIN)
def test_the_expected_output_is_that_of_stock_pytorch(name: str, free_port: int) -> None:
    """With real processes over TensorPipe."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{name}.py")],
        env={**whole_lines(), "MASTER_PORT": str(free_port), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert alike(done.stdout, (SCRIPTS / f"{name}.expected").read_text(encoding="utf-8"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_the_same_whatever_runs_next(name: str) -> None:
    often = name in ("threads", "one_thread", "thread_pool", "nested_rpc")
    for seed in range(5 if often else 1):
        report, printed = play(name, seed=seed, latency="0", order="random")
        assert (seed, report.outcome, report.waits) == (seed, "ok", [])
        assert not any(each.grows for each in report.processes.kept)
        assert alike(printed, (SCRIPTS / f"{name}.expected").read_text(encoding="utf-8"))


def run_text(folder: Path, source: str) -> Run:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(source), encoding="utf-8")
    return run_file(script, stdout=io.StringIO(), stderr=io.StringIO())


def test_the_exit_code_of_a_child_is_its_parents_business(tmp_path: Path) -> None:
    report = run_text(
        tmp_path,
        """
        import multiprocessing, sys

        if __name__ == "__main__":
            child = multiprocessing.get_context("spawn").Process(target=sys.exit, args=(3,))
            child.start()
            child.join()
            assert child.exitcode == 3
        """,
    )
    assert (report.outcome, report.errors) == ("not checked", [])
    assert 3 in report.processes.exit_codes.values()


def test_a_clock_that_is_read_a_million_times_goes_on(tmp_path: Path) -> None:
    """Long after its step has stopped doubling."""
    report = run_text(
        tmp_path,
        """
        import time

        end = time.time() + 30
        while time.time() < end:
            pass
        """,
    )
    assert (report.outcome, report.errors) == ("not checked", [])
    assert 30 <= report.ended_s < 31


def test_who_waits_for_an_event_is_told_in_words(tmp_path: Path) -> None:
    report = run_text(tmp_path, "import threading; threading.Event().wait()")
    assert report.outcome == "deadlock"
    (line,) = report.waits
    assert line.startswith("main waits for `threading.Event()` to be set since t=")
