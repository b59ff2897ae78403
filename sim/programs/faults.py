"""Runs a program under faults, and then checks that the remaining workers still work.

Two phases: first the program runs under a fault plan, in which calls may fail but nothing may be
wrong; when the faults are over and everything that waits has ended, the workers that are there
train in a fresh context, and must succeed (model/one_process/recovery.py).
"""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any

from squall.model.events.run import Run
from squall.model.one_process.outcome import Outcome, StepOutcome
from squall.model.one_process.recovery import Recovery, recovery_outcome, recovery_program
from squall.model.program.hooks import retained, written
from squall.model.program.program import Ending, Program
from squall.sim.cluster import Cluster
from squall.sim.faults.plan import Plan
from squall.sim.programs.host import Host, leave_group, place, together, withdraw
from squall.sim.programs.run import finished, gradients_of, idle_workers, is_leaf_of, reference_for
from squall.sim.programs.stories.updates import register_for
from squall.sim.programs.threads import threads_of
from squall.sim.programs.trainer import TrainerRun
from squall.sim.world.oracle import attach
from squall.sim.world.stuck import Deadlock, deadlock


def run_with_faults(
    program: Program, plan: Plan, *, quiet: bool = True, raises: bool = True, **options: Any
) -> Run:
    """Run ``program`` under ``plan`` on a :class:`Cluster` made with ``options``, then recover.

    As :func:`squall.sim.programs.run.run_program` otherwise. What came of the second phase is in
    :attr:`Run.recovery`.
    """
    return _FaultyRun(program, plan, options).run(quiet=quiet, raises=raises)


