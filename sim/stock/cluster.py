"""Workers of PyTorch's own engine on the simulated network: the coordinator.

Each worker is a process with the stock engine in it (real/native/); what its agent sends comes
here, and goes over the same :class:`~squall.sim.world.network.Network` as the port's messages. One thing
happens at a time: a command goes to one worker only when all are quiet, and the simulation goes on
when that worker is quiet again (sim/stock/ahead.py lets some begin before). What it sent meanwhile left at
that one instant of virtual time, in the order of its threads' numbers.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from squall.model.events.run_parts import Death
from squall.model.events.waiting import Waiting, line_of
from squall.real import tracing
from squall.real.native.here import MAIN_LANE
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.real.rpc.message import Message
from squall.real.tracing import NULL_TRACER
from squall.real.worker import Worker
from squall.sim.faults.plan import NO_FAULTS, Order, Plan
from squall.sim.scripts.rounds import Polling
from squall.sim.stock import message as wire
from squall.sim.stock.ahead import Ahead
from squall.sim.stock.barriers import Barriers
from squall.sim.stock.fork_server import ForkServer
from squall.sim.stock.host import NativeHost
from squall.sim.stock.memory_file import MemoryFile
from squall.sim.stock.message import Batch, NativeMessage, Sent
from squall.sim.stock.patience import ComputingError, processor_s
from squall.sim.stock.waits import Operation, Waits
from squall.sim.stock.worker import Call, NativeWorker
from squall.sim.world.latency import LatencyModel
from squall.sim.world.links import Carrier
from squall.sim.world.network import Network
from squall.sim.world.primitives import SimTask, SimTimer
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.trace import Trace

#: what the agent says of a call that took too long (rpc_agent.h, tensorpipe_agent.cpp)
TIMED_OUT = (
    "RPCErr:1:RPC ran for more than set timeout ({} ms) and will now be marked with an error"
)
#: the group of the workers
_GROUP = "native://cluster"
#: what a number that a C int cannot hold becomes
_INT_MIN = -(2**31)
#: after so many looks of threads that poll it is asked what their process has computed
_SELDOM = 64


def _milliseconds(limit_s: float) -> int:
    """A time limit as TensorPipe counts it: 0 is none, and one that is negative is over at once, as
    those of 25 days and more are."""
    limit_ms = limit_s * 1000
    return int(limit_ms) if abs(limit_ms) < -_INT_MIN else _INT_MIN


class NativeCluster:
    """``workers`` processes that each call ``entry`` (see :meth:`ForkServer.fork`).

    What they ask, other than what every worker may, is answered by ``answers``: by the first
    word, a function of the worker, the question's number and the rest of it, which sooner or
    later calls :meth:`answer`.
    """

    def __init__(
        self,
        workers: int,
        fork_server: ForkServer,
        entry: str,
        *,
        seed: int = 0,
        latency: LatencyModel | str = "0",
        bandwidth_bytes_per_s: float | None = None,
        order: Order = "fifo",
        trace: bool = True,
        rpc_timeout_s: float = DEFAULT_RPC_TIMEOUT_S,
        max_steps: int | None = None,
        plan: Plan = NO_FAULTS,
        spec: dict[str, Any] | None = None,
        links: Carrier | None = None,
    ) -> None:
        self.size = workers
        self.runtime = SimRuntime(seed=seed, order=order)
        self.runtime.max_steps = max_steps
        self.trace = Trace()
        tracer = self.trace.tracer(self.runtime) if trace else NULL_TRACER
        self.runtime.tracer = tracer
        self.network = Network(
            self.runtime,
            latency=latency,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
            links=links,
            tracer=tracer,
        )
        self.store = self.network.store(_GROUP)
        self.rpc_timeout_s = rpc_timeout_s
        self.deaths: list[Death] = []
        #: when the last process has ended
        self.ended_s = 0.0
        #: called after each batch of a worker
        self.on_heard: Callable[[NativeWorker], object] | None = None
        #: told what a process has done for how many seconds, up to now: an operator, or "sleep" on its main thread
        self.on_spent: Callable[[NativeWorker, float, str], object] | None = None
        #: called when a process has ended
        self.on_gone: list[Callable[[NativeWorker], object]] = []
        self.barriers = Barriers(self)
        self.answers: dict[str, Callable[..., None]] = {
            "sleep": self._sleep,
            "compute": self._compute,
            "look": self._look,
            "start": lambda worker, question: self.answer(worker, question, None),
            "barrier": self.barriers.barrier,
        }
        #: waits with a time limit, by question; and questions whose wait ended before the
        #: coordinator read of it
        self._sleeps: dict[tuple[NativeWorker, int], SimTimer] = {}
        self._woken_before: set[tuple[NativeWorker, int]] = set()
        #: the thread of the process that asks
        self._lane = MAIN_LANE
        self.ahead = Ahead()
        self._received: dict[bytes, bytes] = {}
        #: what has happened beside looks of threads that poll
        self._moved = 0
        self._ids = itertools.count()
        self.workers: list[NativeWorker] = []
        self._tasks: dict[NativeWorker, SimTask] = {}
        self._fork_server = fork_server
        self._trace_on = trace
        #: those that are in the group, or are going to be
        self.ranks: dict[int, NativeWorker] = {}
        for rank in range(workers):
            self.ranks[rank] = self.add(entry, rank, again=True, **(spec or {}))
        self.host = NativeHost(self, plan)
        for worker in self.workers:
            self.host.joined(worker, worker.rank, workers)

    def add(self, entry: str, rank: int, **spec: Any) -> NativeWorker:
        """Another process, which calls ``entry`` (see :meth:`ForkServer.fork`). ``rank``: -1 if it has
        to join first. It begins with :meth:`begin`."""
        process = self._fork_server.fork(entry, rank=rank, **spec)
        worker = NativeWorker(rank, self._fork_server, process)
        if self._trace_on:
            worker.tracer = self.trace.tracer(self.runtime, cast(Worker, worker))
        # Timers and messages of a worker belong to its task, so that they wait while it is paused.
        number = len(self.workers) + 1
        self._tasks[worker] = SimTask(self.runtime, number, "process", cast(Worker, worker), True)
        self.workers.append(worker)
        return worker

    def begin(self, worker: NativeWorker, rank: int) -> None:
        """Hear what the process that is to be of that rank says before it was told anything."""
        delay_s = self.host.start_delay_s(rank)
        if delay_s:
            self.runtime.call_later(delay_s, lambda: self._tell(worker, None))
        else:
            self._tell(worker, None)

    def __enter__(self) -> NativeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.signal(9)
        for worker in self.workers:
            worker.close()
        self.runtime.close()

    # -- running --------------------------------------------------------------------------

    def run(self) -> None:
        """Go on until nothing can happen any more."""
        self.runtime.run()

    def launch(self) -> None:
        """Hear what each worker says first, in the order of their ranks."""
        for worker in self.workers:
            self.begin(worker, worker.rank)

    def call(self, worker: NativeWorker, *question: Any) -> Any:
        """Ask a worker process something, at this instant. None if it has died.

        Raises RuntimeError with its traceback if it raised.
        """
        self._received.pop(b"C", None)
        self._command(worker, b"C", wire.in_bytes(pickle.dumps(question)), at_once=True)
        said = self._received.pop(b"C", None)
        if said is None:
            return None
        ok, value = pickle.loads(said)
        if not ok:
            raise RuntimeError(f"worker {worker.rank}, asked for {question[0]}: {value}")
        return value

    def answer(self, worker: NativeWorker, question: int, value: Any) -> None:
        """Answer what a worker asked, as the next thing that happens at this instant."""
        self.answer_in_bytes(worker, question, pickle.dumps(value))

    def answer_as_foreseen(self, worker: NativeWorker, question: int) -> None:
        """As :meth:`answer`, with what ``ahead.foresee`` was told."""
        foreseen = self.ahead.take(worker, question)
        self.answer_in_bytes(worker, question, foreseen.data, foreseen.keep)

    def answer_in_bytes(
        self, worker: NativeWorker, question: int, data: bytes, keep: object = None
    ) -> None:
        """As :meth:`answer`, for what is not pickled; ``keep``: what it reads then."""
        said = partial(self._answer_now, worker, question, data, keep)
        self.runtime.call_later(0.0, said).worker = cast(Worker, worker)

    def _answer_now(
        self, worker: NativeWorker, question: int, data: bytes, keep: object = None
    ) -> None:
        worker.open.discard(question)
        self.ahead.forget(worker, question)
        self._command(worker, b"A", wire.answer(question, data), keep=keep)

    # -- one worker -----------------------------------------------------------------------

    def _command(
        self,
        worker: NativeWorker,
        kind: bytes,
        what: bytes = b"",
        *,
        at_s: float = 0.0,
        keep: object = None,
        at_once: bool = False,
    ) -> None:
        """``at_s``: what its clock shows at least; ``keep``: what has to be there when it is told;
        ``at_once``: whether it is told now, however slow its processor is."""
        owner, processes = cast(Worker, worker), self.runtime.processes
        step_s = 0.0 if at_once or processes is None else processes.step_s(owner)
        if step_s:
            later = partial(self._command, worker, kind, what, at_s=at_s, keep=keep, at_once=True)
            self.runtime.call_later(step_s, later).worker = owner
            return
        with self.on_behalf_of(worker):
            shows_s = self.runtime.now()
        self._tell(worker, wire.command(kind, max(shows_s, at_s), what))

    def _tell(self, worker: NativeWorker, command: bytes | None) -> None:
        if not worker.alive:
            return
        batch = self.ahead.exchange(worker, command)
        if batch is None:
            death = worker.death(self.runtime.now())
            self.deaths.append(death)
            worker.ending = f"{death} at t={death.time_s:.6f} s"
            self._gone(worker)
            return
        self._hear(worker, batch)

    def _gone(self, worker: NativeWorker) -> None:
        worker.alive = False
        self.ahead.ended(worker)
        self.ended_s = self.runtime.env.now
        for call in worker.pending.values():
            if call.timer is not None:
                call.timer.cancel()
        worker.pending.clear()
        for asked in [asked for asked in self._sleeps if asked[0] is worker]:
            self._sleeps.pop(asked).cancel()
        if worker.attached:
            worker.attached = False
            self.network.detach(self.store, worker.rank)
        for told in self.on_gone:
            told(worker)

    def _hear(self, worker: NativeWorker, batch: Batch) -> None:
        with self.on_behalf_of(worker):
            self._hear_items(worker, batch)
        self.barriers.try_leave()
        if self.on_heard is not None:
            self.on_heard(worker)
        self.ahead.look()

    @contextmanager
    def on_behalf_of(self, worker: NativeWorker) -> Iterator[None]:
        """What is begun meanwhile is that process's."""
        before, self.runtime.running = self.runtime.running, self._tasks[worker]
        try:
            yield
        finally:
            self.runtime.running = before

    def say(self, worker: NativeWorker, question: int, what: Callable[[], None]) -> None:
        with self.on_behalf_of(worker):
            what()

    def _hear_items(self, worker: NativeWorker, batch: Batch) -> None:
        for kind, lane, what in batch.items:
            if kind == b"Q":
                self._send(worker, wire.read_sent(what))
            elif kind == b"R":
                self._reply(worker, wire.read_sent(what))
            elif kind == b"A":
                self._lane = lane
                self._asked(worker, *wire.read_question(what))
            elif kind == b"T":
                at_s = wire.read_time(what)
                ring = partial(self._command, worker, b"T", at_s=at_s)
                self.runtime.call_later(max(0.0, at_s - self.runtime.now()), ring)
            elif kind == b"W":
                self._woken(worker, wire.read_number(what))
            elif kind == b"I":
                worker.id = worker.rank
                worker.attached = True
                self.network.attach(
                    self.store,
                    worker.rank,
                    partial(self._receive, worker),
                    partial(self._lost, worker),
                )
            elif kind == b"O":
                self._shut_down(worker)
            else:
                self._received[kind] = what

    def _shut_down(self, worker: NativeWorker) -> None:
        for call in worker.pending.values():
            if call.timer is not None:
                call.timer.cancel()
        worker.pending.clear()
        worker.attached = False
        self.network.detach(self.store, worker.rank)

    def crash(self, worker: NativeWorker, *, silent: bool) -> None:
        """End a process, by SIGKILL; ``silent``: with its machine, so that nobody is told."""
        worker.kill()
        worker.ending = f"the fault plan ended it at t={self.runtime.now():.6f} s"
        if silent:
            self.network.vanish(cast(Worker, worker))
            worker.attached, worker.vanished = False, True
        self._gone(worker)

    def end(self, worker: NativeWorker) -> None:
        """End a process that has nothing more to do."""
        if worker.alive:
            worker.kill()
            self._gone(worker)

    # -- messages -------------------------------------------------------------------------

    def _send(self, worker: NativeWorker, sent: Sent) -> None:
        runtime = self.runtime
        shown = worker.shown[sent.id] = worker.numbers
        worker.numbers += 1
        call = Call(shown, sent.dst, sent.type.name, sent.about, runtime.now(), sent.wire)
        worker.pending[sent.id] = call
        limit_ms = _milliseconds(sent.timeout_s)
        if limit_ms:
            text = TIMED_OUT.format(limit_ms)
            after_s = 0.0 if limit_ms < 0 else sent.timeout_s
            call.timer = runtime.call_later(
                after_s, lambda: self._fail(worker, sent.id, text, "timeout")
            )
        if worker.tracer.enabled:
            worker.tracer.emit(
                tracing.CALL_STARTED, shown, sent.dst, sent.type.name, sent.timeout_s, sent.about
            )
        try:
            self.network.send(self.store, self._message(worker, sent, shown, sent.dst))
        except ConnectionError as error:
            text = str(error)
            runtime.call_later(0.0, lambda: self._fail(worker, sent.id, text, "error"))

    def _reply(self, worker: NativeWorker, sent: Sent) -> None:
        caller = self.ranks[sent.dst]
        shown = caller.shown[sent.id]
        if worker.tracer.enabled:
            error = str(sent.about[0]) if sent.type.name == "EXCEPTION" else None
            worker.tracer.emit(tracing.HANDLER_ENDED, sent.dst, sent.type.name, shown, error)
        try:
            self.network.send(self.store, self._message(worker, sent, shown, sent.dst))
        except ConnectionError:
            return  # whoever asked is gone

    def _message(self, worker: NativeWorker, sent: Sent, shown: int, dst: int) -> NativeMessage:
        message = NativeMessage(
            sent.type, sent.wire, id=shown, src=worker.rank, dst=dst, about=sent.about
        )
        message.native_id = sent.id
        message.native_size_bytes = sent.size_bytes
        message.places = sent.places
        message.memory = None
        if sent.fd >= 0:
            try:
                message.memory = MemoryFile(worker.process.pid, sent.fd)
            except (FileNotFoundError, ProcessLookupError):
                text = f"{worker.name} ended while it sent a message"
                raise ConnectionError(text) from None
        return message

    def _receive(self, worker: NativeWorker, message: Message) -> None:
        assert isinstance(message, NativeMessage)
        type, id = message.type, message.native_id
        if type.is_request:
            if worker.tracer.enabled:
                worker.tracer.emit(tracing.HANDLER_STARTED, message.src, type.name, message.id)
            self._command(worker, b"Q", wire.request(message.src, message), keep=message)
            return
        call = worker.pending.pop(id, None)
        if call is None:
            return  # it came too late, or twice
        if call.timer is not None:
            call.timer.cancel()
        if worker.tracer.enabled:
            outcome = "error" if type.name == "EXCEPTION" else "ok"
            worker.tracer.emit(tracing.CALL_ENDED, call.id, call.dst, outcome)
        self._command(worker, b"R", wire.response(message), keep=message)

    def _fail(self, worker: NativeWorker, id: int, text: str, outcome: str) -> None:
        call = worker.pending.pop(id, None)
        if call is None:
            return
        if call.timer is not None:
            call.timer.cancel()
        if worker.tracer.enabled:
            worker.tracer.emit(tracing.CALL_ENDED, call.id, call.dst, outcome)
        self._command(worker, b"F", wire.failure(id, text))

    def _lost(self, worker: NativeWorker, lost: int, reason: str, ended: int | None = None) -> None:
        for id, call in list(worker.pending.items()):
            if call.dst == lost:
                self.runtime.call_later(0.0, partial(self._fail, worker, id, reason, "error"))

    # -- questions ------------------------------------------------------------------------

    def _asked(self, worker: NativeWorker, question: int, kind: bytes, what: bytes) -> None:
        """``question``: negative if there is no answer to it."""
        if question >= 0:
            worker.open.add(question)
        if kind == b"J":
            self.barriers.leave(worker, question)
        elif kind == b"B":
            self.barriers.barrier(worker, question, "sync")
        else:
            word, *rest = pickle.loads(what)
            self.answers[word](worker, question, *rest)

    def _sleep(self, worker: NativeWorker, question: int, seconds: float) -> None:
        self._spend(worker, question, seconds, "sleep" if self._lane == MAIN_LANE else "")

    def _spend(self, worker: NativeWorker, question: int, seconds: float, what: str) -> None:
        """``what``: in what the process spends them, "" if it only waits."""
        if (worker, question) in self._woken_before:
            self._woken_before.remove((worker, question))
            worker.open.discard(question)
            return
        data = pickle.dumps(None)

        def end() -> None:
            del self._sleeps[worker, question]
            if what and self.on_spent is not None:
                self.on_spent(worker, seconds, what)
            self._answer_now(worker, question, data)

        self._sleeps[worker, question] = self.runtime.call_later(max(0.0, seconds), end)

    def _compute(self, worker: NativeWorker, question: int, seconds: float, what: str) -> None:
        if (processes := self.runtime.processes) is not None:
            seconds = processes.computes_s(cast(Worker, worker), seconds)
        self._spend(worker, question, seconds, what)

    def _look(self, worker: NativeWorker, question: int, seconds: float, polling: Polling) -> None:
        """A thread polls, and lets so many seconds pass. Raises ComputingError if its process has
        computed for longer than it may, and nothing else has happened."""
        runtime, pid = self.runtime, worker.process.pid
        self._moved = max(self._moved, runtime.env.steps_made - runtime.looks)
        runtime.looks += 1
        if worker.moved != self._moved:
            worker.moved, worker.computed_s = self._moved, processor_s(pid)
        elif worker.computing_s is not None and runtime.looks % _SELDOM == 0:
            worker.is_computing = processor_s(pid) > worker.computed_s + worker.computing_s
        if worker.is_computing:
            raise ComputingError(str(polling))
        worker.polling = polling
        self._spend(worker, question, seconds, "")

    def _woken(self, worker: NativeWorker, question: int) -> None:
        worker.open.discard(question)
        sleep = self._sleeps.pop((worker, question), None)
        if sleep is not None:
            sleep.cancel()
        else:  # by a thread whose number comes first in the batch
            self._woken_before.add((worker, question))

    def waiting(
        self,
        operations: Mapping[NativeWorker, list[Operation]] | None = None,
        besides: NativeWorker | None = None,
    ) -> list[Waiting]:
        """What each thread of a process waits for that is in code of the user's, ``besides`` those of one worker.
        ``operations``: those of process groups that are not over."""
        stacks = {
            worker: self.call(worker, "stacks") or []
            for worker in self.workers
            if worker.alive and worker is not besides
        }
        return list(Waits(stacks, operations or {}, self.ranks, len(self.trace.records)))

    def waits(self, besides: NativeWorker | None = None) -> list[str]:
        """The same in words, a line each."""
        return [line_of(each) for each in self.waiting(besides=besides)]
