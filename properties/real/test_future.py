"""Futures complete once, tell everybody, and survive callbacks that raise."""

from __future__ import annotations

import threading

import pytest

from squall.real.future import Future, collect_all, wait_all
from squall.real.runtime import run_as
from squall.real.threads import ThreadRuntime
from squall.sim.world.scheduler import SimRuntime


def test_callbacks_run_in_order_and_one_that_raises_stops_nobody() -> None:
    log: list[str] = []
    future: Future[int] = Future(runtime=SimRuntime())
    future.add_callback(lambda f: log.append(f"first {f.value()}"))
    future.add_callback(lambda f: 1 // 0)
    future.add_callback(lambda f: log.append("last"))

    future.mark_completed(7)
    future.add_callback(lambda f: log.append("late, at once"))

    assert log == ["first 7", "last", "late, at once"]


def test_only_the_first_completion_counts() -> None:
    future: Future[int] = Future(runtime=SimRuntime())
    assert future.try_complete(1)
    assert not future.try_complete(2)
    assert not future.try_fail(ValueError())
    with pytest.raises(RuntimeError, match="can only be marked completed once"):
        future.mark_completed(3)
    assert future.value() == 1


def test_then_passes_on_what_the_callback_returns_or_raises() -> None:
    source: Future[int] = Future(runtime=SimRuntime())
    doubled = source.then(lambda f: f.value() * 2)
    broken = source.then(lambda f: {}[f.value()])
    mapped = source.map(lambda f: {}[f.value()])
    source.mark_completed(21)

    assert doubled.value() == 42
    with pytest.raises(RuntimeError, match="error when running the callback: KeyError: 21"):
        broken.value()
    with pytest.raises(KeyError):
        mapped.value()


def test_asking_in_a_loop_lets_others_answer() -> None:
    runtime = SimRuntime()
    future: Future[int] = Future(runtime=runtime)
    runtime.call_later(0.001, lambda: future.mark_completed(1))
    log: list[float] = []

    def impatient() -> None:
        while not future.done():
            pass
        log.append(runtime.now())

    runtime.spawn(impatient, name="impatient")
    runtime.run()

    assert log == [pytest.approx(0.001, abs=1e-5)]


def test_waiting_tasks_get_the_value_when_it_comes() -> None:
    runtime = SimRuntime()
    future: Future[str] = Future(runtime=runtime)
    log: list[tuple[str, float]] = []
    for _ in range(2):
        runtime.spawn(lambda: log.append((future.wait(), runtime.now())), name="reader")
    runtime.call_later(3.0, lambda: future.mark_completed("news"))
    runtime.run()

    assert log == [("news", 3.0), ("news", 3.0)]


def test_collect_all_waits_for_all_and_wait_all_raises_the_first_error() -> None:
    runtime = SimRuntime()
    futures: list[Future[int]] = [Future(runtime=runtime) for _ in range(3)]
    log: list[object] = []

    def read() -> None:
        log.append([f.done() for f in collect_all(futures).wait()])
        try:
            wait_all(futures)
        except ValueError as error:
            log.append(str(error))

    runtime.spawn(read, name="reader")
    runtime.call_later(1.0, lambda: futures[2].mark_completed(1))
    runtime.call_later(2.0, lambda: futures[0].set_error(ValueError("bad")))
    runtime.call_later(3.0, lambda: futures[1].mark_completed(1))
    runtime.run()

    assert log == [[True, True, True], "bad"]


def test_between_threads_exactly_one_completion_wins() -> None:
    runtime = ThreadRuntime()
    with run_as(runtime.task("main", None)):
        for _ in range(200):
            future: Future[int] = Future()
            seen: list[int] = []
            future.add_callback(lambda f, seen=seen: seen.append(f.value()))
            gate = threading.Barrier(4)
            wins: list[bool] = []

            def race(n: int, future=future, gate=gate, wins=wins) -> None:  # type: ignore[no-untyped-def]
                gate.wait()
                wins.append(future.try_complete(n))

            threads = [threading.Thread(target=race, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wins.count(True) == 1
            assert seen == [future.value()]
    runtime.close()
