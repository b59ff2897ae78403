"""Runs a script on PyTorch's compiled engine, on the simulated network.

report = run_script(ScriptScenario(script=Path("train.py"), workers=4, seed=7))

The processes are those that the script would have: it is run once, and what it starts with
``torch.multiprocessing.spawn`` are further ones; a script that is to be started once a rank is
started again for each other rank when it joins its group.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from squall.model.one_process.reference import GradientSummary
from squall.sim.faults.plan import NO_FAULTS
from squall.sim.scripts.report import Outcome, ProcessError, Report
from squall.sim.scripts.run import ScriptScenario
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.gradients import PassLog, summarise
from squall.sim.stock.worker import NativeWorker
from squall.sim.stock.zygote import Zygote
from squall.sim.world.scheduler import Livelock

#: what the process that is copied imports
MODULES = ("squall.sim.stock.script_guest", "squall.sim.stock.stacks")
_ENTRY = "squall.sim.stock.script_guest:main"


class ScriptProcesses:
    """The processes of a script: what they ask."""

    def __init__(
        self, scenario: ScriptScenario, cluster: NativeCluster, entry: str = _ENTRY
    ) -> None:
        self.scenario = scenario
        self.cluster = cluster
        self.entry = entry
        self.errors: list[ProcessError] = []
        self.exit_codes: dict[str, int] = {}
        self.leaked_rrefs = 0
        self.leaked_contexts = 0
        self.log = PassLog()
        self._roles: dict[NativeWorker, dict[str, Any]] = {}
        #: who has asked to join, with the rank; and the names by rank
        self._joining: dict[NativeWorker, int] = {}
        self._names: dict[int, str] = {}
        #: who waits for processes that it has started, and how many those are
        self._spawner: tuple[NativeWorker, int, list[NativeWorker]] | None = None
        self._shown: dict[NativeWorker, list[int]] = {}
        for name in ("role", "join", "spawn", "exit", "pass"):
            cluster.answers[name] = getattr(self, f"_{name}")
        cluster.on_leave = self._count

    # -- processes ------------------------------------------------------------------------

    def start(self, number: int, *, rank: int | None = None, call: bytes | None = None) -> None:
        environ: dict[str, str] = {}
        if self.scenario.workers is not None:
            environ["WORLD_SIZE"] = str(self.scenario.workers)
        if call is None:
            environ["RANK"] = environ["LOCAL_RANK"] = str(rank or 0)
        environ.setdefault("MASTER_ADDR", "localhost")
        environ.setdefault("MASTER_PORT", "29500")
        worker = self.cluster.add(self.entry, -1)
        worker.name = f"process {number}"
        args = [
            word.replace("{rank}", str(rank or 0)).replace(
                "{world_size}", str(self.scenario.workers)
            )
            for word in self.scenario.args
        ]
        self._roles[worker] = {
            "script": os.path.abspath(self.scenario.script),
            "text": self.scenario.text,
            "args": args,
            "environ": environ,
            "seed": self.scenario.seed,
            "number": number,
            "call": call,
            "check": self.scenario.check,
            **self.role(number),
        }
        self.cluster.hear_first(worker)

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

    def _exit(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        code, error = rest
        self.exit_codes[worker.name] = code
        if error is not None:
            number = worker.rank if worker.rank >= 0 else None
            self.errors.append(ProcessError(worker.name, number, **error))
        self.cluster.runtime.call_later(0.0, lambda: self._ended(worker, code, error))

    def _ended(self, worker: NativeWorker, code: int, error: dict[str, str] | None) -> None:
        self.show()
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

    # -- groups ---------------------------------------------------------------------------

    def _join(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        name, rank, world_size = rest
        if rank in self._names and rank in self.cluster.ranks:
            problem = RuntimeError(f"rank {rank} has joined this group already")
            self.cluster.answer(worker, question, problem)
            return
        worker.rank, worker.name = rank, name
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
            for each, asked in joining.items():
                self.cluster.answer(each, asked, names)

    def _start_ranks(self, rank: int, world_size: int) -> None:
        for other in range(world_size):
            if other != rank:
                self.start(other, rank=other)

    def _pass(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        context, returned = rest

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
            self.cluster.answer(worker, question, None)

    def _count(self) -> None:
        """What is left when the group ends."""
        for worker in self.cluster.workers:
            if worker.attached:
                counters = self.cluster.call(worker, "debug_info") or {}
                self.leaked_rrefs += counters.get("num_owner_rrefs", 0)
                self.leaked_contexts += counters.get("num_autograd_contexts", 0)

    # -- output ---------------------------------------------------------------------------

    def show(self) -> None:
        """Pass on what the processes have written."""
        for worker in self.cluster.workers:
            shown = self._shown.setdefault(worker, [0, 0])
            for at, (fd, stream) in enumerate(
                (
                    (worker.process.out, self.scenario.stdout),
                    (worker.process.err, self.scenario.stderr),
                )
            ):
                size = os.fstat(fd).st_size
                if size > shown[at]:
                    text = os.pread(fd, size - shown[at], shown[at])
                    shown[at] = size
                    stream.write(text.decode("utf-8", "replace"))


def run_script(scenario: ScriptScenario) -> Report:
    """Run a script to its end. Raises :class:`squall.real.native.build.Unavailable`."""
    started = time.perf_counter()
    left_out: list[str] = []
    if scenario.faults:
        left_out = [
            f"{group}[{at}]: {type(item).__name__}" for group, at, item in scenario.faults.items()
        ]
        print(
            "squall: the engine torch runs scripts without faults: the plan is left out",
            file=scenario.stderr,
        )
        scenario = replace(scenario, faults=NO_FAULTS)
    waits: list[str] = []
    interrupted = False
    with (
        Zygote(MODULES) as zygote,
        NativeCluster(
            0,
            zygote,
            _ENTRY,
            seed=scenario.seed,
            latency=scenario.latency,
            bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s,
        ) as cluster,
    ):
        script = ScriptProcesses(scenario, cluster)
        cluster.on_heard = script.show
        try:
            script.start(0)
            cluster.run()
            if any(worker.alive for worker in cluster.workers):
                waits = cluster.waits()
        except KeyboardInterrupt:
            interrupted = True
        except (TimeoutError, Livelock) as error:
            waits = [str(error)]
        script.show()
        for death in cluster.deaths:
            script.errors.append(
                ProcessError(f"worker {death.worker}", death.worker, "Died", str(death), "")
            )
    gradients = None
    if scenario.check and not interrupted:
        gradients = summarise(scenario, script.log)
    return Report(
        outcome=_outcome(script, waits, interrupted, gradients),
        seed=scenario.seed,
        digest=cluster.trace.digest(),
        engine="torch",
        workers=len(cluster.ranks),
        virtual_time_s=cluster.runtime.now(),
        wall_time_s=time.perf_counter() - started,
        gradients=gradients,
        messages=cluster.trace.message_counts(),
        events=len(cluster.trace),
        leaked_rrefs=script.leaked_rrefs,
        leaked_contexts=script.leaked_contexts,
        errors=script.errors,
        left_out=left_out,
        waits=waits,
        exit_codes=script.exit_codes,
        trace=cluster.trace,
    )


def _outcome(
    script: ScriptProcesses, waits: list[str], interrupted: bool, gradients: GradientSummary | None
) -> Outcome:
    if interrupted:
        return "interrupted"
    if script.errors or any(script.exit_codes.values()):
        return "error"
    if waits:
        return "deadlock"
    if gradients is not None and not gradients.equal:
        return "gradients differ"
    if script.leaked_rrefs or script.leaked_contexts:
        return "leak"
    return "ok"
