"""What ranks of trainings do alike is done before they are copied, and changes nothing that they do."""

from __future__ import annotations

import io

import pytest

from squall.properties.support.commands import python
from squall.sim.scenario import Scenario
from squall.sim.search.draw import Settings, draw
from squall.sim.stock.script import run_script
from squall.sim.stock.shared import for_script, shared_fork_server
from squall.sim.trainings.draw import draw_training
from squall.sim.trainings.training import SHARDED, Wrapper

SETTINGS = Settings(engine="torch", groups=True)


def first_seed(wrapper: Wrapper) -> int:
    return next(seed for seed in range(1000) if draw_training(seed).wrapper == wrapper)


def digest(scenario: Scenario, modules: tuple[str, ...]) -> str:
    fork_server = shared_fork_server(modules)
    run = run_script(scenario, fork_server=fork_server, stdout=io.StringIO(), stderr=io.StringIO())
    assert not run.errors
    return run.digest


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wrapper", ["ddp", "zero", "pipeline", *sorted(SHARDED)])
@pytest.mark.usefixtures("compiled_engine")
def test_it_changes_nothing(wrapper: Wrapper) -> None:
    scenario = draw(first_seed(wrapper), SETTINGS)
    assert scenario.script is not None
    *plain, rehearsal = for_script(scenario.script)
    assert rehearsal.endswith(draw_training(first_seed(wrapper)).kind)
    assert digest(scenario, (*plain, rehearsal)) == digest(scenario, tuple(plain))


_LEFT = """
import sys, torch, torch.distributed as dist
from squall.sim.trainings.rehearsal import rehearse
hook, state = sys.excepthook, torch.get_rng_state()
rehearse(sys.argv[1])
assert sys.excepthook is hook and torch.equal(torch.get_rng_state(), state)
assert not dist.is_initialized()
assert not dist.distributed_c10d._world.pg_map
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["2 ddp", "2 tp", "3 fsdp", "4 hsdp", "4 dp x tp", "4 pp x dp"])
def test_nothing_of_it_is_left(kind: str) -> None:
    ended = python("-c", _LEFT, kind)
    assert ended.returncode == 0, ended.stderr
