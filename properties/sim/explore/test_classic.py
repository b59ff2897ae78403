"""The examples of the literature, on our own scheduler, with the numbers of classes that they have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from squall.properties.support.explored import Tasks
from squall.sim.explore.execution import How
from squall.sim.explore.search import explore
from squall.sim.explore.tree import Explored
from squall.sim.world.controlled_time import ChosenTime
from squall.sim.world.scheduler import SimRuntime

TASK = How("task")


def both(subject: Tasks) -> tuple[Explored, Explored]:
    """The reduced search, and that of every order: they see the same."""
    reduced, full = explore(subject, TASK), explore(subject, TASK, reduced=False)
    assert reduced.exhausted and full.exhausted
    assert reduced.classes == full.classes
    assert reduced.states.keys() == full.states.keys()
    assert len(reduced.classes) == reduced.complete, "two executions of one class"
    return reduced, full


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [1, 2, 5])
def test_independent_writers_have_one_class(number: int) -> None:
    def make(_: SimRuntime, time: ChosenTime) -> tuple[list[Callable[[], None]], Callable[[], int]]:
        written: list[int] = []

        def writer(n: int) -> Callable[[], None]:
            def write() -> None:
                time.touch(("x", n))
                written.append(n)

            return write

        return [writer(n) for n in range(number)], lambda: len(written)

    reduced, full = both(Tasks(make))
    assert (reduced.complete, reduced.pruned) == (1, 0)
    assert full.complete == {1: 1, 2: 2, 5: 120}[number]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("readers", [1, 3, 6])
def test_one_writer_and_n_readers_have_two_to_the_n_classes(readers: int) -> None:
    """Readers commute; each of them is before the writer or after it (POPL 2014, figure 1)."""

    def make(_: SimRuntime, time: ChosenTime) -> tuple[list[Callable[[], None]], Callable[[], str]]:
        seen: dict[int, int] = {}
        x = [0]

        def write() -> None:
            time.touch("x")
            x[0] = 1

        def reader(n: int) -> Callable[[], None]:
            def read() -> None:
                time.touch("x", "read")
                seen[n] = x[0]

            return read

        return [write, *map(reader, range(readers))], lambda: str(sorted(seen.items()))

    reduced = explore(Tasks(make), TASK)
    assert (reduced.complete, reduced.pruned) == (2**readers, 0)
    assert len(reduced.states) == 2**readers
    if readers <= 3:
        both(Tasks(make))


@pytest.mark.parametrize(("tasks", "classes"), [(2, 4), (3, 36)])
def test_a_lost_update_is_found(tasks: int, classes: int) -> None:
    """Each task reads a number, and in a step of its own writes one more."""

    def make(
        runtime: SimRuntime, time: ChosenTime
    ) -> tuple[list[Callable[[], None]], Callable[[], int]]:
        x = [0]

        def add() -> None:
            time.touch("x", "read")
            value = x[0]
            runtime.sleep(0.0)
            time.touch("x")
            x[0] = value + 1

        return [add] * tasks, lambda: x[0]

    reduced, _ = both(Tasks(make))
    assert (reduced.complete, reduced.pruned) == (classes, 0)
    assert sorted(reduced.states) == [str(n) for n in range(1, tasks + 1)]


def test_two_tasks_that_take_two_locks_in_two_orders_may_wait_for_ever() -> None:
    def make(
        runtime: SimRuntime, time: ChosenTime
    ) -> tuple[list[Callable[[], None]], Callable[[], list[str]]]:
        locks = {"a": runtime.lock("a"), "b": runtime.lock("b")}
        log: list[str] = []

        def taker(first: str, second: str) -> Callable[[], None]:
            def take() -> None:
                for name in (first, second):
                    time.touch(name)
                    locks[name].acquire()
                    runtime.sleep(0.0)
                log.append(first)
                for name in (first, second):
                    time.touch(name)
                    locks[name].release()

            return take

        return [taker("a", "b"), taker("b", "a")], lambda: sorted(log)

    reduced, full = both(Tasks(make))
    assert set(reduced.states) == {"[]", "['a', 'b']"}
    assert reduced.complete < full.complete


def test_a_later_timer_waits_until_nothing_else_can_go_on() -> None:
    def make(
        runtime: SimRuntime, time: ChosenTime
    ) -> tuple[list[Callable[[], None]], Callable[[], list[str]]]:
        log: list[str] = []

        def early() -> None:
            time.touch("log")
            log.append("early")

        def late() -> None:
            runtime.sleep(1.0)
            time.touch("log")
            log.append("late")

        return [late, early], lambda: log

    reduced, full = both(Tasks(make))
    assert list(reduced.states) == ["['early', 'late']"]
    assert (reduced.complete, full.complete) == (1, 2)
