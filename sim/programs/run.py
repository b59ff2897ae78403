"""Runs a program on simulated workers, through the public API, and under faults.

run = run_program(program, seed=7, latency="lognormal:0.001:0.5", order="random")
assert not differences(program, interpret(program), run.outcomes.got)
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import squall.sim.programs.places  # noqa: F401  tells where a task of a program is
from squall.model.events.run import Run
from squall.model.one_process.outcome import Outcome, StepOutcome
from squall.model.one_process.reference import JointReference
from squall.model.program.compare import EXACT
from squall.model.program.hooks import rehearsing, retained, written
from squall.model.program.program import Program, exchanged, failing_passes
from squall.real.rpc.all_gather import _all_gather
from squall.sim.cluster import Cluster
from squall.sim.faults.kinds.crash import Crash
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.programs.host import Host, begin_again, leave_group, place, together, withdraw
from squall.sim.programs.leaves import gradients_of, is_leaf_of, leaves_of
from squall.sim.programs.recovery import recover
from squall.sim.programs.stories.updates import register_for
from squall.sim.programs.threads import threads_of
from squall.sim.programs.trainer import TrainerRun
from squall.sim.world.deadlock import Deadlock
from squall.sim.world.leftovers import tell_what_a_failed_pass_left, tell_what_a_pass_left
from squall.sim.world.reference_hook import attach, joint_reference

#: steps of the scheduler that a program may take; the largest takes some thousands
MAX_STEPS = 400_000
#: seconds for which a new process that works has something that others know of
_WORKS_S = 0.1


def run_program(
    program: Program,
    *,
    faults: Plan = NO_FAULTS,
    recovers: bool | None = None,
    quiet: bool = True,
    raises: bool = True,
    shut_down_early: bool = False,
    **options: Any,
) -> Run:
    """Run ``program`` on a :class:`Cluster` made with ``options``, under a plan of ``faults``.

    A deadlock ends the run and is told in :attr:`Run.waits`. ``quiet``: leave out what
    callees print of planted errors. Raises what no program can cause by itself, or with
    ``raises`` False tells it in :attr:`Run.crash`. ``shut_down_early``: each worker shuts down
    as soon as its own trainers are done, while references are kept and others are at work.

    ``recovers``: calls may fail, and when the faults are over and everything that waits has ended, the
    workers that are there train in a fresh context, which must succeed: ``run.outcomes.recovery``. As a rule
    so if the plan lets anything go wrong.
    """
    if recovers is None:
        recovers = faults.goes_wrong
    early = shut_down_early and not recovers
    return _ProgramRun(program, faults, recovers, early, options).run(quiet=quiet, raises=raises)


class _ProgramRun:
    """A program, while it runs."""

    def __init__(
        self, program: Program, plan: Plan, recovers: bool, early: bool, options: dict[str, Any]
    ) -> None:
        self.program = program
        self.recovers = recovers
        self.early = early
        self.working = {
            each.worker for each in plan.workers if isinstance(each, Crash) and each.works
        }
        self.outcome = Outcome()
        self.result = Run(program=program)
        self.result.outcomes.got = self.outcome
        self.result.conditions.busy = plan.schedule.order == "busy"
        self.reference = reference_for(self.result, options)
        options.setdefault("num_worker_threads", threads_of(program))
        self.cluster = Cluster(program.workers, faults=plan, own_settings=False, **options)
        self.result.cluster = self.cluster
        self.result.records = self.cluster.trace.records
        if not early:
            self.cluster.idle = idle_workers(program)
        if self.reference is not None:
            attach(self.reference, self.cluster.runtime)
        retained(), written()  # of a run that came to no end
        register_for(program)
        self.hosts = [self._host(rank) for rank in range(program.workers)]
        if self.reference is not None:
            self.reference.owned = partial(is_leaf_of, self.hosts)
        for trainer, step, _ in program.steps:
            self.outcome.steps[trainer, step] = StepOutcome()

    def run(self, *, quiet: bool, raises: bool) -> Run:
        result = self.result
        silence = contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext()
        with self.cluster, silence:
            try:
                self._play()
            except Deadlock as deadlock:
                result.waits, result.when_stuck.waiting = deadlock.waits, deadlock.waiting
                result.when_stuck.tables = self.cluster.debug_info()
            except Exception as error:
                if raises:
                    raise
                result.crash = f"{type(error).__name__}: {error}"
        if not self.recovers or not self.outcome.leaves:
            self._look()
        for worker in self.cluster.workers:
            withdraw(worker)
        self.hosts.clear()  # which refer to this by _on_pass
        self.cluster.before_rejoining = self.cluster.on_restart = None
        if self.reference is not None:
            result.gradients = self.reference.summary()
        return finished(result, self.cluster)

    def _play(self) -> None:
        cluster, hosts = self.cluster, self.hosts
        cluster.before_rejoining = self._restarted
        cluster.on_restart = self._works
        # Garbage is not collected before the shutdown: workers that shut down while they hold
        # references hold those in cycles, too.
        cluster.run(self._main, shutdown=self.early, collect=False)
        if not self.early:
            if self.recovers:
                self._look()
                recover(self.result, hosts)
            else:
                self._add_what_hooks_saw()
            for host in hosts:
                host.kept.clear()
            kept = any(host.afterwards for host in hosts)
            cluster.settle(kept=kept)
            cluster.shutdown()
            if not kept:
                cluster.look_back()
        if any(host.afterwards for host in hosts):
            _tell_afterwards(cluster, hosts, self.outcome)

    def _main(self, rank: int) -> None:
        main_of(self.hosts[rank], self.outcome, self.cluster.init_rpc, may_fail=self.recovers)

    # -- hosts ------------------------------------------------------------------------------

    def _host(self, rank: int) -> Host:
        host = Host(self.program, rank, self._on_pass, self._on_failed)
        host.shuts_down_early, host.keeps_errors = self.early, not self.recovers
        place(self.cluster.workers[rank], host)
        return host

    def _restarted(self, rank: int) -> None:
        """A restarted process serves calls with the program's initial leaves; it runs no
        trainer."""
        self.hosts[rank] = self._host(rank)

    def _works(self, rank: int) -> None:
        if rank in self.working:
            begin_again(self.hosts[rank], _WORKS_S)

    def _on_pass(self, trainer: int, step: int, context_id: int) -> None:
        outcome = self.outcome.steps[trainer, step]
        # A call that timed out may still run when its step has begun again.
        if outcome.context == context_id:
            outcome.passes.append(gradients_of(self.cluster.workers, self.hosts, context_id))
        # Else another pass, or the rest of a failed one, may be under way.
        if not self.recovers and self.reference is None:
            for worker in self.cluster.workers:
                tell_what_a_pass_left(worker, context_id)

    def _on_failed(self, context_id: int) -> None:
        if not self.recovers:
            for worker in self.cluster.workers:
                tell_what_a_failed_pass_left(worker, context_id)

    # -- what came of it --------------------------------------------------------------------

    def _look(self) -> None:
        """What the leaves are now, and what their hooks have seen."""
        self.outcome.leaves = leaves_of(self.program, self.hosts)
        self.outcome.seen = {
            number: sum(tensor.__dict__.get("seen", ()))
            for host in self.hosts
            for number, tensor in host.leaves.items()
        }
        self._add_what_hooks_saw()

    def _add_what_hooks_saw(self) -> None:
        self.outcome.retained += retained()
        self.outcome.written += written()


def idle_workers(program: Program) -> frozenset[int]:
    """The workers whose main tasks have nothing to do."""
    if program.gathers or program.endings:
        return frozenset()
    return frozenset(range(program.workers)) - {each.worker for each in program.trainers}


def reference_for(run: Run, options: dict[str, Any]) -> JointReference | None:
    """What compares each pass of a program by itself, where some may fail while others follow in
    the same context; it becomes the observer in ``options`` of the cluster."""
    if run.program is None or not failing_passes(run.program):
        return None
    # The code of stories cannot be rehearsed, and what their passes come to they see themselves.
    reference = joint_reference(
        exact=run.tolerance is EXACT,
        tolerance=run.tolerance,
        rehearse=rehearsing,
    )
    options["observer"] = reference
    return reference


def finished(run: Run, cluster: Cluster) -> Run:
    """The run with what its cluster knows of it at the end."""
    run.ended_s = cluster.runtime.now()
    run.workers = cluster.size
    run.conditions.rpc_timeout_s = cluster.rpc_timeout_s
    run.conditions.handshakes = not cluster.network.connected
    run.names = {worker.id: worker.name for worker in cluster.workers if worker.id >= 0}
    return run


def _tell_afterwards(cluster: Cluster, hosts: list[Host], outcome: Outcome) -> None:
    """Calls what stories have left to be called after the shutdown, and records what it returns."""

    def tell(host: Host) -> None:
        for where, told in host.afterwards.items():
            outcome.beside[where] = told()

    cluster.call({host.worker: partial(tell, host) for host in hosts if host.afterwards})


def main_of(
    host: Host, outcome: Outcome, join: Callable[[int], object], *, may_fail: bool = False
) -> None:
    """What a worker does: it exchanges objects with all others, then its trainers, all at once, in
    each group that the program has. ``join(rank)`` joins the next one. ``may_fail``: a trainer that
    fails outside of its steps does not end the others, nor does a group that cannot be left well."""
    for round in range(host.program.gathers):
        given = exchanged(host.worker, round)
        outcome.gathers[host.worker, round] = _all_gather(given)
    trainers = [
        TrainerRun(host, number, outcome)
        for number, trainer in enumerate(host.program.trainers)
        if trainer.worker == host.worker
    ]

    in_steps, between_groups = ((Exception,), (RuntimeError,)) if may_fail else ((), ())

    def train(trainer: TrainerRun, group: int) -> None:
        try:
            trainer.run(group)
        except in_steps as error:
            outcome.broken.setdefault(trainer.number, str(error))

    for group in range(len(host.program.endings) + 1):
        if group:
            with contextlib.suppress(*between_groups):  # it has left all the same
                leave_group(host, host.program.endings[group - 1])
            try:
                join(host.worker)
            except between_groups as error:
                for trainer in trainers:  # they have no group to go on in
                    outcome.broken.setdefault(trainer.number, str(error))
                return
        together([partial(train, trainer, group) for trainer in trainers])
