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
from contextlib import nullcontext
from typing import Any, TextIO

from squall.model.checks.compiled import TORN
from squall.model.events.run import ProcessError, Run
from squall.sim.faults.file import check_group
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.scenario import Scenario, Script
from squall.sim.scripts.compat.process import FIRST_PID
from squall.sim.stock.children import Children
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.gradients import PassLog, summarise
from squall.sim.stock.plan import script_left_out
from squall.sim.stock.worker import NativeWorker
from squall.sim.stock.zygote import Zygote
from squall.sim.world.virtual_time import Livelock

#: what the process that is copied imports
MODULES = ("squall.sim.stock.script_guest", "squall.sim.stock.stacks")
_ENTRY = "squall.sim.stock.script_guest:main"


class ScriptProcesses:
    """The processes of a script: what they ask."""

    def __init__(
        self,
        script: Script,
        cluster: NativeCluster,
        *,
        seed: int = 0,
        plan: Plan = NO_FAULTS,
        entry: str = _ENTRY,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.script = script
        self._plan = plan
        self.cluster = cluster
        self.seed = seed
        self.stdout = stdout if stdout is not None else sys.stdout
        self.stderr = stderr if stderr is not None else sys.stderr
        self.entry = entry
        self.errors: list[ProcessError] = []
        self.exit_codes: dict[str, int] = {}
        #: as Run.returned
        self.returned: dict[int, bytes] = {}
        self.leaked_rrefs = 0
        self.leaked_contexts = 0
        #: by rank: counters when its groups ended, added up
        self.tables: dict[int, Counter[str]] = {}
        #: as Run.joined; how often somebody left a group, when all did; and the number of the group
        #: that is joined next
        self.joined: list[tuple[int, int, int]] = []
        self.left_well = 0
        self._group = 0
        #: texts of the errors of passes, by rank
        self.caught: list[tuple[int, str]] = []
        self.log = PassLog()
        self._roles: dict[NativeWorker, dict[str, Any]] = {}
        #: who has asked to join, with the rank; and the names by rank
        self._joining: dict[NativeWorker, int] = {}
        self._names: dict[int, str] = {}
        #: who waits for processes that it has started, and how many those are
        self._spawner: tuple[NativeWorker, int, list[NativeWorker]] | None = None
        self._shown: dict[NativeWorker, list[int]] = {}
        for name in ("role", "join", "spawn", "exit", "pass", "returned"):
            cluster.answers[name] = getattr(self, f"_{name}")
        self._children = Children(cluster, self._start_child)
        cluster.on_leave = self._count

    # -- processes ------------------------------------------------------------------------

    def start(
        self,
        number: int,
        *,
        rank: int | None = None,
        call: bytes | None = None,
        inherited: dict[str, str] | None = None,
    ) -> NativeWorker:
        """``call``: what it was spawned for, with its ``inherited`` environment if it is a
        ``multiprocessing.Process``."""
        environ: dict[str, str] = dict(inherited or {})
        if self.script.workers is not None:
            environ["WORLD_SIZE"] = str(self.script.workers)
        if call is None:
            environ["RANK"] = environ["LOCAL_RANK"] = str(rank or 0)
        environ.setdefault("MASTER_ADDR", "localhost")
        environ.setdefault("MASTER_PORT", "29500")
        worker = self.cluster.add(self.entry, -1)
        worker.name = f"process {number}"
        args = [
            word.replace("{rank}", str(rank or 0)).replace("{world_size}", str(self.script.workers))
            for word in self.script.args
        ]
        self._roles[worker] = {
            "script": os.path.abspath(self.script.path),
            "text": self.script.text,
            "args": args,
            "environ": environ,
            "seed": self.seed,
            "number": number,
            "pid": FIRST_PID + len(self.cluster.workers) - 1,
            "call": call,
            "child": inherited is not None,
            "check": self.script.check,
            "watch": True,
            **self.role(number),
        }
        self.cluster.hear_first(worker)
        return worker

    def role(self, number: int) -> dict[str, Any]:
        """What else process ``number`` is told of what it is to run."""
        return {}

    def _role(self, worker: NativeWorker, question: int, _: tuple[Any, ...]) -> None:
        self.cluster.answer(worker, question, self._roles[worker])

    def _spawn(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        call, count = rest

        def start() -> None:
            first = len(self.cluster.workers)
            for number in range(count):
                self.start(number, call=call)
            self._spawner = (worker, question, self.cluster.workers[first:])

        self.cluster.runtime.call_later(0.0, start)

    def _start_child(self, call: bytes, environ: dict[str, str]) -> NativeWorker:
        return self.start(len(self.cluster.workers), call=call, inherited=environ)

    def _exit(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        code, error = rest
        self.exit_codes[worker.name] = code
        if error is not None:
            number = worker.rank if worker.rank >= 0 else None
            self.errors.append(ProcessError(worker.name, number, **error))
        self.cluster.runtime.call_later(0.0, lambda: self._ended(worker, code, error))

    def _ended(self, worker: NativeWorker, code: int, error: dict[str, str] | None) -> None:
        self.show()
        self._children.codes[worker] = code
        self.cluster.end(worker)
        if self._spawner is None:
            return
        spawner, question, children = self._spawner
        if worker not in children:
            return
        if code != 0:  # as torch.multiprocessing has it: the others are terminated
            for child in children:
                self.cluster.end(child)
            text = error["traceback"] if error is not None else f"exit code {code}"
            self.cluster.answer(spawner, question, (children.index(worker), text))
            self._spawner = None
        elif not any(child.alive for child in children):
            self.cluster.answer(spawner, question, None)
            self._spawner = None

    def _returned(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        rank, value = rest
        self.returned[rank] = value
        self.cluster.answer(worker, question, None)

    # -- groups ---------------------------------------------------------------------------

    def _join(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, rank, world_size = rest
        if not self._group:
            check_group(self._plan, world_size)
        if rank in self._names and rank in self.cluster.ranks:
            problem = RuntimeError(f"rank {rank} has joined this group already")
            self.cluster.answer(worker, question, problem)
            return
        worker.rank, worker.name = rank, name
        self.joined.append((len(self.cluster.trace.records), rank, self._group))
        self.cluster.ranks[rank] = worker
        self.cluster.size = world_size
        self._names[rank] = name
        self._joining[worker] = question
        role = self._roles[worker]
        if role["call"] is None and self._spawner is None and len(self.cluster.workers) == 1:
            self.cluster.runtime.call_later(0.0, lambda: self._start_ranks(rank, world_size))
        if len(self._joining) == world_size:
            joining, self._joining = self._joining, {}
            names = [self._names[number] for number in range(world_size)]
            self._names = {}
            self._group += 1
            for each, asked in joining.items():
                self.cluster.answer(each, asked, names)

    def _start_ranks(self, rank: int, world_size: int) -> None:
        for other in range(world_size):
            if other != rank:
                self.start(other, rank=other)

    def _pass(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        context, error = rest
        returned = error is None

        def collect() -> None:
            self.log.add(
                context,
                {
                    rank: self.cluster.call(each, "gradients", context) or []
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

    def _count(self) -> None:
        """What is left when the group ends."""
        for worker in self.cluster.workers:
            if worker.attached:
                counters = self.cluster.call(worker, "debug_info") or {}
                self.left_well += 1
                self.tables.setdefault(worker.rank, Counter()).update(counters)
                self.leaked_rrefs += counters.get("num_owner_rrefs", 0)
                self.leaked_contexts += counters.get("num_autograd_contexts", 0)

    # -- output ---------------------------------------------------------------------------

    def show(self) -> None:
        """Pass on what the processes have written."""
        for worker in self.cluster.workers:
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
    return [line for line in lines if TORN not in line]  # which Run.torn says


def run_script(
    scenario: Scenario,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    zygote: Zygote | None = None,
) -> Run:
    """Run a script to its end. What the processes print goes to ``stdout`` and ``stderr``.

    ``zygote``: one with :data:`MODULES`, if there is one already.

    Raises :class:`squall.real.native.build.Unavailable`, RankError for faults of workers that the
    group turns out not to have, and ValueError for a program.
    """
    script = scenario.script
    if script is None:
        raise ValueError("the scenario holds a program, and this is for scripts")
    started = time.perf_counter()
    run = Run(script=script.path, engine="torch", left_out=script_left_out(scenario.faults))
    with (
        Zygote(MODULES) if zygote is None else nullcontext(zygote) as zygote,
        NativeCluster(
            0,
            zygote,
            _ENTRY,
            seed=scenario.seed,
            latency=scenario.world.latency,
            bandwidth_bytes_per_s=scenario.world.bandwidth_bytes_per_s,
        ) as cluster,
    ):
        run.records = cluster.trace.records
        processes = ScriptProcesses(
            script, cluster, seed=scenario.seed, plan=scenario.faults, stdout=stdout, stderr=stderr
        )
        cluster.on_heard = processes.show
        try:
            processes.start(0)
            cluster.run()
            if any(worker.alive for worker in cluster.workers):
                run.waits = cluster.waits()
        except KeyboardInterrupt:
            run.broken_off = "interrupted"
        except (TimeoutError, Livelock) as error:
            run.waits = [str(error)]
        processes.show()
        run.deaths = cluster.deaths
        for worker in cluster.workers:
            told = worker.process.stderr()
            run.complaints += [(worker.rank, line) for line in complaints(told)]
            if TORN in told:
                run.torn.append(worker.rank)
        for death in cluster.deaths:
            processes.errors.append(
                ProcessError(f"worker {death.worker}", death.worker, "Died", str(death), "")
            )
    ranks = range(max(processes.tables, default=-1) + 1)
    run.tables = [dict(processes.tables.get(rank, {})) for rank in ranks]
    run.caught = processes.caught
    run.left_well = len(processes.joined) == processes.left_well
    run.joined = processes.joined
    run.returned = dict(sorted(processes.returned.items()))
    run.errors, run.exit_codes = processes.errors, processes.exit_codes
    run.failed_processes = [name for name, code in run.exit_codes.items() if code]
    run.leaked_rrefs, run.leaked_contexts = processes.leaked_rrefs, processes.leaked_contexts
    run.workers = len(cluster.ranks)
    run.names = {rank: worker.name for rank, worker in cluster.ranks.items()}
    run.ended_s = cluster.runtime.now()
    if script.check and not run.broken_off:
        run.gradients = summarise(scenario, processes.log)
    run.wall_time_s = time.perf_counter() - started
    return run
