"""What campaigns must not cost: memory that is not freed, imports of packages that are not used."""

from __future__ import annotations

import subprocess
import sys
import weakref

from benchmarks import scenario
from squall.model.checks.registry import check
from squall.model.one_process.interpreter import interpret
from squall.sim.programs.run import run_program
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw
from squall.sim.world.garbage import settle


def test_a_run_is_freed_without_a_collection() -> None:
    """Its events are most of it; in a campaign of many thousands they would fill the memory."""
    traces = []
    with campaign_settings():
        settle()
        for seed in (1, 2, 3):
            run = run_program(draw(seed).program, seed=seed)
            assert len(run.cluster.trace.records) > 20
            traces.append(weakref.ref(run.cluster.trace))
            del run
        assert [trace() for trace in traces] == [None] * 3


def test_a_checked_run_is_freed_without_a_collection() -> None:
    """What the checks find out is kept with the run, and must not refer back to it."""
    with campaign_settings():
        settle()
        for seed in (1, 2, 3):
            program = draw(seed).program
            run = run_program(program, seed=seed)
            run.outcomes.expected = interpret(program)
            run.cluster = None
            assert check(run) == []
            checked = weakref.ref(run)
            del run
            assert checked() is None


_TWIN = """
import sys, torch
from squall.real.rpc.functional_twins import functional_twin
twin = functional_twin(torch.optim.SGD)
assert functional_twin(torch.optim.LBFGS) is None
assert not {"torch.distributed.optim", "torch.distributed.fsdp", "sympy"} & sys.modules.keys()
import torch.distributed.optim.utils as utils
assert utils.functional_optim_map[torch.optim.SGD] is twin
utils.functional_optim_map[torch.optim.LBFGS] = twin
assert functional_twin(torch.optim.LBFGS) is twin
"""


def test_a_functional_twin_comes_without_its_package_and_is_the_same_with_it() -> None:
    done = subprocess.run([sys.executable, "-c", _TWIN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


_REGISTERED = """
import sys, torch
from squall.real.rpc.functional_twins import functional_twin, register_twin
class Own: pass
class Twin: pass
register_twin(Own, Twin)
register_twin(Own, None)
assert functional_twin(Own) is Twin
assert not {"torch.distributed.optim", "torch.distributed.fsdp", "sympy"} & sys.modules.keys()
from torch.distributed.optim import as_functional_optim, utils
assert utils.functional_optim_map[Own] is Twin
assert as_functional_optim.__globals__ is vars(utils)
"""


def test_a_twin_is_registered_without_the_package_which_knows_it_later() -> None:
    done = subprocess.run([sys.executable, "-c", _REGISTERED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


_RUN = """
import sys, torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import squall
def step(rank):
    if rank == 0:
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync(1, torch.add, args=(torch.ones(2, requires_grad=True), 1)).sum()
            dist_autograd.backward(context_id, [loss])
run = squall.run(step, workers=2, join="worker{rank}")
assert run.gradients.compared == 1
assert not {"pandas", "plotly", "squall.sim.search.draw"} & sys.modules.keys()
assert not [name for name in sys.modules if name.startswith("squall.properties")]
"""


def test_a_run_imports_nothing_that_draws_scenarios_or_pictures_or_plants_bugs() -> None:
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_parts_of_a_scenario_add_up() -> None:
    seconds = scenario.measure(2, first=1)
    parts = [s for name, s in seconds.items() if ":" in name or name in scenario.PARTS]
    assert min(parts) >= 0 and abs(sum(parts) - seconds["total"]) < 1e-9
    assert seconds["workers"] < seconds["total"] and seconds["events"] > 50
