"""Steps within a profile: they come to the same, in wrappers, and the profile says what they called."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from squall.model.events.unwrapped import called, unprofiled
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.real import tracing
from squall.sim.cluster import Cluster
from squall.sim.programs.profiled import AtLeast, Profiled
from squall.sim.scenario import Scenario
from squall.sim.scenarios.play import play
from squall.sim.search.judge import judge


def _scenario(*, fails: bool = False) -> Scenario:
    """``sum(leaf * 2)``, the product made on worker 2 by way of worker 1."""
    ops = (
        Op(kind="scale", inputs=(Input(1),), worker=2, call="sync", via=(1,), factor=2),
        Op(
            kind="total",
            inputs=(Input(1),),
            worker=1,
            call="sync",
            fails_first="copy" if fails else None,
            fails_by="sync",
        ),
    )
    step = Step(ops=ops, backwards=(Backward(roots=(1,)),), profiled=True)
    trainer = Trainer(worker=0, steps=(step,))
    program = Program(workers=3, leaves=(Leaf(owner=0, shape=(2,)),), trainers=(trainer,))
    return Scenario(work=program, seed=5)


def test_calls_and_the_calls_that_they_make_travel_in_wrappers() -> None:
    scenario = _scenario()
    verdict, run = judge(scenario), play(scenario)
    assert not verdict.violations, verdict.violations
    wrapped = [
        (run.records[n][4][1], called(run.records[n][4][3], run.records[n][4][6]))
        for n in run.of(tracing.MESSAGE_SENT)
        if run.records[n][4][3] == "RUN_WITH_PROFILING_REQ"
    ]
    assert wrapped == [(0, "PYTHON_CALL"), (1, "PYTHON_CALL"), (0, "PYTHON_CALL")]


def test_the_compiled_engine_comes_to_the_same() -> None:
    verdict = judge(replace(_scenario(), engine="torch"))
    assert not verdict.violations, verdict.violations


def test_a_call_that_cannot_be_sent_ends_its_range() -> None:
    verdict = judge(_scenario(fails=True))
    assert not verdict.violations, verdict.violations


def test_a_profile_that_lacks_a_call_is_noticed() -> None:
    def work(rank: int) -> None:
        with Profiled(True, AtLeast(calls=1)):
            pass

    with (
        pytest.raises(AssertionError, match="has 0 calls and 0 answers"),
        Cluster(1) as cluster,
    ):
        cluster.run(work)


def test_what_is_inside() -> None:
    about = ((1, 0), "FORWARD_AUTOGRAD_REQ", 7, 0, "PYTHON_CALL")
    assert unprofiled("RUN_WITH_PROFILING_REQ", about) == ("FORWARD_AUTOGRAD_REQ", about[2:])
    assert called("RUN_WITH_PROFILING_REQ", about) == "PYTHON_CALL"
    assert called("RUN_WITH_PROFILING_REQ", ()) == "RUN_WITH_PROFILING_REQ"
    assert called("PYTHON_CALL", ()) == "PYTHON_CALL"


_FIRST_IN_ITS_PROCESS = """
import json, sys
from squall.properties.sim.programs.test_profiled import _scenario
from squall.sim.scenarios.play import play
print(json.dumps([play(_scenario()).digest for _ in range(2)]))
"""


def test_the_first_profile_of_a_process_is_as_any_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_IN_ITS_PROCESS], capture_output=True, text=True, check=True
    )
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert first == second
