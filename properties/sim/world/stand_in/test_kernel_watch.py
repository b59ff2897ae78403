"""A device seen from outside, as a GPU is: the stand-in tells the same by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from squall.model.events.stream_order import StreamEvent, races
from squall.properties.planted.devices import MUTANTS
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import judge
from squall.sim.world.device import seen_as_a_gpu
from squall.sim.world.kernel_watch import KernelWatch
from squall.sim.world.stand_in.backend import begin_run
from squall.sim.world.stand_in.streams import STAND_IN
from squall.sim.world.stand_in.tensors import DEVICE_TYPE, StandInTensor

SETTINGS = Settings(device="stand-in")
FREED = "memory given to the next tensor"
#: seeds on which planted bugs are tried
TRIED = 13
#: noticed by the order of streams within these, where the stand-in tells by itself
NOTICED = (
    "device-gradients-not-awaited",
    "gradient-used-before-its-event",
    "gradient-memory-not-recorded",
    "node-on-the-caller-stream",
    "accumulated-on-an-unordered-stream",
    "sent-memory-not-recorded",
    "value-of-a-reference-not-awaited",
    "reply-not-awaited",
    "reply-memory-not-recorded",
    "future-without-events",
    "callback-on-an-unsynchronized-stream",
    "copy-before-the-sender-is-done",
    "request-on-the-default-stream",
    "resumed-request-on-other-streams",
)


@pytest.fixture
def stand_in() -> Iterator[Any]:
    with campaign_settings("stand-in"):
        yield torch.get_device_module(DEVICE_TYPE)


def by_stream(log: Sequence[StreamEvent]) -> list[tuple[object, str]]:
    """On which streams kernels ran, and where they were asked for. What was freed within an operator
    may be seen before or after it; the stand-in tells of memory that is only made as of a kernel."""
    left_out = (FREED, "new_empty_strided")
    return [
        (each.stream, each.where)
        for each in log
        if each.kind == "kernel" and each.name not in left_out
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(20))
def test_it_sees_what_the_stand_in_tells(seed: int, stand_in: Any) -> None:
    scenario = draw(seed, SETTINGS)
    play(scenario)  # some kernels run once a process
    told = play(scenario).computing.stream_events
    with seen_as_a_gpu():
        seen = play(scenario).computing.stream_events
    assert by_stream(seen) == by_stream(told)
    assert len(told) > 20
    freed = [sum(each.name == FREED for each in log) for log in (told, seen)]
    assert abs(freed[0] - freed[1]) <= 0.1 * freed[0] + 2
    assert races(told) == []
    assert races(seen) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NOTICED)
def test_a_planted_bug_is_noticed(name: str, stand_in: Any) -> None:
    (bug,) = (each for each in MUTANTS if each.name == name)
    with seen_as_a_gpu():
        for seed in range(TRIED):
            with bug.apply():
                verdict = judge(draw(seed, SETTINGS))
            if not verdict.ok:
                break
    assert [each.property for each in verdict.violations][:1] == ["streams"]


@pytest.fixture
def watched(stand_in: Any) -> Iterator[KernelWatch]:
    begin_run(0, 1, lambda: 0)
    STAND_IN.recording = False
    watch = KernelWatch(DEVICE_TYPE, lambda: 0, StandInTensor)
    watch.begin()
    yield watch
    watch.end()
    STAND_IN.end()


def on_two_streams(module: Any, wait: Callable[[Any, Any], object]) -> None:
    """A tensor is written on one stream and read on another, after ``wait(reader, writer)``."""
    writer, reader = module.Stream(), module.Stream()
    with module.stream(writer):
        x = torch.ones(4, device=DEVICE_TYPE)
    wait(reader, writer)
    with module.stream(reader):
        x * 2
    x.record_stream(reader)


def by_event(reader: Any, writer: Any) -> None:
    reader.wait_event(writer.record_event())


@pytest.mark.parametrize(
    ("wait", "found"),
    [
        (lambda reader, writer: None, 1),
        (by_event, 0),
        (lambda reader, writer: reader.wait_stream(writer), 0),
        (lambda reader, writer: writer.synchronize(), 0),
        (lambda reader, writer: writer.record_event().synchronize(), 0),
        (lambda reader, writer: torch.get_device_module(DEVICE_TYPE).synchronize(), 0),
        (lambda reader, writer: writer.record_event(), 1),
        (lambda reader, writer: writer.wait_stream(reader), 1),
    ],
)
def test_every_way_to_wait_counts(
    wait: Callable[[Any, Any], object], found: int, watched: KernelWatch, stand_in: Any
) -> None:
    on_two_streams(stand_in, wait)
    assert len(races(watched.log)) == found


@pytest.mark.parametrize("recorded", [True, False])
def test_memory_that_is_freed_is_written_to(
    recorded: bool, watched: KernelWatch, stand_in: Any
) -> None:
    other = stand_in.Stream()
    x = torch.ones(4, device=DEVICE_TYPE)
    other.wait_stream(stand_in.current_stream())
    with stand_in.stream(other):
        x * 2
    if recorded:
        x.record_stream(other)
    del x
    assert len(races(watched.log)) == (0 if recorded else 1)


def test_copies_wait_as_on_a_gpu(watched: KernelWatch, stand_in: Any) -> None:
    """To the host: for the current stream. Between devices: for the current streams of both."""
    x = torch.ones(4, device=f"{DEVICE_TYPE}:0")
    y = x.to(f"{DEVICE_TYPE}:1")
    y.add_(1)
    assert y.sum().item() == 8.0
    x.zero_()
    assert races(watched.log) == []
    kinds = [each.kind for each in watched.log if each.name != FREED]
    assert kinds.count("wait") == 2
    assert kinds[-2:] == ["host", "kernel"]


def test_nothing_is_seen_of_what_comes_after(watched: KernelWatch, stand_in: Any) -> None:
    x = torch.ones(4, device=DEVICE_TYPE)
    watched.end()
    before = len(watched.log)
    x * 2
    stand_in.current_stream().record_event().synchronize()
    del x
    assert len(watched.log) == before
    watched.begin()
