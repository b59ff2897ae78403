"""Device maps: where tensors of calls, replies and gradients arrive, on the stand-in device."""

from typing import ClassVar

import pytest
import torch

from squall.model.events.stream_order import races
from squall.properties.planted.devices import MUTANTS
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.device_copies import move_tensors
from squall.sim.cluster import Cluster
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.stand_in.backend import begin_run
from squall.sim.world.stand_in.streams import STAND_IN


class Mapped(Cluster):
    """A cluster whose workers have these device maps."""

    maps: ClassVar[dict] = {}

    def _device_maps(self, rank):
        return self.maps.get(rank)


def on_workers(maps, main, workers=2):
    with campaign_settings("stand-in"), Mapped(workers, device="stand-in") as cluster:
        cluster.maps = maps
        return cluster.run(lambda rank: main() if rank == 0 else None)[0]


def devices_of(x):
    return str(x.device), (x * 2)


def moved_to(x, device):
    return x.to(device)


THERE = {0: {"worker1": {"standin:0": "standin:2", "standin:1": "standin:3"}}}


def test_a_tensor_goes_by_the_map_and_comes_back_by_its_inverse():
    def main():
        x = torch.ones(2, device="standin:1")
        there, back = rpc.rpc_sync("worker1", devices_of, args=(x,))
        return there, str(back.device), back.cpu().tolist()

    assert on_workers(THERE, main) == ("standin:3", "standin:1", [2, 2])


def test_gradients_go_back_the_way_that_tensors_came():
    def main():
        x = torch.ones(2, device="standin:0", requires_grad=True)
        with dist_autograd.context() as context_id:
            _, y = rpc.rpc_sync("worker1", devices_of, args=(x,))
            dist_autograd.backward(context_id, [y.sum()])
            grad = dist_autograd.get_gradients(context_id)[x]
            return str(grad.device), grad.cpu().tolist()

    assert on_workers(THERE, main) == ("standin:0", [2, 2])


def test_a_map_may_lead_to_the_cpu_and_back():
    maps = {0: {"worker1": {"standin:0": "cpu"}}}

    def main():
        there, back = rpc.rpc_sync("worker1", devices_of, args=(torch.ones(2, device="standin:0"),))
        return there, str(back.device)

    assert on_workers(maps, main) == ("cpu", "standin:0")


@pytest.mark.parametrize(
    ("maps", "text"),
    [
        (
            {},
            "Request device mapping is not available for destination worker1, but found tensor on "
            "device: standin:3",
        ),
        (
            {0: {"worker1": {"standin:0": "standin:0"}}},
            "Request device mapping is not available for destination worker1 for device standin:3 but "
            "received a tensor on that device.",
        ),
    ],
)
def test_a_tensor_that_no_map_leads_on_is_refused(maps, text):
    def main():
        with pytest.raises(RuntimeError) as raised:
            rpc.rpc_sync("worker1", devices_of, args=(torch.ones(2, device="standin:3"),))
        return str(raised.value)

    said = on_workers(maps, main)
    assert said.startswith("TensorPipe RPC backend only supports CPU tensors by default")
    assert said.endswith(text)


def test_a_reply_on_a_device_without_a_way_back_is_an_error():
    def main():
        with pytest.raises(RuntimeError) as raised:
            rpc.rpc_sync("worker1", moved_to, args=(torch.ones(2, device="cpu"), "standin:1"))
        return str(raised.value)

    said = on_workers(THERE, main)
    assert "Request device mapping is not available for destination worker0 for device" in said


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("standin:0", "standin:0"),
        ("standin:0", "standin:1"),
        ("standin:0", "cpu"),
        ("cpu", "standin:1"),
    ],
)
def test_tensors_are_laid_out_as_they_were_and_share_memory_as_they_did(source, target):
    begin_run(0, 1, lambda: 0)
    base = torch.arange(12.0).to(source)
    sent = [base[:1].expand(4), base[2:5], base.view(3, 4).t(), base.view(torch.int32)]
    there = torch.device(target)
    copies, _ = move_tensors(sent, [there] * len(sent))
    for index in range(2):
        torch.get_device_module("standin").synchronize(index)
    for before, after in zip(sent, copies, strict=True):
        assert after.device == there
        assert after.stride() == before.stride()
        assert after.storage_offset() == before.storage_offset()
        assert torch.equal(after.cpu(), before.cpu())
    if source != "cpu":
        assert len({copy.untyped_storage()._cdata for copy in copies}) == 1
    copies[1].add_(torch.ones(3, requires_grad=True).to(there))  # no view: it may be written to
    STAND_IN.end()


def _through_the_cpu():
    x = torch.ones(2, device="cpu", requires_grad=True)
    with dist_autograd.context() as context_id:
        y = (x * 3).to("standin:0")
        dist_autograd.backward(context_id, [y.sum()])
        return dist_autograd.get_gradients(context_id)[x].tolist()


def test_a_node_of_the_cpu_runs_after_one_of_a_device():
    assert on_workers({}, _through_the_cpu, workers=1) == [3, 3]


def test_a_device_node_that_finds_no_cpu_queue_fails_the_pass():
    bug = next(m for m in MUTANTS if m.name == "continuations-without-a-cpu-queue")
    with bug.apply(), pytest.raises(Exception, match="NoneType"):
        on_workers({}, _through_the_cpu, workers=1)


def test_a_tensor_of_the_cpu_stays_there_whatever_the_default_device_is():
    def main():
        x = torch.arange(6.0, device="cpu").view(2, 3).t()
        there, back = rpc.rpc_sync("worker1", devices_of, args=(x[1:],))
        return there, str(back.device), back.tolist()

    assert on_workers(THERE, main) == ("cpu", "cpu", [[2, 8], [4, 10]])


class _Kept(torch.autograd.Function):
    """Its backward keeps what it computes, and hands nothing on that has to be waited for."""

    kept: ClassVar[list[torch.Tensor]] = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        _Kept.kept = [grad * 3]


def _kept_on_a_stream_of_its_own():
    module = torch.get_device_module("standin")
    here, stream = module.current_stream("standin:0"), module.Stream(device="standin:0")
    x = torch.ones(2, device="standin:0", requires_grad=True)
    stream.wait_stream(here)
    x.record_stream(stream)
    with dist_autograd.context() as context_id:
        with module.stream(stream):
            y = _Kept.apply(x)
        here.wait_stream(stream)
        y.record_stream(here)
        dist_autograd.backward(context_id, [y.sum()])
        _Kept.kept[0].record_stream(here)
        (_Kept.kept.pop() * 1).cpu()
    module.synchronize(0)
    return [(STAND_IN.log[r.first].name, STAND_IN.log[r.second].name) for r in races(STAND_IN.log)]


def test_what_a_backward_pass_keeps_is_ready_when_it_ends():
    assert on_workers({}, _kept_on_a_stream_of_its_own, workers=1) == []


def test_what_a_backward_pass_keeps_races_where_its_streams_are_not_joined():
    bug = next(m for m in MUTANTS if m.name == "leaf-streams-not-joined")
    with bug.apply():
        assert ("mul", "mul") in on_workers({}, _kept_on_a_stream_of_its_own, workers=1)
