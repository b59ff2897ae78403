"""Runs a script on PyTorch's compiled engine, on the simulated network.

run = run_script(Scenario(work=read_script(Path("train.py"), workers=4), seed=7, engine="torch"))

The processes are those that the script would have: it is run once, and what it starts with
``torch.multiprocessing.spawn`` are further ones; a script that is to be started once a rank is
started again for each other rank when it joins its group.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Collection
from contextlib import nullcontext
from typing import Any, TextIO

from torch import Tensor

from squall.model.checks.compiled import TORN
from squall.model.events.kept import Kept, unended
from squall.model.events.run import DIED, EXITED, ProcessError, Run
from squall.model.events.run_parts import (
    Computed,
    ProcessGroups,
    RpcGroups,
    RunConditions,
    Spent,
    Stepped,
)
from squall.model.events.waiting import line_of
from squall.sim.scenario import CommandLine, Scenario, Script, World
from squall.sim.scripts import ranks
from squall.sim.scripts.backends import BACKENDS
from squall.sim.scripts.compat.errors import Uncaught
from squall.sim.scripts.compat.process import FIRST_PID
from squall.sim.scripts.findings import Findings, FoundError
from squall.sim.scripts.hints import hint, hint_for_size, hint_for_usage
from squall.sim.scripts.repeated import leave_out_repeated
from squall.sim.scripts.rounds import marshalled
from squall.sim.scripts.stores import Stores
from squall.sim.stock.children import Children
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.fork_server import ForkServer
from squall.sim.stock.gradients import PassLog, summarise
from squall.sim.stock.groups import NativeGroups
from squall.sim.stock.joining import Joining
from squall.sim.stock.one_process import OneProcess
from squall.sim.stock.packed import unpacked
from squall.sim.stock.patience import ComputingError
from squall.sim.stock.plan import left_out
from squall.sim.stock.replicas import Replicas
from squall.sim.stock.results import Results
from squall.sim.stock.shared import for_script
from squall.sim.stock.stacks_from_outside import stack_from_outside
from squall.sim.stock.worker import NativeWorker
from squall.sim.world import busy_loop
from squall.sim.world.algorithms import Choice, parse_algorithms
from squall.sim.world.compute import hint_for_names
from squall.sim.world.garbage import deterministic_garbage
from squall.sim.world.links import Ports, parse_links
from squall.sim.world.steering import SteeredTime
from squall.sim.world.virtual_time import Livelock

_ENTRY = "squall.sim.stock.script_guest:main"
_PLAIN = World()


class ScriptProcesses:
    """The processes of a script: what they ask."""

    def __init__(
        self,
        script: Script,
        cluster: NativeCluster,
        *,
        world: World = _PLAIN,
        seed: int = 0,
        entry: str = _ENTRY,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.script = script
        self.cluster = cluster
        self.seed = seed
        self.stdout = stdout if stdout is not None else sys.stdout
        self.stderr = stderr if stderr is not None else sys.stderr
        self.entry = entry
        self.errors: list[ProcessError] = []
        #: of processes that an agent of torchrun has started, which may start them again
        self.agents_errors: list[ProcessError] = []
        self.hints: list[str] = []
        self.exit_codes: dict[str, int] = {}
        #: names of processes that others have started, who judge their exit codes
        self.children: list[str] = []
        #: as ``run.processes.returned``
        self.returned: dict[int, bytes] = {}
        #: as ``run.computing.by_operator``
        self.computed: dict[str, tuple[int, float]] = {}
        #: what processes had made and not ended when they came to their ends
        self.left: list[Kept] = []
        #: as ``run.computing.spent`` and ``run.computing.optimizer_steps``
        self.spent: list[tuple[NativeWorker, tuple[float, float, str]]] = []
        self.steps: list[tuple[NativeWorker, float, int]] = []
        self.leaked_rrefs = 0
        self.leaked_contexts = 0
        #: by rank: counters when its groups ended, added up
        self.tables: dict[int, Counter[str]] = {}
        #: how often somebody left an RPC group as the group would have it
        self.left_well = 0
        #: texts of the errors of passes, by rank
        self.caught: list[tuple[int, str]] = []
        self.log = PassLog()
        self._roles: dict[NativeWorker, dict[str, Any]] = {}
        self._lines: dict[NativeWorker, CommandLine] = {}
        self._workers = script.workers
        #: whether processes that nobody has started are ranks, and not one that may start them all
        self._per_rank = ranks.has_ranks(script)
        #: of their environments, what the launcher has set for one alone
        self._own: dict[NativeWorker, dict[str, str]] = {}
        self._shown: dict[NativeWorker, list[int]] = {}
        for name in ("role", "meet", "exit", "pass", "returned", "step"):
            cluster.answers[name] = getattr(self, f"_{name}")
        self.joining = Joining(cluster, self._start_others)
        self._children = Children(cluster, self._start_child)
        self._stores = Stores(cluster)
        self.findings = Findings(go_on=script.go_on)
        choice = None
        if world.links:
            general = parse_links(world.links).general
            chosen = parse_algorithms(world.algorithms)
            choice = Choice(script.backend, chosen, *general)
            cluster.on_spent = self._spent
        self.groups = NativeGroups(cluster, self.findings, BACKENDS[script.backend], choice)
        self.results = Results(cluster, self.groups, self.findings)
        self.replicas = Replicas(cluster, self.groups, self.findings)
        self.one_process = OneProcess(cluster)
        cluster.barriers.on_leave = self._count
        is_ordered = cluster.runtime.env.order_stream is None
        is_led = isinstance(cluster.runtime.env, SteeredTime)  # nothing is certain to come next
        cluster.ahead.is_on = is_ordered and cluster.host.faults is None and not is_led

    # -- processes ------------------------------------------------------------------------

    def launch(self) -> None:
        """Start the first process, or one for each rank, as the script asks for."""
        if ranks.has_ranks(self.script):
            for rank in range(self.script.workers or 0):
                self.start(rank, rank=rank)
        else:
            self.start(0)

    def start(self, number: int, *, rank: int = 0) -> NativeWorker:
        """Start the process of a rank."""
        line = ranks.command_line(self.script, rank)
        environ = ranks.environment(os.environ, rank, self._workers, line)
        return self._start(number, line, environ)

    def _start(
        self,
        number: int,
        line: CommandLine,
        environ: dict[str, str],
        *,
        call: bytes | None = None,
        forked: bool = False,
        program: dict[str, Any] | None = None,
    ) -> NativeWorker:
        """``program``: what it is told of itself, if ``subprocess`` has started it; ``call``: the pickled
        ``multiprocessing.Process`` that it is, which a fork would make if ``forked``."""
        worker = self.cluster.add(self.entry, -1)
        worker.name = f"process {number}"
        worker.what = f"{worker.name} of {os.path.basename(line.path)}"
        worker.computing_s = busy_loop.limit_s()
        self._lines[worker] = line
        path = os.path.abspath(line.path)
        if call is None and program is None:
            self._own[worker] = ranks.own_variables(environ, self._workers)
        self._roles[worker] = {
            "script": path,
            "text": line.text,
            "code": marshalled(line.text, path) if line.text is not None else None,
            "args": list(line.args),
            "environ": environ,
            "seed": self.seed,
            "number": number,
            "pid": FIRST_PID + len(self.cluster.workers) - 1,
            "call": call,
            "program": program,
            "forked": forked,
            "check": self.script.check,
            "replicas": self.script.replicas,
            "steps": self.cluster.on_spent is not None,
            "compute": self.script.compute,
            "watch": True,
            **self.role(number),
        }
        self.cluster.begin(worker, number)
        return worker

    def role(self, number: int) -> dict[str, Any]:
        """What else process ``number`` is told of what it is to run."""
        return {}

    def _role(self, worker: NativeWorker, question: int) -> None:
        self.cluster.answer(worker, question, self._roles[worker])

    def _start_child(
        self,
        parent: NativeWorker,
        environ: dict[str, str],
        *,
        number: int | None = None,
        inherits: bool = True,
        **details: Any,
    ) -> NativeWorker:
        if inherits and not self._per_rank:
            environ = ranks.inherited(environ, self._own.get(parent, {}))
        number = len(self.cluster.workers) if number is None else number
        return self._start(number, self._lines[parent], environ, **details)

    def _exit(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        code, error, usage, computed, left = rest
        self.left += [each._replace(worker=worker.known_as) for each in left]
        for name, (times, seconds) in computed.items():
            before = self.computed.get(name, (0, 0.0))
            self.computed[name] = before[0] + times, before[1] + seconds
        role = self._roles[worker]
        rank, name = self.cluster.host.rank(worker), worker.name
        if _is_child(role):
            self.children.append(name)
        elif rank is None:
            others = any(each is not role and not _is_child(each) for each in self._roles.values())
            per_rank = others or ranks.has_ranks(self.script)
            rank, name = (role["number"], name) if per_rank else (None, "main")
        self.exit_codes[name] = code
        told = None if usage is None else hint_for_usage(self.script, usage)
        if error is not None:
            raised = ProcessError(name, rank, *error)
            told = told or hint(self.script, error.type, error.message)
            if role["program"] is not None and ranks.BY_AN_AGENT in role["environ"]:
                self.agents_errors.append(raised)
            else:
                self.errors.append(raised)
        if told is not None and told not in self.hints:
            self.hints.append(told)
        self.cluster.runtime.call_later(0.0, lambda: self._ended(worker, code, error))

    def _ended(self, worker: NativeWorker, code: int, error: Uncaught | None) -> None:
        self.show()
        self._children.codes[worker] = code
        why = f"{error.type}: {error.message}" if error is not None else ""
        why = f"exit code {code}" if error is None or error.type == EXITED else why
        worker.ending = f"{why}, at t={self.cluster.runtime.now():.6f} s"
        if not code:
            self.groups.finished(worker)
        self.cluster.end(worker)
        role = self._roles[worker]
        if (
            code and role["call"] is None and role["program"] is None
        ):  # a rank takes all others with it
            for other in self.cluster.workers:
                self.cluster.end(other)

    def _returned(self, worker: NativeWorker, question: int, rank: int, value: Any) -> None:
        self.returned[rank] = value
        self.cluster.answer(worker, question, None)

    def _spent(self, worker: NativeWorker, seconds: float, what: str) -> None:
        now_s = self.cluster.runtime.now()
        self.spent.append((worker, (now_s - seconds, now_s, what)))

    def _step(self, worker: NativeWorker, question: int) -> None:
        """An optimizer of it has made a step."""
        events = len(self.cluster.trace.records)
        self.steps.append((worker, self.cluster.runtime.now(), events))

    def close(self) -> None:
        self._children.close()

    # -- groups ---------------------------------------------------------------------------

    def _meet(
        self, worker: NativeWorker, question: int, rank: int, world_size: int, by_rank: bool
    ) -> None:
        """A process is about to wait for the others of a process group."""
        self._start_others(worker, rank, world_size, by_rank)
        self.cluster.answer(worker, question, None)

    def _start_others(
        self, worker: NativeWorker, rank: int, world_size: int, by_rank: bool
    ) -> None:
        """Start the other ranks of a script of which one process was."""
        first = self._roles[worker]["call"] is None and len(self.cluster.workers) == 1
        if first and by_rank and not self._per_rank:
            self._per_rank = True
            self.cluster.runtime.call_later(0.0, lambda: self._start_ranks(rank, world_size))

    def _start_ranks(self, rank: int, world_size: int) -> None:
        if len(self.cluster.workers) > 1:
            return  # it asked twice before any of them was there
        if told := hint_for_size(self._workers, world_size):
            self.hints.append(told)
        if self._workers is None:
            self._workers = world_size
        for other in range(max(world_size, self._workers)):  # a process group may have fewer
            if other != rank:
                self.start(other, rank=other)

    def _pass(self, worker: NativeWorker, question: int, context: int, error: Any) -> None:
        returned = error is None

        def collect() -> None:
            self.log.add(
                context,
                {
                    rank: self._gradients(each, context)
                    for rank, each in sorted(self.cluster.ranks.items())
                    if each.attached
                },
            )
            self.cluster.answer(worker, question, None)

        if returned:
            self.cluster.runtime.call_later(0.0, collect)
        else:
            self.log.failed += 1
            self.caught.append((worker.rank, error))
            self.cluster.answer(worker, question, None)

    def _gradients(self, worker: NativeWorker, context: int) -> list[Tensor]:
        """None of them if the worker has died, or does not know the context."""
        said = self.cluster.call(worker, "gradients", context)
        if said is None:
            return []
        parts, fd = said
        found = unpacked(parts, None if fd is None else f"/proc/{worker.process.pid}/fd/{fd}")
        if fd is not None:
            self.cluster.call(worker, "gradients_read")
        return found

    def _count(self, leaving: Collection[NativeWorker]) -> None:
        """What is left when they leave the group."""
        for worker in self.cluster.workers:
            if worker.attached and worker in leaving:
                counters = self.cluster.call(worker, "debug_info") or {}
                self.left_well += 1
                self.tables.setdefault(worker.rank, Counter()).update(counters)
                self.leaked_rrefs += counters.get("num_owner_rrefs", 0)
                self.leaked_contexts += counters.get("num_autograd_contexts", 0)

    # -- output ---------------------------------------------------------------------------

    def show(self, *workers: NativeWorker) -> None:
        """Pass on what processes have written; all of them, if none is named."""
        for worker in workers or self.cluster.workers:
            if self.cluster.ahead.is_given(worker):
                continue  # not before its turn
            shown = self._shown.setdefault(worker, [0, 0])
            for at, (fd, stream) in enumerate(
                (
                    (worker.process.out, self.stdout),
                    (worker.process.err, self.stderr),
                )
            ):
                size = os.fstat(fd).st_size
                if size > shown[at]:
                    text = os.pread(fd, size - shown[at], shown[at])
                    shown[at] = size
                    stream.write(text.decode("utf-8", "replace"))


#: what PyTorch writes where an exception ends the work of one of its threads, and what squall's
#: threads write in the place of PyTorch's; the rest of the line says which
_COMPLAINT = re.compile(r"Exception in thread pool task|INTERNAL ASSERT FAILED|terminate called")


def complaints(told: str) -> list[str]:
    """The lines of standard error that tell of an exception that nobody handled in a thread of the
    engine. Python's own threads are the script's, and print what they raise."""
    lines = [line.strip() for line in told.splitlines() if _COMPLAINT.search(line)]
    return [line for line in lines if TORN not in line]  # which run.processes.torn says


def run_script(
    scenario: Scenario,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    fork_server: ForkServer | None = None,
) -> Run:
    """Run a script to its end. What the processes print goes to ``stdout`` and ``stderr``.

    ``fork_server``: one with what :func:`for_script` says, if there is one already.

    Raises :class:`squall.real.native.build.Unavailable`, RankError for faults of workers that the
    group turns out not to have, and ValueError for a program.
    """
    script = scenario.script
    if script is None:
        raise ValueError("the scenario holds a program, and this is for scripts")
    started = time.perf_counter()
    plan = scenario.faults
    run = Run(script=script.path, engine="torch")
    run.conditions = RunConditions(faulty=plan.goes_wrong, left_out=left_out(plan))
    with (
        deterministic_garbage(),
        ForkServer(for_script(script))
        if fork_server is None
        else nullcontext(fork_server) as fork_server,
        NativeCluster(
            0,
            fork_server,
            _ENTRY,
            seed=scenario.seed,
            latency=scenario.world.latency,
            bandwidth_bytes_per_s=scenario.world.bandwidth_bytes_per_s,
            links=Ports(parse_links(scenario.world.links)) if scenario.world.links else None,
            plan=scenario.faults,
            order="random" if scenario.faults.schedule.order == "random" else "fifo",
        ) as cluster,
    ):
        run.records = cluster.trace.records
        processes = ScriptProcesses(
            script, cluster, world=scenario.world, seed=scenario.seed, stdout=stdout, stderr=stderr
        )
        cluster.on_heard = processes.show
        try:
            processes.launch()
            cluster.run()
            if any(worker.alive for worker in cluster.workers):
                run.when_stuck.waiting = cluster.waiting(processes.groups.operations_open())
                run.waits = [line_of(each) for each in run.when_stuck.waiting]
                run.when_stuck.held = [
                    f"{worker.name} holds {what}"
                    for worker in cluster.workers
                    if worker.alive
                    for what in cluster.call(worker, "references") or ()
                ]
        except KeyboardInterrupt:
            run.broken_off = "interrupted"
        except ComputingError:
            processes.errors += [
                _spun(cluster, each) for each in cluster.workers if each.is_computing
            ]
        except FoundError:
            pass  # it has been noted
        except (TimeoutError, Livelock) as error:
            run.waits = [str(error)]
        processes.show()
        processes.close()
        run.processes.deaths = cluster.deaths
        for worker in cluster.workers:
            told = worker.process.stderr()
            run.processes.complaints += [(worker.rank, line) for line in complaints(told)]
            if TORN in told:
                run.processes.torn.append(worker.rank)
        for death in cluster.deaths:
            rank = None if death.worker < 0 else death.worker
            processes.errors.append(ProcessError(death.who, rank, DIED, str(death), ""))
    ranks = range(max(processes.tables, default=-1) + 1)
    run.rpc_groups = RpcGroups(
        processes.joining.joined,
        left_well=len(processes.joining.joined) == processes.left_well,
        leaked_rrefs=processes.leaked_rrefs,
        leaked_contexts=processes.leaked_contexts,
        tables=[dict(processes.tables.get(rank, {})) for rank in ranks],
    )
    run.process_groups = ProcessGroups(
        processes.findings.found,
        processes.groups.stall,
        processes.groups.operations,
        results_compared=processes.results.compared,
        replicas_compared=processes.replicas.compared,
    )
    run.computing = Computed(
        [Spent(each.id, *rest) for each, rest in processes.spent],
        [Stepped(each.id, at_s, event) for each, at_s, event in processes.steps],
        processes.computed,
    )
    run.errors, codes = processes.errors, processes.exit_codes
    run.processes.caught, run.processes.exit_codes = processes.caught, codes
    run.processes.returned = dict(sorted(processes.returned.items()))
    names = hint_for_names(script.compute, processes.computed)
    run.hints = [*processes.hints, *filter(None, [names])]
    failed = [name for name, code in codes.items() if code and name not in processes.children]
    run.processes.failed = failed
    if failed or run.waits:
        run.errors += processes.agents_errors
    else:  # it has started them again
        caught = [(error.rank or 0, str(error.message)) for error in processes.agents_errors]
        run.processes.caught += caught
    if not (run.errors or run.waits or scenario.faults):
        run.processes.kept = processes.left
        run.hints += unended(run.processes.kept)
    leave_out_repeated(run, processes.children)
    run.workers = len(cluster.ranks) or len(cluster.host.members)
    run.names = {rank: worker.known_as for rank, worker in cluster.ranks.items()}
    # Faults that were to end later are nobody's any more.
    is_over = not any(worker.alive for worker in cluster.workers)
    run.ended_s = cluster.ended_s if is_over else cluster.runtime.now()
    if script.check and not run.broken_off:
        passes = summarise(scenario, processes.log)
        run.gradients = processes.one_process.comparisons.with_those_of(passes)
    run.computing.wall_time_s = time.perf_counter() - started
    return run


def _is_child(role: dict[str, Any]) -> bool:
    """Whether another process has started it."""
    return role["call"] is not None or role["program"] is not None


def _spun(cluster: NativeCluster, worker: NativeWorker) -> ProcessError:
    rank = worker.rank if worker.rank >= 0 else None
    text, polling = busy_loop.computed(worker.computing_s or 0.0), worker.polling
    if polling is not None:
        why = ["nothing else has happened that could change it", *cluster.waits(besides=worker)]
        text = "; ".join([f"{text}: {polling}", *why])
        return ProcessError(worker.name, rank, "Livelock", text, polling.place)
    where = stack_from_outside(worker.process.pid)
    return ProcessError(worker.name, rank, "TimeLimitExceeded", text, where)
