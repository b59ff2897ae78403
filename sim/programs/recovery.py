"""What comes after a program's faults: the workers that are there still work.

They train in a fresh context, and must succeed (model/one_process/recovery.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.model.events.run import Run
from squall.model.one_process.outcome import StepOutcome
from squall.model.one_process.recovery import Recovery, recovery_outcome, recovery_program
from squall.sim.programs.host import Host, place
from squall.sim.programs.leaves import gradients_of, leaves_of
from squall.sim.programs.trainer import TrainerRun
from squall.sim.world.deadlock import deadlock


def recover(run: Run, before: Sequence[Host]) -> None:
    """End the faults, let everything end that waits, and train on the workers that are in one group,
    if there are any. ``before``: the hosts of the program that ran."""
    cluster = run.cluster
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
    program = recovery_program(cluster.size, core)
    run.outcomes.recovery = recovery = Recovery(program, recovery_outcome(program), core)
    recovery.began = len(cluster.trace.records)

    def on_pass(trainer: int, step: int, context_id: int) -> None:
        gradients = gradients_of(cluster.workers, hosts, context_id)
        recovery.got.steps[trainer, step].passes.append(gradients)

    hosts = [Host(program, rank, on_pass) for rank in range(program.workers)]
    for rank in core:
        before[rank].kept.clear()
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
    recovery.got.leaves = leaves_of(program, hosts)
