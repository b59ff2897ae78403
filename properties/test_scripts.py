"""Ordinary PyTorch RPC programs print under squall what they print on stock PyTorch.

``scripts/X.expected`` is what ``python scripts/X.py`` printed on stock PyTorch with real
processes. To write one anew: ``python properties/scripts/X.py > properties/scripts/X.expected``.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.report import Report
from sim.scenario import ScriptScenario, run

SCRIPTS = Path(__file__).with_name("scripts")
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py"))
#: those that are run on stock PyTorch again; ``STOCK=all`` for all, which takes minutes
AGAIN = NAMES if os.environ.get("STOCK") == "all" else ["hooks", "nested_rpc"]


def play(name: str, *, seed: int = 0, latency: str = "lognormal:0.001:0.5") -> tuple[Report, str]:
    printed = io.StringIO()
    report = run(
        ScriptScenario(
            script=SCRIPTS / f"{name}.py",
            seed=seed,
            latency=latency,
            check=True,
            stdout=printed,
            stderr=sys.stderr,
        )
    )
    return report, printed.getvalue()


@pytest.mark.parametrize("latency", ["0", "lognormal:0.001:0.5"])
@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_what_it_prints_on_stock_pytorch(name: str, latency: str) -> None:
    report, printed = play(name, latency=latency)
    assert [error.traceback for error in report.errors] == []
    assert printed == (SCRIPTS / f"{name}.expected").read_text()
    assert report.outcome == "ok"
    assert report.gradients is not None
    assert report.gradients.mismatches == []
    assert (report.leaked_rrefs, report.leaked_contexts) == (0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_the_same_run_every_time(name: str) -> None:
    first, second = play(name, seed=3)[0], play(name, seed=3)[0]
    assert first.digest == second.digest


@pytest.mark.parametrize("name", AGAIN)
def test_the_expected_output_is_that_of_stock_pytorch(name: str, free_port: int) -> None:
    """With real processes over TensorPipe."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{name}.py")],
        env={**os.environ, "MASTER_PORT": str(free_port), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == (SCRIPTS / f"{name}.expected").read_text()
