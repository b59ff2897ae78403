"""Programs whose workers leave their RPC group and meet again in another one."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.model.one_process.interpreter import interpret
from squall.model.program.check import ProgramError
from squall.model.program.program import (
    Backward,
    Ending,
    Input,
    Leaf,
    Op,
    Optimizer,
    Program,
    Step,
    Trainer,
)
from squall.model.program.variants import in_one_group
from squall.model.shrink.cuts import cuts
from squall.properties.support.exported import differences, read_printed
from squall.properties.support.scripts import run_file
from squall.real import tracing
from squall.sim.export.scenario import export
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.play import play
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import judge

_ENDINGS = {
    "graceful": Ending(),
    "within a time limit": Ending(timeout_s=100.0),
    "after some quiet": Ending(graceful=False, quiet_s=5.0),
    "at once": Ending(graceful=False),
}


def _program(*endings: Ending) -> Program:
    """In each group two trainers make references to each other's leaves, which the other keeps."""
    trainers = []
    for home in (0, 1):
        there = Input(2 - home, how="kept_rref")
        ops = (Op(kind="total", inputs=(there,), worker=1, call="remote", keep="use"),)
        steps = tuple(
            Step(
                ops=ops,
                backwards=(Backward(roots=(1,)),),
                optimize=home == 0,
                group=group,
            )
            for group in range(len(endings) + 1)
        )
        optimizer = Optimizer(leaves=(0,)) if home == 0 else None
        trainers.append(Trainer(worker=home, steps=steps, optimizer=optimizer))
    leaves = (Leaf(owner=0, shape=(2,)), Leaf(owner=1, shape=(3,)))
    return Program(workers=2, leaves=leaves, trainers=tuple(trainers), endings=endings)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("keeps", [False, True], ids=["", "with references"])
@pytest.mark.parametrize("name", _ENDINGS)
def test_they_compute_the_same_in_each_group(name: str, keeps: bool) -> None:
    ending = replace(_ENDINGS[name], keeps=keeps)
    for skip in (False, True):
        scenario = Scenario(
            work=_program(ending, ending), seed=5, world=World(skip_handshakes=skip)
        )
        run = play(scenario)
        assert run.outcomes.got is not None
        assert not run.outcomes.got.broken
        assert len([step for step in run.outcomes.got.steps.values() if step.error is None]) == 6
        assert not judge(scenario).violations


def test_all_leave_in_the_way_of_the_ending() -> None:
    quiet = play(Scenario(work=_program(_ENDINGS["after some quiet"]), seed=1))
    assert len(quiet.of(tracing.GROUP_LEFT)) == 2
    assert not quiet.of(tracing.FAULT_INJECTED)
    assert quiet.ended_s > 5
    at_once = play(Scenario(work=_program(_ENDINGS["at once"]), seed=1))
    assert [at_once.records[n][4][0] for n in at_once.of(tracing.FAULT_INJECTED)] == ["leave"] * 2
    graceful = play(Scenario(work=_program(_ENDINGS["graceful"]), seed=1))
    assert not graceful.of(tracing.GROUP_LEFT)


def test_groups_shrink() -> None:
    program = _program(_ENDINGS["graceful"], _ENDINGS["at once"])
    found = list(cuts(program))
    assert in_one_group(program) in found
    assert any(len(each.endings) == 1 and each.steps[-1][2].group == 1 for each in found)


@pytest.mark.parametrize("groups", [(1, 0), (0, 2)], ids=["falling", "too late"])
def test_steps_are_in_groups_that_there_are(groups: tuple[int, ...]) -> None:
    program = _program(Ending())
    trainer = program.trainers[1]
    steps = tuple(replace(trainer.steps[0], group=group) for group in groups)
    with pytest.raises(ProgramError, match=r"steps\[1\].group: "):
        replace(program, trainers=(program.trainers[0], replace(trainer, steps=steps)))


def test_they_are_drawn_for_the_port_alone() -> None:
    seeds = [seed for seed in range(60) if _drawn(seed, Settings()).endings]
    assert len(seeds) > 2
    assert all(not _drawn(seed, Settings(engine="torch")).endings for seed in seeds)


def _drawn(seed: int, settings: Settings) -> Program:
    program = draw(seed, settings).program
    assert program is not None
    return program


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", _ENDINGS)
def test_they_are_exported(name: str, tmp_path: Path) -> None:
    scenario = Scenario(work=_program(_ENDINGS[name], _ENDINGS[name]), seed=5)
    path = tmp_path / "out.py"
    path.write_text(export(scenario, "squall replay", str(path)), encoding="utf-8")
    out = io.StringIO()
    report = run_file(path, stdout=out, stderr=sys.stderr)
    assert report.errors == []
    assert scenario.program is not None
    printed = read_printed(out.getvalue())
    assert {place[:2] for place in printed.gradients} == {(t, s) for t in (0, 1) for s in range(3)}
    expected = interpret(scenario.program)
    assert (
        differences(scenario.program, expected, printed, Run(program=scenario.program).tolerance)
        == []
    )