class _FaultyRun:
    def __init__(self, program: Program, plan: Plan, options: dict[str, Any]) -> None:
        self.program = program
        self.outcome = Outcome()
        self.result = Run(program=program, got=self.outcome)
        self.result.busy = plan.schedule.order == "busy"
        self.reference = reference_for(self.result, options)
        options.setdefault("num_worker_threads", threads_of(program))
        self.cluster = Cluster(program.workers, faults=plan, own_settings=False, **options)
        self.result.cluster = self.cluster
        self.cluster.idle = idle_workers(program)
        self.result.records = self.cluster.trace.records
        if self.reference is not None:
            attach(self.reference, self.cluster.runtime)
        self.hosts: list[Host] = [
            Host(program, rank, self._on_pass) for rank in range(program.workers)
        ]
        if self.reference is not None:
            self.reference.owned = partial(is_leaf_of, self.hosts)

    def run(self, *, quiet: bool, raises: bool) -> Run:
        retained(), written()  # of a run that came to no end
        register_for(self.program)
        result, cluster = self.result, self.cluster
        for rank, worker in enumerate(cluster.workers):
            place(worker, self.hosts[rank])
        for trainer, step, _ in self.program.steps:
            self.outcome.steps[trainer, step] = StepOutcome()
        silence = contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext()
        with cluster, silence:
            try:
                cluster.before_rejoining = self._restarted
                cluster.run(self._main, shutdown=False)
                self._look()
                self._recover()
                for host in self.hosts:
                    host.kept.clear()
                kept = any(host.afterwards for host in self.hosts)
                cluster.settle(kept=kept)
                cluster.shutdown()
                if not kept:
                    cluster.look_back()
            except Deadlock as stuck:
                result.waits, result.waiting = stuck.waits, stuck.waiting
            except Exception as error:
                if raises:
                    raise
                result.crash = f"{type(error).__name__}: {error}"
        if not self.outcome.leaves:
            self._look()
        for worker in cluster.workers:
            withdraw(worker)
        self.hosts.clear()
        if self.reference is not None:
            result.gradients = self.reference.summary()
        return finished(result, cluster)

    # -- the first phase ----------------------------------------------------------------

    def _main(self, rank: int) -> None:
        """A worker's process: its trainers, all at once, in each group of the program."""
        mine = [
            _Attempt(TrainerRun(self.hosts[rank], number, self.outcome))
            for number, trainer in enumerate(self.program.trainers)
            if trainer.worker == rank
        ]
        for group in range(len(self.program.endings) + 1):
            if group:
                error = self._next_group(rank, self.program.endings[group - 1])
                if error is not None:  # its trainers have none to go on in
                    for attempt in mine:
                        attempt.broken(error)
                    return
            together([partial(attempt.run, group) for attempt in mine])

    def _next_group(self, rank: int, ending: Ending) -> str | None:
        """Leave the group and join the next one: the error, if there is none."""
        with contextlib.suppress(RuntimeError):  # some may be missing; it has left all the same
            leave_group(self.hosts[rank], ending)
        try:
            self.cluster.init_rpc(rank)
        except RuntimeError as error:
            return str(error)
        return None

    def _restarted(self, rank: int) -> None:
        """A restarted process serves calls with the program's initial leaves; it runs no
        trainer."""
        self.hosts[rank] = host = Host(self.program, rank, self._on_pass)
        place(self.cluster.workers[rank], host)

    def _on_pass(self, trainer: int, step: int, context_id: int) -> None:
        outcome = self.outcome.steps[trainer, step]
        # A call that timed out may still run when its step has begun again.
        if outcome.context == context_id:
            outcome.passes.append(gradients_of(self.cluster.workers, self.hosts, context_id))

    def _look(self) -> None:
        """What the leaves are now, and what their hooks have seen."""
        self.outcome.leaves = [
            self.hosts[leaf.owner].leaves[number].detach().clone()
            for number, leaf in enumerate(self.program.leaves)
        ]
        self.outcome.seen = {
            number: sum(tensor.__dict__.get("seen", ()))
            for host in self.hosts
            for number, tensor in host.leaves.items()
        }
        self.outcome.retained, self.outcome.written = retained(), written()

    # -- the second phase ---------------------------------------------------------------

    def _recover(self) -> None:
        cluster = self.cluster
        for worker in cluster.workers:
            if cluster.is_dead(worker):
                cluster.network.announce(worker)
        cluster.runtime.run()
        cluster.end_choice()
        if cluster.faults is not None:  # a plan need not say when they end
            cluster.faults.heal()
        core = cluster.together()
        if not core:
            return
        program = recovery_program(self.program.workers, core)
        recovery = Recovery(program, recovery_outcome(program), core)
        recovery.began = len(cluster.trace.records)
        self.result.recovery = recovery

        def on_pass(trainer: int, step: int, context_id: int) -> None:
            gradients = gradients_of(cluster.workers, hosts, context_id)
            recovery.got.steps[trainer, step].passes.append(gradients)

        hosts = [Host(program, rank, on_pass) for rank in range(program.workers)]
        for rank in core:
            self.hosts[rank].kept.clear()
            place(cluster.workers[rank], hosts[rank])
        for trainer, step, _ in program.steps:
            recovery.got.steps[trainer, step] = StepOutcome()
        home = core[0]

        def train() -> None:
            try:
                TrainerRun(hosts[home], 0, recovery.got).run()
            except RuntimeError as error:
                recovery.error = str(error)

        cluster.runtime.spawn(train, name="recovery", worker=cluster.workers[home], daemon=False)
        cluster.runtime.run()
        if cluster.runtime.foreground:
            raise deadlock(cluster.runtime)
        recovery.got.leaves = [
            hosts[leaf.owner].leaves[number].detach().clone()
            for number, leaf in enumerate(program.leaves)
        ]


class _Attempt:
    """A trainer that may fail outside of its steps without ending the other trainers."""

    def __init__(self, trainer: TrainerRun) -> None:
        self.trainer = trainer

    def run(self, group: int) -> None:
        try:
            self.trainer.run(group)
        except Exception as error:
            self.broken(str(error))

    def broken(self, error: str) -> None:
        """It cannot go on."""
        outcome: Outcome = self.trainer.outcome
        outcome.broken.setdefault(self.trainer.number, error)
