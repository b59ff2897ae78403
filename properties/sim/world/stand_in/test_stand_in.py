"""The stand-in device: what waits reads what was computed, and what does not wait reads poison."""

from collections.abc import Iterator

import pytest
import torch

from squall.model.events.stream_order import races
from squall.sim.world.stand_in.backend import begin_run
from squall.sim.world.stand_in.streams import STAND_IN


@pytest.fixture
def device() -> Iterator[object]:
    """The device's module, in a run whose streams do nothing before somebody has to see it."""
    begin_run(0, 1, lambda: 0)
    STAND_IN.homes = []
    STAND_IN.lag()
    yield torch.get_device_module("standin")
    STAND_IN.end()


def racing() -> list[tuple[str, str]]:
    log = STAND_IN.log
    return [(log[race.first].name, log[race.second].name) for race in races(log)]


def test_a_stream_that_does_not_wait_reads_poison_and_is_a_race(device):
    x = torch.ones(3, device="standin")
    device.synchronize()
    with device.stream(device.Stream()):
        y = x * 2
    assert y.cpu().isnan().all()
    assert ("mul", "copy to the host") in racing()


def test_a_stream_that_waits_reads_what_was_computed(device):
    x = torch.ones(3, device="standin")
    stream = device.Stream()
    stream.wait_stream(device.current_stream())
    x.record_stream(stream)
    with device.stream(stream):
        y = x * 2
    device.current_stream().wait_event(stream.record_event())
    y.record_stream(device.current_stream())
    assert y.cpu().tolist() == [2, 2, 2]
    assert racing() == []


@pytest.mark.parametrize("recorded", [True, False])
def test_memory_is_given_away_under_a_stream_that_was_not_recorded(device, recorded):
    stream = device.Stream()
    x = torch.ones(3, device="standin")
    stream.wait_stream(device.current_stream())
    with device.stream(stream):
        y = x * 2
    if recorded:
        x.record_stream(stream)
    del x
    stream.synchronize()
    assert y._inner.tolist() == [2, 2, 2]
    assert racing() == ([] if recorded else [("mul", "memory given to the next tensor")])


def test_tensors_on_several_devices_do_not_mix(device):
    one, two = torch.ones(2, device="standin:1"), torch.ones(2, device="standin:2")
    with pytest.raises(RuntimeError, match="at least two devices, standin:1 and standin:2"):
        one + two
    assert (one.to("standin:2") + two).cpu().tolist() == [2, 2]
    assert racing() == []


def test_random_numbers_are_those_of_the_cpu_in_the_order_of_the_program(device):
    torch.manual_seed(5)
    drawn = [torch.randn(3, device="standin") for _ in range(2)]
    torch.manual_seed(5)
    expected = [torch.randn(3) for _ in range(2)]
    for ours, theirs in zip(reversed(drawn), reversed(expected), strict=True):
        assert torch.equal(ours.cpu(), theirs)


def test_a_node_is_called_with_gradients_of_the_device(device):
    x = torch.ones(3, device="standin:1", requires_grad=True)
    y = (x * 3).sum()
    grad = y.grad_fn.next_functions[0][0](y.grad_fn(torch.ones((), device="standin:1")))[0]
    assert grad.device == torch.device("standin", 1)
    assert grad.cpu().tolist() == [3, 3, 3]
