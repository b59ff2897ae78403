"""Random programs on threads: the programs of campaigns, with more trainers, and none that sleeps:
here time is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from squall.model.generate.generator import generate
from squall.model.generate.keyed import KeyedChoices
from squall.model.generate.profiles import Limits
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome, StepOutcome, differences
from squall.model.program.program import Program
from squall.properties.support.stress.workers import ThreadWorkers, options
from squall.real.rpc import api as rpc
from squall.real.rpc.all_gather import _barrier
from squall.sim.programs.host import Host, place
from squall.sim.programs.leaves import gradients_of
from squall.sim.programs.run import main_of

T = TypeVar("T")

_WORKERS = 4
_TRAINERS = 8
_LIMITS = Limits(
    workers=_WORKERS,
    trainers=_TRAINERS,
    mixed=False,
    unused=False,
    stories=False,
    faults=False,
    sleeps=False,
    acts=False,
    groups=False,  # who leaves at once overtakes its last answer, with threads as on PyTorch
)


class _Spread(KeyedChoices):
    """Draws programs of four workers with two trainers each, which are two threads."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._trainers = 0

    def choice(self, name: str, options: Sequence[T]) -> T:
        if name == "workers":
            return _WORKERS  # type: ignore[return-value]
        return _TRAINERS if name == "trainers" else super().choice(name, options)  # type: ignore[return-value]

    def pick(self, name: str, options: Sequence[T]) -> T:
        if name == "trainer":
            self._trainers += 1
            return options[self._trainers % _WORKERS]
        return super().pick(name, options)


def threaded_program(seed: int) -> Program:
    return generate(_Spread(seed), _LIMITS)


def run_on_threads(program: Program) -> list[str]:
    """What differs from the same program in one process: a line each."""
    outcome = Outcome()
    workers = ThreadWorkers([None] * program.workers)
    hosts: list[Host] = []

    def on_pass(trainer: int, step: int, context_id: int) -> None:
        gradients = gradients_of(workers.workers, hosts, context_id)
        outcome.steps[trainer, step].passes.append(gradients)

    for rank, worker in enumerate(workers.workers):
        hosts.append(Host(program, rank, on_pass))
        place(worker, hosts[rank])
    for trainer, step, _ in program.steps:
        outcome.steps[trainer, step] = StepOutcome()

    def join(rank: int) -> None:
        rpc.init_rpc(
            f"worker{rank}",
            rank=rank,
            world_size=program.workers,
            rpc_backend_options=options(num_worker_threads=64),
        )

    def process(rank: int) -> None:
        join(rank)
        main_of(hosts[rank], outcome, join)
        _barrier([f"worker{each}" for each in range(program.workers)])
        hosts[rank].kept.clear()
        rpc.shutdown()

    workers.run(process)
    outcome.leaves = [
        hosts[leaf.owner].leaves[number].detach().clone()
        for number, leaf in enumerate(program.leaves)
    ]
    hosts.clear()
    return differences(program, interpret(program), outcome)
