"""Runs an unmodified script on the simulated network, all of its processes in this one.

script = read_script(Path("train.py"), workers=4)
run = run_script(Scenario(work=script, seed=7))
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TextIO

import torch

from squall.model.events.kept import unended
from squall.model.events.predicted_hangs import explain as explain_passes
from squall.model.events.run import EXITED, ProcessError, Run
from squall.model.events.run_parts import ProcessGroups, RpcGroups, RunConditions
from squall.model.one_process.reference import OnPass
from squall.real.autograd import api as dist_autograd
from squall.real.rpc.py_rref import RRef
from squall.real.rpc.store import Store
from squall.real.worker import current_worker_or_none
from squall.sim.scenario import Scenario, Script, World
from squall.sim.scripts.choice import GroupChoice
from squall.sim.scripts.compat.errors import own_frames_left_out
from squall.sim.scripts.compat.launcher import Launcher, ProcessResult
from squall.sim.scripts.compat.process import SimProcess, current_process, process_of
from squall.sim.scripts.computing import Computing
from squall.sim.scripts.faults import ScriptHost
from squall.sim.scripts.findings import FoundError
from squall.sim.scripts.leaks import ScriptWorker
from squall.sim.scripts.livelock import livelock
from squall.sim.scripts.reference import Comparisons, told_to
from squall.sim.scripts.repeated import leave_out_repeated
from squall.sim.scripts.returned import give_to
from squall.sim.world import busy_loop
from squall.sim.world.busy_loop import SpinningError
from squall.sim.world.compute import hint_for_names
from squall.sim.world.controlled_network import ChosenNetwork
from squall.sim.world.controlled_time import Chooser, ChosenTime
from squall.sim.world.deadlock import explain, frame_of, waiting
from squall.sim.world.device import kernel_watch, quiet_torch
from squall.sim.world.garbage import deterministic_garbage
from squall.sim.world.holders import Root, containers, held, of_frames, of_module
from squall.sim.world.isolation import TorchIsolation
from squall.sim.world.latency import parse_latency
from squall.sim.world.network import Network
from squall.sim.world.reference_hook import attach, joint_reference
from squall.sim.world.schedule import FIFO
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.scripted_order import ListedOrder
from squall.sim.world.stand_in import STAND_IN_NAME
from squall.sim.world.stand_in.backend import begin_run
from squall.sim.world.stand_in.streams import STAND_IN
from squall.sim.world.stand_in.tensors import DEVICE_TYPE
from squall.sim.world.trace import Trace

#: key in ``SimProcess.locals`` of what it gave back
_RETURNED = "returned"
_NOT_COMPARED = (
    "gradients were not compared: PyTorch's own engine does not run on the stand-in device; the order "
    "of streams was checked"
)


def run_script(
    scenario: Scenario,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    on_pass: OnPass | None = None,
    chance_seed: int | None = None,
    chooser: Chooser | None = None,
) -> Run:
    """Run a script to its end. What the processes print goes to ``stdout`` and ``stderr``.

    ``on_pass``: see :class:`JointReference`; it needs the script's ``check``. ``chance_seed``: what
    processes draw that set no seed, if not from that of the scenario. ``chooser`` chooses what happens
    next, from when the first group stands until the last of its members begins to leave it;
    messages then take no time. Raises ValueError or
    OSError for a scenario that cannot be run (RankError for faults of workers that its group
    turns out not to have). An interrupt ends the run and gives what there is.
    """
    script = scenario.script
    if script is None:
        raise ValueError("the scenario holds a program, and this is for scripts")
    with quiet_torch(scenario.world.device):
        run = _ScriptRun(scenario, script, on_pass, chance_seed, chooser)
        return run.run(stdout or sys.stdout, stderr or sys.stderr)


class _ScriptRun:
    """One run: the world, the workers that processes become, and what is seen of them."""

    def __init__(
        self,
        scenario: Scenario,
        script: Script,
        on_pass: OnPass | None,
        chance_seed: int | None,
        chooser: Chooser | None,
    ) -> None:
        self.chance_seed = chance_seed
        self.scenario = scenario
        self.script = script
        self.workers: list[ScriptWorker] = []
        #: by id: who has it, and how often somebody joined a group with it
        self._groups: dict[int, ScriptWorker] = {}
        self._times: dict[tuple[Store, int], int] = {}
        self._numbers: dict[tuple[Store, int], int] = {}
        self._all_joined: list[tuple[int, int, int]] = []
        self._comparisons = Comparisons()
        self._overlapping = False
        self._spun: ProcessError | None = None
        #: all processes, and those with an error, as they were when nothing could happen any more
        self._ended: tuple[list[ProcessResult], list[ProcessResult]] | None = None
        self._steps = 0
        world, schedule = scenario.world, scenario.world.faults.schedule
        if chooser is None and schedule.grain is not None:
            chooser = ListedOrder(schedule.chosen, grain=schedule.grain, ordered=schedule.ordered)
        if chooser is not None:
            schedule = FIFO
        #: the clock and the queue, if somebody chooses the order
        chosen = None if chooser is None else ChosenTime(chooser)
        self._on_stand_in = world.device == STAND_IN_NAME
        # PyTorch's own engine, which computes the reference, does not know the stand-in.
        reference = joint_reference() if script.check and not self._on_stand_in else None
        self.reference = reference
        default_device = None
        if self._on_stand_in:
            # Nobody has a home of his own: as on CUDA, the first device is the current one.
            begin_run(scenario.seed, 0, self._id_that_runs)
            default_device = torch.device(DEVICE_TYPE)
        #: sees what kernels do where the device does not tell
        self._kernels = kernel_watch(world.device, self._id_that_runs) if script.check else None
        #: lets time pass for operators, if they take some
        self.computing = Computing(script.compute, self._spend) if script.compute else None
        isolation = TorchIsolation(
            default_device=default_device,
            dispatch_mode=self._kernels,
            function_mode=self.computing,
        )
        self.runtime = SimRuntime(
            seed=scenario.seed, order=schedule, isolation=isolation, time=chosen
        )
        self.trace = Trace(observer=reference)
        self.choice = None if chosen is None else GroupChoice(self.runtime, chosen, self.trace)
        self.runtime.tracer = self.trace.tracer(self.runtime)
        if reference is not None:
            reference.on_pass = on_pass
            attach(reference, self.runtime)
        network = Network if chosen is None else ChosenNetwork
        self.network = network(
            self.runtime,
            latency=parse_latency("0" if chosen is not None else _latency(world)),
            bandwidth_bytes_per_s=None if chosen is not None else world.bandwidth_bytes_per_s,
            tracer=self.runtime.tracer,
        )

    def _spend(self, seconds: float, _: str) -> None:
        runtime = self.runtime
        if runtime.running is not runtime.hub_task:
            if runtime.processes is not None:
                seconds = runtime.processes.computes_s(runtime.running.worker, seconds)
            runtime.sleep(seconds)

    def _id_that_runs(self) -> int:
        worker = self.runtime.running.worker
        return worker.id if isinstance(worker, ScriptWorker) else -1

    def _new_worker(self, name: str) -> ScriptWorker:
        worker = ScriptWorker(self.runtime, self.network, name=name)
        worker.tracer = self.trace.tracer(self.runtime, worker)
        worker.on_join = self._joined
        worker.holders = lambda rrefs: self._holders(worker, rrefs)
        self.workers.append(worker)
        return worker

    def _joined(self, worker: ScriptWorker) -> None:
        """A group is over for a worker when it joins the next one, or another has its id."""
        before = self._groups.get(worker.id)
        if before is not None and before.agent is not None and before is not worker:
            self._overlapping = True
        self._groups[worker.id] = worker
        assert worker.agent is not None, "it has just joined"
        # Who joins for the second time where it was before joins the next group that meets there.
        place = (worker.agent.store, worker.id)
        times = self._times[place] = self._times.get(place, 0) + 1
        group = self._numbers.setdefault((worker.agent.store, times), len(self._numbers))
        self._all_joined.append((len(self.trace.records), worker.id, group))
        if times > 1 and not worker.agent.is_static_group:
            # It takes the place of one that has left: by their ids the two cannot be told apart.
            self._overlapping |= any(
                each.agent is not None and each.agent.store is worker.agent.store
                for each in self.workers
                if each is not worker
            )

    def run(self, stdout: TextIO, stderr: TextIO) -> Run:
        started = time.perf_counter()
        runtime, trace, plan = self.runtime, self.trace, self.scenario.faults
        run = Run(trace.records, script=self.script.path)
        run.conditions = RunConditions(faulty=plan.goes_wrong, busy=plan.schedule.order == "busy")
        with deterministic_garbage():
            launcher = Launcher(
                runtime,
                self.script,
                new_worker=self._new_worker,
                stdout=stdout,
                stderr=stderr,
                chance_seed=self.chance_seed,
            )
            host = ScriptHost(plan, self.network) if len(plan) else None
            if host is not None:
                host.serve(launcher)
            if self.choice is not None:
                self.choice.serve(launcher)
            with (
                launcher,
                own_frames_left_out(lambda: current_worker_or_none() is not None),
                nullcontext() if self.computing is None else self.computing.watch(dist_autograd),
                told_to(self._comparisons.add),
            ):
                launcher.start()
                try:
                    with busy_loop.ended(self._progress, self._spins):
                        launcher.run()
                except KeyboardInterrupt:
                    run.broken_off = "interrupted"
                except SpinningError:
                    assert self._spun is not None, "it is told before it is raised"
                except FoundError:  # it has been noted
                    self._ended = launcher.results(), launcher.errors()
                if host is not None and host.refused is not None:
                    raise host.refused
                if runtime.foreground and not run.broken_off and not (self._spun or self._ended):
                    # FAST mode: a pass may wait for gradients that nothing will send.
                    run.waits = [*explain(runtime), *explain_passes(Run(trace.records))]
                    run.when_stuck.waiting = waiting(runtime)
                    run.when_stuck.held = list(self._held(launcher))
                    # What comes of ending those who wait is none of the script's.
                    self._ended = launcher.results(), launcher.errors()
                run.ended_s = runtime.now()
                run.judged.digests = (trace.digest(),)
        self._look(run, launcher)
        if self._kernels is not None:
            self._kernels.end()
            run.computing.stream_events = tuple(self._kernels.log)
        if self._on_stand_in:
            STAND_IN.end()
            if self._kernels is None:
                run.computing.stream_events = tuple(STAND_IN.log)
            if self.script.check:
                run.hints.append(_NOT_COMPARED)
        run.computing.wall_time_s = time.perf_counter() - started
        return run

    def _progress(self) -> object:
        """What has happened beside looks whether something has."""
        runtime = self.runtime
        # A look counts before its step is made.
        self._steps = max(self._steps, runtime.env.steps_made - runtime.looks)
        return self._steps, len(self.trace.records)

    def _spins(self, error: SpinningError) -> None:
        """Something computes on and on: end the run. Called by another thread."""
        if self._spun is None:
            kind, text, where, task = (
                "TimeLimitExceeded",
                str(error),
                error.where,
                self.runtime.running,
            )
            polls = livelock(self.runtime)
            if polls is not None:
                kind, (task, text, where) = "Livelock", polls
                text = f"{error}: {text}"
            worker = task.worker
            name, rank = ("script", None) if worker is None else (worker.name, worker.id)
            rank = None if rank is not None and rank < 0 else rank
            self._spun = ProcessError(name, rank, kind, text, where)
        self.runtime.fail(error)

    def _held(self, launcher: Launcher) -> Iterator[str]:
        """What references the code of processes holds, and where."""
        # Not from agents, which a process that still runs may have shut down.
        names = {each.worker.id: each.worker.name for each in launcher.table.processes}
        for process in launcher.table.processes:
            if process.has_ended:
                continue
            roots = self._roots(process)
            for way, reference in held(roots, lambda each: isinstance(each, RRef)):
                assert isinstance(reference, RRef), "that is what is asked for"
                number = reference._rref.owner_id
                owner = names.get(number, f"worker {number}")
                yield f"{process.worker.name} holds {reference} of a value of {owner}, in {way}"

    def _roots(self, process: SimProcess) -> list[Root]:
        """What the code of a process can reach: its globals, and variables of functions that run."""
        roots: list[Root] = []
        for name, module in process.space.own.items():
            if not process.space.is_library(name):
                roots += of_module(module)
        for task in self.runtime.tasks:
            if task.worker is process.worker:
                roots += of_frames(frame_of(task))
        return roots

    def _holders(self, worker: ScriptWorker, rrefs: Sequence[object]) -> list[str]:
        """What holds these references, the containers that several are in once."""
        process = process_of(worker)
        assert process is not None, "each worker is a process"
        wanted = set(map(id, rrefs))
        return containers(
            self._roots(process), lambda each: id(getattr(each, "_rref", None)) in wanted
        )

    def _look(self, run: Run, launcher: Launcher) -> None:
        """What the processes and workers came to."""
        workers = self.workers
        results, failed = self._ended or (launcher.results(), launcher.errors())
        run.workers = sum(worker.id >= 0 for worker in workers)
        if self.choice is not None:
            run.conditions.chosen_from = self.choice.events_before
        run.names = {worker.id: worker.known_as for worker in workers if worker.id >= 0}
        if self.reference is not None:
            run.gradients = self._comparisons.with_those_of(self.reference.summary())
        # A process that a fault restarts joins the group in which its rank was before.
        restarts = len(self.scenario.faults) > 0
        run.rpc_groups = RpcGroups(
            [] if restarts else self._all_joined,
            self._overlapping and not restarts,
            left_well=all(worker.joined == worker.left_well for worker in workers),
            leaked_rrefs=sum(worker.leaked_rrefs for worker in workers),
            leaked_contexts=sum(worker.leaked_contexts() for worker in workers),
        )
        kept = [each for worker in workers for each in (*worker.kept, *worker.contexts_left())]
        raised = [each for each in failed if each.error and each.error.type != EXITED]
        if not (raised or run.waits or run.conditions.faulty):
            kept += [each for process in launcher.table.processes for each in process.left]
        run.processes.kept = kept
        run.hints += unended(kept)
        run.errors = [_error(result) for result in failed]
        run.processes.returned = {
            process.rank: value
            for process in launcher.table.processes
            if process.rank is not None and (value := process.locals.get(_RETURNED)) is not None
        }
        if self._spun is not None:
            run.errors.append(self._spun)
        if self.computing is not None:
            run.computing.by_operator = self.computing.computed
        told = hint_for_names(self.script.compute, run.computing.by_operator)
        run.hints = list(
            dict.fromkeys(
                filter(None, [*run.hints, *launcher.hints, *(each.hint for each in results), told])
            )
        )
        run.process_groups = ProcessGroups(launcher.table.findings.found)
        if (groups := launcher.table.groups) is not None:
            run.process_groups.operations = groups.operations
            run.process_groups.stall = groups.stall
        run.processes.packages = list(launcher.installed.verdicts.values())
        run.processes.exit_codes = {r.name: r.exit_code for r in results if r.exit_code is not None}
        # The exit code of a child is for its parent to judge: a pool, for instance, terminates its
        # workers.
        first = launcher.first_failed
        run.processes.failed = [
            r.name
            for r in results
            if r.parent is None
            and not r.crashed
            and r.exit_code
            and (first is None or r.pid == first.pid)
        ]
        leave_out_repeated(run, [r.worker or r.name for r in results if r.parent is not None])


def _latency(world: World) -> str:
    """No latency in the orders that decide by themselves which of two messages comes first."""
    schedule = world.faults.schedule
    return "0" if schedule.timeless or schedule.order == "pct" else world.latency


def _error(result: ProcessResult) -> ProcessError:
    error = result.error
    assert error is not None, "a process without an error is not among the failed"
    return ProcessError(result.worker or result.name, result.rank, *error)


def _receive(value: bytes) -> None:
    current_process().locals[_RETURNED] = value


give_to(_receive)
