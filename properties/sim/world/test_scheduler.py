"""Tasks, locks, events and timers in virtual time."""

from __future__ import annotations

import gc
import weakref
from contextvars import ContextVar

import pytest
from greenlet import getcurrent, greenlet

from squall.real.runtime import current_task
from squall.sim.world.deadlock import explain
from squall.sim.world.scheduler import SimRuntime


def test_tasks_take_turns_in_order_of_time() -> None:
    runtime = SimRuntime()
    log: list[tuple[float, str]] = []

    def clock(name: str, tick: float) -> None:
        for _ in range(3):
            runtime.sleep(tick)
            log.append((runtime.now(), name))

    runtime.spawn(clock, "slow", 2.0, name="slow")
    runtime.spawn(clock, "fast", 0.5, name="fast")
    runtime.run()

    assert log == [
        (0.5, "fast"),
        (1.0, "fast"),
        (1.5, "fast"),
        (2.0, "slow"),
        (4.0, "slow"),
        (6.0, "slow"),
    ]
    assert not runtime.tasks


def test_a_lock_lets_one_in_at_a_time_and_in_order_of_arrival() -> None:
    runtime = SimRuntime()
    lock = runtime.lock()
    log: list[tuple[str, float]] = []

    def visitor(name: str) -> None:
        with lock:
            log.append((name, runtime.now()))
            runtime.sleep(1.0)

    for name in "abc":
        runtime.spawn(visitor, name, name=name)
    runtime.run()

    assert log == [("a", 0.0), ("b", 1.0), ("c", 2.0)]


def test_a_lock_is_not_reentrant() -> None:
    runtime = SimRuntime()
    lock = runtime.lock("the only one")

    def greedy() -> None:
        with lock, lock:
            pass

    runtime.spawn(greedy, name="greedy", daemon=False)
    runtime.run()

    [line] = explain(runtime)
    assert "greedy waits for `lock` since" in line
    runtime.close()
    assert not runtime.tasks


def test_waiting_for_an_event_times_out_or_does_not() -> None:
    runtime = SimRuntime()
    event = runtime.event()
    log: list[tuple[bool, float]] = []

    def wait(timeout: float) -> None:
        log.append((event.wait(timeout), runtime.now()))

    runtime.spawn(wait, 1.0, name="impatient")
    runtime.spawn(wait, 9.0, name="patient")
    runtime.call_later(2.0, event.set)
    runtime.run()

    assert log == [(False, 1.0), (True, 2.0)]


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    runtime = SimRuntime()
    timers = [runtime.call_later(60.0, lambda: pytest.fail("fired")) for _ in range(1000)]
    runtime.call_later(1.0, lambda: [timer.cancel() for timer in timers])
    runtime.run()

    assert runtime.now() == 1.0


def test_a_condition_wakes_who_waits_for_its_predicate() -> None:
    runtime = SimRuntime()
    lock = runtime.lock()
    condition = runtime.condition(lock)
    basket: list[str] = []
    log: list[tuple[str, float]] = []

    def eat() -> None:
        with lock:
            condition.wait_for(lambda: bool(basket))
            log.append((basket.pop(), runtime.now()))

    def bake() -> None:
        for bread in ("rye", "wheat"):
            runtime.sleep(1.0)
            with lock:
                basket.append(bread)
                condition.notify_all()

    runtime.spawn(eat, name="first")
    runtime.spawn(eat, name="second")
    runtime.spawn(bake, name="baker")
    runtime.run()

    assert log == [("rye", 1.0), ("wheat", 2.0)]


def test_an_error_in_a_task_stops_the_run() -> None:
    runtime = SimRuntime()

    def fall() -> None:
        raise ZeroDivisionError("over the edge")

    runtime.spawn(fall, name="lemming")
    with pytest.raises(ZeroDivisionError, match="over the edge"):
        runtime.run()


def test_the_current_task_is_the_greenlet_s_own() -> None:
    runtime = SimRuntime()
    names: list[str] = []

    def tell() -> None:
        runtime.sleep(1.0)
        names.append(current_task().name)

    runtime.spawn(tell, name="ann")
    runtime.spawn(tell, name="bob")
    runtime.run()

    assert names == ["ann", "bob"]


def _interleaving(seed: int) -> list[str]:
    runtime = SimRuntime(seed=seed, order="random")
    log: list[str] = []

    def step(name: str) -> None:
        for _ in range(4):
            log.append(name)
            runtime.sleep(0.0)

    for name in "abcd":
        runtime.spawn(step, name, name=name)
    runtime.run()
    return log


def test_random_order_comes_from_the_seed_and_from_nothing_else() -> None:
    assert _interleaving(3) == _interleaving(3)
    assert len({tuple(_interleaving(seed)) for seed in range(20)}) > 15


def test_close_runs_the_finally_blocks_of_who_still_waits() -> None:
    runtime = SimRuntime()
    log: list[str] = []

    def guard() -> None:
        try:
            runtime.event("never").wait()
        finally:
            log.append("relieved")

    runtime.spawn(guard, name="guard")
    runtime.run()
    runtime.close()

    assert log == ["relieved"]


_MARK: ContextVar[str] = ContextVar("mark", default="none")


def _greenlets(tasks: int) -> list[greenlet]:
    """Those that so many tasks at a time ran on, each of which found nothing of another one."""
    found: list[greenlet] = []
    runtime = SimRuntime()

    def run() -> None:
        assert _MARK.get() == "none"
        _MARK.set("left behind")
        runtime.sleep(1.0)
        found.append(getcurrent())

    for number in range(tasks):
        runtime.spawn(run, name=f"task {number}")
    runtime.run()
    runtime.close()
    return found


def test_a_greenlet_serves_one_task_after_the_other_of_one_runtime() -> None:
    first = _greenlets(3)
    assert len(first) == 3 and all(glet.dead for glet in first)
    runtime = SimRuntime()
    kept = weakref.ref(runtime.spawn(runtime.sleep, 1.0, name="last"))
    runtime.run()
    runtime.close()
    del runtime
    gc.collect()
    assert kept() is None
