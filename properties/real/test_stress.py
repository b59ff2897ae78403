"""Workloads of many threads, each once; ``make stress`` repeats them for a minute."""

from __future__ import annotations

import threading

import pytest
import torch

from squall.properties.support.stress.__main__ import example, guests, program
from squall.properties.support.stress.workers import ThreadWorkers, on_threads, watched
from squall.real.autograd import api as autograd
from squall.real.autograd.container import DistAutogradContainer
from squall.real.future import Future
from squall.real.rpc.state import rpc_state
from squall.real.runtime import run_as
from squall.real.threads import ThreadRuntime
from squall.real.worker import Worker, current_worker


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["parameter_server", "rref_sharing", "pipeline"])
def test_an_example_prints_on_threads_what_it_prints_in_the_simulation(name: str) -> None:
    assert example(name) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_of_eight_trainers_on_threads(seed: int) -> None:
    assert program(seed) == []


def test_guests_leave_in_the_middle_of_everything() -> None:
    """What a process leaves behind is looked through while other threads change it."""
    assert guests() == []


def at_once(worker: Worker, *functions: object) -> list[object]:
    """Call each function on a thread of its own, all at once; what they raised."""
    barrier = threading.Barrier(len(functions))
    raised: list[object] = []

    def call(function: object) -> None:
        with run_as(worker.task()):
            barrier.wait()
            try:
                function()  # type: ignore[operator]
            except Exception as error:
                raised.append(error)

    threads = [threading.Thread(target=call, args=(each,)) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_contexts_come_and_go_while_a_process_ends() -> None:
    def main(rank: int) -> list[object]:
        worker = current_worker()
        container = worker.container
        assert isinstance(container, DistAutogradContainer)

        def come_and_go() -> None:
            for _ in range(300):
                with autograd.context():
                    pass

        def end() -> None:
            for _ in range(300):
                container.process_ended(1, 0)

        return at_once(worker, come_and_go, come_and_go, come_and_go, end)

    with watched() as complaints:
        assert on_threads(1, main) == [[]]
    assert complaints == []


def test_who_gives_up_waiting_does_not_disturb_who_completes() -> None:
    """Each callback is called once and each waiter is woken, whoever came or left meanwhile."""
    (worker,) = ThreadWorkers([None]).workers
    with watched():
        for _ in range(200):
            future: Future[int] = Future(runtime=worker.runtime)
            called: list[int] = []

            def wait(future: Future[int] = future) -> None:
                future.block(0.0)

            def listen(future: Future[int] = future, called: list[int] = called) -> None:
                future.add_callback(lambda done: called.append(done.raw_value()))

            def complete(future: Future[int] = future) -> None:
                future.mark_completed(7)

            raised = at_once(worker, wait, listen, wait, listen, complete)
            assert raised == [] and called == [7, 7]


def test_the_state_of_the_api_is_made_once() -> None:
    with watched():
        for _ in range(200):
            (worker,) = ThreadWorkers([None]).workers
            seen: list[object] = []

            def ask(worker: Worker = worker, seen: list[object] = seen) -> None:
                seen.append(rpc_state(worker))

            assert at_once(worker, ask, ask, ask, ask) == []
            assert len(set(map(id, seen))) == 1


def test_a_leaf_that_is_a_view_is_sent_while_it_is_used() -> None:
    """torch keeps a lock of such a leaf while it waits for the interpreter."""
    from squall.real.autograd.functions import gradient_edge

    worker = Worker(ThreadRuntime(), None)  # type: ignore[arg-type]
    leaf = torch.arange(6.0).view(2, 3).requires_grad_()
    node = gradient_edge(leaf)[0]

    def use() -> None:
        for _ in range(500):
            leaf * 2

    def send() -> None:
        for _ in range(500):
            assert gradient_edge(leaf)[0] is node

    with watched():
        assert at_once(worker, use, send, use, send) == []
