"""Scripts on the stand-in device: it is their default device, and the order of their streams is
judged."""

import io

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

import squall
from squall.model.checks.registry import check
from squall.model.program.strict_json import MadeError
from squall.sim.scenario import Scenario, Script, World
from squall.sim.scenarios.engines import ENGINES


def _double(x):
    return x * 2


def _train(rank, there):
    options = rpc.TensorPipeRpcBackendOptions()
    options.set_device_map(f"worker{1 - rank}", {0: there} if rank == 0 else {there: 0})
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    found = None
    if rank == 0:
        x = torch.ones(3, requires_grad=True)
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", _double, args=(x * 3,))
            dist_autograd.backward(context_id, [y.sum()])
            grad = dist_autograd.get_gradients(context_id)[x]
            found = str(x.device), str(grad.device), grad.cpu().tolist()
    rpc.shutdown()
    return found


def test_a_function_runs_on_the_stand_in_by_default_and_its_streams_are_in_order():
    run = squall.run(_train, workers=2, device="stand-in", args=(1,))
    assert run.results[0] == ("standin:0", "standin:0", [6, 6, 6])
    assert run.ok
    assert any(event.stream[0] == 1 for event in run.inner.computing.stream_events)
    assert "PyTorch's own engine does not run on the stand-in" in run.inner.hints[0]


def test_a_function_gives_the_same_digest_on_the_stand_in_again():
    first, second = (squall.run(_train, workers=2, device="stand-in", args=(2,)) for _ in range(2))
    assert first.digest == second.digest
    assert first.inner.computing.stream_events == second.inner.computing.stream_events


RACE = """
import torch

x = torch.ones(3)
module = torch.get_device_module("standin")
with module.stream(module.Stream()):
    {wait}
    print((x * 2).cpu().tolist())
"""


@pytest.mark.parametrize("waits", [True, False])
def test_a_script_that_does_not_wait_has_a_race(waits):
    wait = "module.current_stream().wait_stream(module.default_stream())" if waits else "pass"
    script = Script(path="race.py", text=RACE.format(wait=wait), workers=1, check=False)
    printed = io.StringIO()
    run = ENGINES["port"].run(
        Scenario(work=script, world=World(device="stand-in")), stdout=printed, stderr=printed
    )
    found = [violation for violation in check(run) if violation.property == "streams"]
    assert bool(found) != waits
    if waits:
        assert "[2.0, 2.0, 2.0]" in printed.getvalue()
    else:
        assert "race.py:8" in str(found[0])


def test_the_compiled_engine_is_refused():
    with pytest.raises(MadeError, match="'stand-in' is for the engine port"):
        squall.run(_train, workers=2, device="stand-in", engine="torch", args=(1,))
