"""A scenario is everything a run depends on; running it gives a report.

Same scenario, same digest: in any process, on any day.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from squall.model.events.hangs import explain as explain_passes
from squall.model.events.run import Run
from squall.model.events.waiting import Waiting
from squall.model.one_process.reference import JointReference, OnPass
from squall.real.tracing import FAULT_INJECTED
from squall.real.worker import Worker
from squall.sim.faults.plan import NO_FAULTS, Order, Plan, Schedule
from squall.sim.scenarios.noted import note_script
from squall.sim.scripts.compat.isolation import TorchIsolation
from squall.sim.scripts.compat.launcher import Launcher, ProcessResult
from squall.sim.scripts.faults import ScriptHost
from squall.sim.scripts.report import Outcome, ProcessError, Report
from squall.sim.world.device import quiet_torch
from squall.sim.world.garbage import deterministic_garbage
from squall.sim.world.latency import DEFAULT_LATENCY, parse_latency
from squall.sim.world.network import Network
from squall.sim.world.oracle import attach, joint_reference
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.stuck import explain
from squall.sim.world.trace import Trace
from squall.sim.world.waitfor import waiting


@dataclass(frozen=True, kw_only=True)
class ScriptScenario:
    """A script written for stock PyTorch, and the world it is to run in.

    ``workers`` None leaves their number to the script. ``latency`` is a spec
    (:func:`squall.sim.world.latency.parse_latency`), ``bandwidth_bytes_per_s`` None no limit. ``check``
    compares every gradient with the single-process reference. ``faults``: what is to go wrong; its
    schedule, if it has one, takes the place of ``order``. What the processes print goes to
    ``stdout`` and ``stderr``.
    """

    script: Path
    #: what the script says; None: what its file does
    text: str | None = None
    args: tuple[str, ...] = ()
    workers: int | None = None
    seed: int = 0
    latency: str = DEFAULT_LATENCY
    bandwidth_bytes_per_s: float | None = None
    order: Order = "fifo"
    faults: Plan = NO_FAULTS
    device: str = "cpu"
    check: bool = True
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)


def run(scenario: ScriptScenario, *, on_pass: OnPass | None = None) -> Report:
    """Run a script to its end. ``on_pass``: see :class:`JointReference`; it needs ``check``.

    Raises ValueError or OSError for a scenario that cannot be run. An interrupt ends the run and
    gives what there is, with outcome ``interrupted``.
    """
    with quiet_torch(scenario.device):
        return _run(scenario, on_pass)


def _run(scenario: ScriptScenario, on_pass: OnPass | None) -> Report:
    note_script(scenario)
    started = time.perf_counter()
    reference = joint_reference() if scenario.check else None
    plan, latency = scenario.faults, scenario.latency
    schedule = plan.schedule if plan.schedule != Schedule() else Schedule(order=scenario.order)
    if schedule.timeless or schedule.order == "pct":
        latency = "0"
    runtime = SimRuntime(seed=scenario.seed, order=schedule, isolation=TorchIsolation())
    trace = Trace(observer=reference)
    runtime.tracer = trace.tracer(runtime)
    if reference is not None:
        reference.on_pass = on_pass
        attach(reference, runtime)
    network = Network(
        runtime,
        latency=parse_latency(latency),
        bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s,
        tracer=runtime.tracer,
    )
    workers: list[Worker] = []

    def new_worker(name: str) -> Worker:
        worker = Worker(runtime, network, name=name)
        worker.tracer = trace.tracer(runtime, worker)
        workers.append(worker)
        return worker

    interrupted = False
    waits: list[str] = []
    waiters: list[Waiting] = []
    with deterministic_garbage():
        launcher = Launcher(
            runtime,
            scenario.script,
            scenario.args,
            new_worker=new_worker,
            workers=scenario.workers,
            stdout=scenario.stdout,
            stderr=scenario.stderr,
            text=scenario.text,
        )
        if len(plan):
            ScriptHost(plan, network).serve(launcher)
        with launcher:
            launcher.start()
            try:
                runtime.run(until_idle=False)
                # The last process has ended; what its end sets off at this instant belongs to it.
                runtime.run(max_time_s=runtime.now())
            except KeyboardInterrupt:
                interrupted = True
            if runtime.foreground and not interrupted:
                # FAST mode: a pass may wait for gradients that nothing will send.
                waits = [*explain(runtime), *explain_passes(Run(trace.records))]
                waiters = waiting(runtime)
            virtual_time_s = runtime.now()
            digest = trace.digest()
    return Report(
        outcome=_outcome(launcher, workers, reference, bool(waits), interrupted),
        seed=scenario.seed,
        digest=digest,
        workers=sum(worker.id >= 0 for worker in workers),
        virtual_time_s=virtual_time_s,
        wall_time_s=time.perf_counter() - started,
        messages=trace.message_counts(),
        faults=dict(Counter(str(event["kind"]) for event in trace.of(FAULT_INJECTED))),
        events=len(trace),
        gradients=reference.summary() if reference is not None else None,
        leaked_rrefs=leaked_rrefs(workers),
        leaked_contexts=leaked_contexts(workers),
        errors=[_error(result) for result in launcher.errors()],
        waits=waits,
        waiting=waiters,
        exit_codes={
            result.name: result.exit_code
            for result in launcher.results()
            if result.exit_code is not None
        },
        names={worker.id: worker.name for worker in workers if worker.id >= 0},
        trace=trace,
    )


def leaked_rrefs(workers: list[Worker]) -> int:
    """Owners that were still there after a graceful shutdown, on all workers."""
    return sum(worker.leaked_rrefs for worker in workers)


def leaked_contexts(workers: list[Worker]) -> int:
    """Autograd contexts still there after a graceful shutdown, on all workers."""
    return sum(
        worker.container.num_autograd_contexts()
        for worker in workers
        if worker.container is not None and worker.shut_down
    )


def _outcome(
    launcher: Launcher,
    workers: list[Worker],
    reference: JointReference | None,
    stuck: bool,
    interrupted: bool,
) -> Outcome:
    if interrupted:
        return "interrupted"
    # What a child's exit code means is for its parent to say: a pool terminates its workers.
    ranks = [r for r in launcher.results() if r.parent is None and not r.crashed]
    if launcher.errors() or any(rank.exit_code for rank in ranks):
        return "error"
    if stuck:
        return "deadlock"
    if reference is not None and not reference.summary().equal:
        return "gradients differ"
    if leaked_rrefs(workers) or leaked_contexts(workers):
        return "leak"
    return "ok"


def _error(result: ProcessResult) -> ProcessError:
    error = result.error
    assert error is not None, "a process without an error is not among the failed"
    hint = f" ({result.hint})" if result.hint else ""
    return ProcessError(
        worker=result.worker or result.name,
        rank=result.rank,
        type=error.type,
        message=error.text + hint,
        traceback=error.traceback,
    )
