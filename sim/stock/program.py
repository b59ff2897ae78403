"""Runs a program on PyTorch's compiled engine, on the simulated network.

with ForkServer(PROGRAMS) as fork server:
    run = run_native(program, fork server, seed=7, latency="lognormal:0.001:0.5")
    assert not differences(program, interpret(program), run.outcomes.got)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from squall.model.checks.compiled import TORN
from squall.model.events.run import Run
from squall.model.events.waiting import line_of
from squall.model.one_process.outcome import Gradients, Outcome, StepOutcome
from squall.model.program.program import Program
from squall.real.tracing import TABLES_COUNTED
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.fork_server import ForkServer
from squall.sim.stock.plan import left_out
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.virtual_time import Livelock

_ENTRY = "squall.sim.stock.guest:main"


class _Play:
    """A program on a cluster: what its workers ask."""

    def __init__(
        self,
        run: Run,
        program: Program,
        cluster: NativeCluster,
        *,
        shut_down_early: bool,
    ) -> None:
        self.run = run
        self.program = program
        self.outcome = Outcome()
        self.cluster = cluster
        run.outcomes.got = self.outcome
        self.shut_down_early = shut_down_early
        self.done: dict[NativeWorker, int] = {}
        self.settled: dict[NativeWorker, int] = {}
        #: what workers had come to when they ended, by rank
        self.ended: dict[int, tuple[Outcome, dict[int, Any]]] = {}
        #: gradients after each backward pass, by trainer, step and context
        self.passes: dict[tuple[int, int, int], list[Gradients]] = {}
        for name in ("hello", "done", "settle", "end", "pass"):
            self.cluster.answers[name] = getattr(self, f"_{name}")

    def _hello(self, worker: NativeWorker, question: int) -> None:
        timeout_s = self.cluster.rpc_timeout_s
        said = (worker.rank, self.program, self.shut_down_early, timeout_s)
        self.cluster.answer(worker, question, said)

    def _done(self, worker: NativeWorker, question: int, crash: str | None) -> None:
        if self.run.crash is None:
            self.run.crash = crash
        if self.shut_down_early:
            self.cluster.answer(worker, question, self.together)
            return
        self.done[worker] = question

    def go_on(self) -> None:
        """When all that live are done, and all that was under way has arrived: what they keep may go.

        A request that arrives later than that may keep something, too.
        """
        living = [worker for worker in self.cluster.workers if worker.alive]
        if self.done and all(worker in self.done for worker in living):
            done, self.done = self.done, {}
            for each, number in done.items():
                self.cluster.answer(each, number, self.together)

    @property
    def together(self) -> bool:
        """Whether all still live. A graceful shutdown waits for a worker that ended, for ever."""
        return all(worker.alive for worker in self.cluster.workers)

    def _settle(self, worker: NativeWorker, question: int) -> None:
        self.settled[worker] = question

    def _end(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        problem, outcome = rest
        self.ended[worker.rank] = outcome
        if problem is not None and self.run.crash is None and not self.cluster.deaths:
            self.run.crash = f"shutdown of worker {worker.rank}: {problem}"

    def _pass(
        self, worker: NativeWorker, question: int, trainer: int, step: int, context: int
    ) -> None:

        def collect() -> None:
            found: Gradients = {}
            for each in self.cluster.workers:
                found.update(self.cluster.call(each, "gradients", context) or {})
            self.passes.setdefault((trainer, step, context), []).append(found)
            self.cluster.answer(worker, question, None)

        self.cluster.runtime.call_later(0.0, collect)

    def play(self) -> None:
        cluster = self.cluster
        cluster.launch()
        cluster.run()
        if cluster.host.faults is not None:
            cluster.host.faults.heal()
            cluster.run()
        self.go_on()
        cluster.run()
        if self.settled and all(each in self.settled for each in cluster.workers if each.alive):
            self.count()
            for worker, question in self.settled.items():
                cluster.answer(worker, question, self.together)
            cluster.run()
        if len(self.ended) < sum(worker.alive for worker in cluster.workers):
            self.run.when_stuck.waiting = cluster.waiting()
            self.run.waits = [line_of(each) for each in self.run.when_stuck.waiting]
            self.run.when_stuck.tables = [
                self.cluster.call(worker, "debug_info") or {} for worker in cluster.workers
            ]

    def count(self) -> None:
        """What the workers' tables hold when nothing is under way."""
        for worker in self.cluster.workers:
            counters = self.cluster.call(worker, "debug_info") or {}
            self.run.rpc_groups.tables.append(counters)
            if counters and worker.tracer.enabled:
                worker.tracer.emit(
                    TABLES_COUNTED,
                    counters["num_owner_rrefs"],
                    counters["num_forks"],
                    counters["num_pending_users"],
                    0,  # PyTorch does not tell of children, of those who wait for an owner,
                    0,  # and of confirmed users
                    0,
                    counters["num_autograd_contexts"],
                    counters["num_current_backward_passes"],
                )

    def gather(self) -> None:
        """Put together what the workers have of the outcome, also those that hang."""
        outcome = self.outcome
        leaves: dict[int, Any] = {}
        for trainer, step, _ in self.program.steps:
            outcome.steps[trainer, step] = StepOutcome()
        for worker in self.cluster.workers:
            if TORN in worker.process.stderr():
                self.run.processes.torn.append(worker.rank)
            said = self.ended.get(worker.rank) if worker.alive else None
            said = said or self.cluster.call(worker, "outcome")
            if said is None:
                continue
            theirs, values = said
            leaves.update(values)
            for part in dataclasses.fields(outcome):
                mine, more = getattr(outcome, part.name), getattr(theirs, part.name)
                if isinstance(mine, dict):
                    mine.update(more)
                elif isinstance(mine, float):
                    outcome.retained += more
        if self.shut_down_early and not self.run.waits:
            self.run.rpc_groups.tables = [
                self.cluster.call(worker, "autograd_info") or {} for worker in self.cluster.workers
            ]
        for (trainer, step, context), passes in self.passes.items():
            step_outcome = outcome.steps[trainer, step]
            if step_outcome.context == context:
                step_outcome.passes = passes
        # Those of a worker that has died are gone.
        gone = torch.empty(0)
        outcome.leaves = [leaves.get(n, gone) for n in range(len(self.program.leaves))]


