"""The queue of a run: what is due when, in which order, and what was cancelled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import simpy

from squall.sim.world import virtual_time
from squall.sim.world.schedule import Schedule
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.virtual_time import Due, Livelock, VirtualTime


class Alarm(Due):
    __slots__ = ("callbacks", "name")

    def __init__(self, name: str) -> None:
        self.name = name


class Bell(Alarm):
    __slots__ = ()


def test_what_is_due_first_goes_first_and_at_one_instant_what_was_queued_first() -> None:
    env = VirtualTime()
    log: list[tuple[float, str]] = []
    ring = [lambda alarm: log.append((env.now, alarm.name))]
    for name, delay_s in (("late", 2.0), ("a", 1.0), ("b", 1.0), ("never", 9.0)):
        env.put(Alarm(name), ring, delay_s)

    steps = list(env.steps(until_s=5.0))

    assert log == [(1.0, "a"), (1.0, "b"), (2.0, "late")]
    assert len(steps) == 3 and env.pending == 1 and env.now == 2.0


def test_the_queue_can_be_looked_into() -> None:
    env = VirtualTime()
    second, first = Alarm("second"), Alarm("first")
    env.put(second, [], 2.0)
    env.put(Bell("of another class"), [], 1.5)
    env.put(first, [], 1.0)

    assert env.queued(Alarm) == [(1.0, first), (2.0, second)]
    assert env.next_priority() is None, "nothing is due at this instant"
    env.put(Alarm("now"), [], 0.0)
    assert env.next_priority() == virtual_time.NORMAL
    env.clear()
    assert env.pending == 0 and env.queued(Alarm) == []


def test_processes_of_simpy_s_own_share_the_clock() -> None:
    env = VirtualTime()
    log: list[float] = []

    def process() -> Iterator[simpy.Event]:
        for _ in range(2):
            yield env.timeout(1.5)
            log.append(env.now)

    env.process(process())
    env.put(Alarm("in between"), [lambda _: log.append(env.now)], 2.0)
    for _ in env.steps():
        pass

    assert log == [1.5, 2.0, 3.0]


def test_cancelled_timers_are_swept_out_and_count_no_more() -> None:
    runtime = SimRuntime()
    timers = [runtime.call_later(60.0, lambda: pytest.fail("fired")) for _ in range(1000)]
    kept = runtime.call_later(61.0, lambda: None)
    for timer in timers:
        timer.cancel()
        timer.cancel()

    left = runtime.env.queued(type(kept))
    assert len(left) < 300 and left[-1] == (61.0, kept)
    assert runtime.env.pending == 1
    runtime.run()
    assert runtime.now() == 61.0 and runtime.env.pending == 0


def test_a_run_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "COLLECT_EVERY", 100)
    runtime = SimRuntime(order=Schedule(order="random"))
    runtime.max_steps = 500

    def spin() -> None:
        while True:
            runtime.sleep(1e-9)

    runtime.spawn(spin, name="spinner")
    with pytest.raises(Livelock, match="no end after 600 steps"):
        runtime.run()
    runtime.close()
