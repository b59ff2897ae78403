"""Runs a program on simulated workers, through the public API.

run = run_program(program, seed=7, latency="lognormal:0.001:0.5", order="random")
assert not differences(program, interpret(program), run.got)
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

import squall.sim.programs.places  # noqa: F401  tells where a task of a program is
from squall.model.events.run import Run
from squall.model.one_process.outcome import Gradients, Outcome, StepOutcome
from squall.model.one_process.reference import JointReference
from squall.model.program.compare import EXACT
from squall.model.program.hooks import rehearsing, retained, written
from squall.model.program.program import Program, exchanged, failing_passes
from squall.real.rpc.all_gather import _all_gather
from squall.real.worker import Worker
from squall.sim.cluster import Cluster
from squall.sim.programs.host import Host, leave_group, place, together, withdraw
from squall.sim.programs.stories.updates import register_for
from squall.sim.programs.threads import threads_of
from squall.sim.programs.trainer import TrainerRun
from squall.sim.world.device import unseen
from squall.sim.world.leftovers import tell_what_a_failed_pass_left, tell_what_a_pass_left
from squall.sim.world.oracle import attach, joint_reference
from squall.sim.world.stuck import Deadlock

#: steps of the scheduler that a program may take; the largest takes some thousands
MAX_STEPS = 400_000
#: the number of a gradient that belongs to no leaf of the program
STRAY = -1


def run_program(
    program: Program,
    *,
    quiet: bool = True,
    raises: bool = True,
    shut_down_early: bool = False,
    **options: Any,
) -> Run:
    """Run ``program`` on a :class:`Cluster` made with ``options``.

    A deadlock ends the run and is told in :attr:`Run.waits`. ``quiet``: leave out what
    callees print of planted errors. Raises what no program can cause by itself, or with
    ``raises`` False tells it in :attr:`Run.crash`. ``shut_down_early``: each worker shuts down
    as soon as its own trainers are done, while references are kept and others are at work.
    """
    outcome = Outcome()
    run = Run(program=program, got=outcome)
    reference = reference_for(run, options)
    options.setdefault("num_worker_threads", threads_of(program))
    run.cluster = cluster = Cluster(program.workers, own_settings=False, **options)
    run.records = cluster.trace.records
    if not shut_down_early:
        cluster.idle = idle_workers(program)
    if reference is not None:
        attach(reference, cluster.runtime)
    hosts: list[Host] = []
    retained(), written()  # of a run that came to no end
    register_for(program)

    def on_pass(trainer: int, step: int, context_id: int) -> None:
        gradients = gradients_of(cluster.workers, hosts, context_id)
        outcome.steps[trainer, step].passes.append(gradients)
        if reference is None:  # else another pass, or the rest of a failed one, may be under way
            for worker in cluster.workers:
                tell_what_a_pass_left(worker, context_id)

    def on_failed(context_id: int) -> None:
        for worker in cluster.workers:
            tell_what_a_failed_pass_left(worker, context_id)

    for rank, worker in enumerate(cluster.workers):
        host = Host(program, rank, on_pass, on_failed)
        host.shuts_down_early, host.keeps_errors = shut_down_early, True
        hosts.append(host)
        place(worker, host)
    if reference is not None:
        reference.owned = partial(is_leaf_of, hosts)
    for trainer, step, _ in program.steps:
        outcome.steps[trainer, step] = StepOutcome()
    silence = contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext()
    with cluster, silence:
        try:
            # Garbage is not collected before the shutdown: workers that shut down while they hold
            # references hold those in cycles, too.
            cluster.run(
                lambda rank: main_of(hosts[rank], outcome, cluster.init_rpc),
                shutdown=shut_down_early,
                collect=False,
            )
            if not shut_down_early:
                for host in hosts:
                    host.kept.clear()
                outcome.retained, outcome.written = retained(), written()
                kept = any(host.afterwards for host in hosts)
                cluster.settle(kept=kept)
                cluster.shutdown()
                if not kept:
                    cluster.look_back()
            if any(host.afterwards for host in hosts):
                _tell_afterwards(cluster, hosts, outcome)
        except Deadlock as deadlock:
            run.waits, run.waiting = deadlock.waits, deadlock.waiting
        except Exception as error:
            if raises:
                raise
            run.crash = f"{type(error).__name__}: {error}"
    outcome.leaves = [
        hosts[leaf.owner].leaves[number].detach().clone()
        for number, leaf in enumerate(program.leaves)
    ]
    outcome.seen = {
        number: sum(tensor.__dict__.get("seen", ()))
        for host in hosts
        for number, tensor in host.leaves.items()
    }
    outcome.retained += retained()
    outcome.written += written()
    for worker in cluster.workers:
        withdraw(worker)
    hosts.clear()  # which refer to it by on_pass
    run.gradients = None if reference is None else reference.summary()
    return finished(run, cluster)


def idle_workers(program: Program) -> frozenset[int]:
    """The workers whose main tasks have nothing to do."""
    if program.gathers or program.endings:
        return frozenset()
    return frozenset(range(program.workers)) - {each.worker for each in program.trainers}


def is_leaf_of(hosts: Sequence[Host], tensor: Tensor) -> bool:
    """Whether a tensor is a leaf of the program that runs on these hosts."""
    return any(tensor is leaf for host in hosts for leaf in host.leaves.values())


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
    run.rpc_timeout_s = cluster.rpc_timeout_s
    run.handshakes = not cluster.network.connected
    run.names = {worker.id: worker.name for worker in cluster.workers if worker.id >= 0}
    return run


def _tell_afterwards(cluster: Cluster, hosts: list[Host], outcome: Outcome) -> None:
    """Calls what stories have left to be called after the shutdown, and records what it returns."""

    def tell(host: Host) -> None:
        for where, told in host.afterwards.items():
            outcome.stories[where] = told()

    cluster.call({host.worker: partial(tell, host) for host in hosts if host.afterwards})


def gradients_of(workers: Sequence[Worker], hosts: list[Host], context_id: int) -> Gradients:
    """What all workers have accumulated in a context, read where it is: without messages."""
    found: Gradients = {}
    for worker, host in zip(workers, hosts, strict=True):
        if worker.container is None:
            continue
        try:
            gradients = worker.container.retrieve_context(context_id).get_gradients()
        except RuntimeError:  # this worker does not know the context
            continue
        for tensor, gradient in gradients.items():
            number = next((n for n, leaf in host.leaves.items() if leaf is tensor), STRAY)
            if gradient.requires_grad:  # no pass here asks for a graph of it
                number = STRAY
            # To the host, at once: later passes may be behind this reading in no other way.
            with unseen():
                found[number] = (
                    gradient.detach().clone() if gradient.is_cpu else gradient.detach().cpu()
                )
        # It is the caller's own: whoever gives away the map of the context itself has lost it now.
        gradients.clear()
    return found


def main_of(host: Host, outcome: Outcome, join: Callable[[int], object]) -> None:
    """What a worker does: it exchanges objects with all others, then its trainers, all at once, in
    each group that the program has. ``join(rank)`` joins the next one."""
    for round in range(host.program.gathers):
        given = exchanged(host.worker, round)
        outcome.gathers[host.worker, round] = _all_gather(given)
    mine = [
        number
        for number, trainer in enumerate(host.program.trainers)
        if trainer.worker == host.worker
    ]
    trainers = [TrainerRun(host, number, outcome) for number in mine]
    for group in range(len(host.program.endings) + 1):
        if group:
            leave_group(host, host.program.endings[group - 1])
            join(host.worker)
        together([partial(trainer.run, group) for trainer in trainers])