def run_native(
    program: Program,
    fork_server: ForkServer,
    *,
    plan: Plan = NO_FAULTS,
    shut_down_early: bool = False,
    **options: Any,
) -> Run:
    """Run ``program`` on a :class:`NativeCluster` made with ``options``.

    A hang is told in :attr:`Run.waits`; what a worker process died of in ``run.processes.deaths``;
    and an error that no program can cause in :attr:`Run.crash`.
    """
    cluster = NativeCluster(program.workers, fork_server, _ENTRY, plan=plan, **options)
    run = Run(cluster.trace.records, program=program, engine="torch", cluster=cluster)
    run.conditions.left_out = [
        *left_out(plan),
        *(["endings: all steps run in one group"] * bool(program.endings)),
    ]
    with cluster:
        play = _Play(run, program, cluster, shut_down_early=shut_down_early)
        try:
            play.play()
        except (TimeoutError, Livelock) as error:
            run.crash = f"{type(error).__name__}: {error}"
            return _finished(run, cluster)
        play.gather()
    if cluster.deaths and run.crash is None:
        run.crash = str(cluster.deaths[0])
    return _finished(run, cluster)


def _finished(run: Run, cluster: NativeCluster) -> Run:
    run.processes.deaths = cluster.deaths
    run.ended_s = cluster.runtime.now()
    run.workers = cluster.size
    run.names = {rank: worker.name for rank, worker in cluster.ranks.items()}
    return run
