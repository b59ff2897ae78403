"""Device maps: where tensors of calls, replies and gradients arrive, on the stand-in device."""

from typing import ClassVar

import pytest
import torch

from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.sim.cluster import Cluster
from squall.sim.scenarios.settings import campaign_settings


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
