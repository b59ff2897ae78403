"""What a run did, in the terms of whoever wrote it: which of his functions were called, from which line, on
which worker, with which values."""

from __future__ import annotations

import re
import sys
from types import CodeType, FrameType, TracebackType
from typing import Any

from squall.model.events.names import made_by
from squall.real import tracing
from squall.real.rpc import calls, rref_proxy, serialization
from squall.real.runtime import NO_CONTEXT
from squall.real.worker import Worker
from squall.sim.scripts.compat import point_to_point
from squall.sim.scripts.group import ANY
from squall.sim.scripts.groups import Groups
from squall.sim.scripts.leaks import ScriptWorker
from squall.sim.scripts.unended import Unended
from squall.sim.search.why.account import Account
from squall.sim.search.why.deadlock import until_now
from squall.sim.search.why.executed import missing_file
from squall.sim.search.why.seen import (
    Call,
    Died,
    Fault,
    Left,
    Operation,
    Raised,
    Removed,
    Sent,
    Task,
    Thread,
)
from squall.sim.world.call_lines import called_in_line
from squall.sim.world.pieces import POINT_TO_POINT
from squall.sim.world.places import NOWHERE, CodePlace, is_library, user_place, user_places
from squall.sim.world.primitives import SimTask
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.steering import Path, SteeredTime, is_reply
from squall.sim.world.values import (
    arguments,
    has_graph,
    in_a_line,
    name_of,
    shown,
    variables,
    words_near,
)
from squall.sim.world.watch import KeyUsed

#: the functions in whose frames a call and what it calls can be seen
_CALLS = (calls._invoke_rpc.__code__, calls.begin_remote.__code__)
_RUNS = serialization.run_function.__code__
#: in the text of an error that functions on other workers have raised, the innermost last
_NO_CONTEXT = re.compile(r"Could not find autograd context with id: (\d+)")
_REMOTE = re.compile(r"On WorkerInfo\(id=(\d+),")
_PLACE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+)")
#: those of an operation of a group, on the engine torch and on the port
_BEGINS, _ENDS = Groups.do.__code__, Groups._close.__code__
_SENDS_LATE = point_to_point.post_late.__code__
_METHODS = (rref_proxy.local_invoke, rref_proxy.local_invoke_async_execution)


class Witness(Account):
    """Sees a run that goes along a path. ``at_steps``: steps before which it looks where the next task is."""

    def __init__(self, path: Path = (), at_steps: tuple[int, ...] = ()) -> None:
        super().__init__(path)
        self._at_steps = at_steps
        #: by reference: the line that has made it
        self._references: dict[tuple[int, int], CodePlace] = {}
        #: by task: the line that has let it go on last
        self._woken: dict[int, CodePlace] = {}
        self._going: tuple[int, Any] | None = None
        #: those that have not ended, by what events call them, and the task or the question that has begun them
        self._open: dict[tuple[Any, ...], Operation] = {}

    def before_step(self, time: SteeredTime) -> None:
        super().before_step(time)
        if isinstance(self.runtime, SimRuntime) and not self.errors:
            self.stuck = until_now(time, self.runtime) or self.stuck

    def next(self, event: Any, step: int) -> None:
        if self._going is not None:
            before, task = self._going
            self._going = None
            if task.glet is not None:
                self.threads[before].to = user_place(task.glet.gr_frame)
        if step in self._at_steps and isinstance(event, SimTask):
            place = NOWHERE if event.glet is None else user_place(event.glet.gr_frame)
            self.threads[step] = Thread(event.name, event.worker, place)
            self._going = step, event

    def queued(self, event: Any) -> None:
        if not isinstance(event, SimTask):
            return
        if event.glet is None:
            self.begun.setdefault(event.id, user_place(sys._getframe(2)))
        elif (place := user_place(sys._getframe(2))).file:
            self._woken[event.id] = place

    def raised(self, error: BaseException) -> None:
        if isinstance(error, SystemExit) and error.__context__ is not None:
            error = error.__context__  # whoever starts processes tells their errors to the parent
        found = _users_last(error)
        if found is not None:
            frame = found.tb_frame
            place = CodePlace(frame.f_code.co_filename, found.tb_lineno, frame.f_code.co_name)
            assert self.runtime is not None, "a process runs in it"
            running = self.runtime.running
            owner = None if running.worker is None else running.worker.id
            unended: dict[object, list[Unended]] = {
                task.worker: task.worker.unended()
                for task in self.runtime.tasks
                if isinstance(task.worker, ScriptWorker)
            }
            self.errors.append(
                Raised(
                    place,
                    variables(frame),
                    owner,
                    self._count + 1,
                    [each for found in unended.values() for each in found],
                    unended.get(running.worker, []),
                    int(there[-1]) if (there := _REMOTE.findall(str(error))) else -1,
                    missing_file(error),
                    int(context[1]) if (context := _NO_CONTEXT.search(str(error))) else -1,
                    type(error),
                )
            )

    def thread_raised(self, error: BaseException) -> None:
        found = _users_last(error)
        if found is not None and not self.errors:
            code = found.tb_frame.f_code
            place = CodePlace(code.co_filename, found.tb_lineno, code.co_name)
            assert self.runtime is not None, "a thread runs in it"
            running = self.runtime.running
            owner = -1 if running.worker is None else running.worker.id
            self.died.append(Died(owner, running.name, in_a_line(error), place))

    def stored(self, used: KeyUsed) -> None:
        if not used.key.startswith("\0"):  # else it is of the store's own making
            owner = None if self.runtime is None else self.runtime.running.worker
            assert owner is not None, "a process uses it"
            self.lines.stored(used, owner.id, owner.known_as)

    def event(self, record: tuple[Any, ...]) -> None:
        super().event(record)
        self._count += 1
        _, worker, task, type, values = record
        if worker >= 0:
            self._workers[task] = worker
        take = _TAKES.get(type)
        if take is not None:
            take(self, worker, task, values)

    def _task_started(self, worker: int, task: int, values: Any) -> None:
        self.tasks[task] = Task(values[0], worker, values[1], values[2])

    def _call_started(self, worker: int, task: int, values: Any) -> None:
        id, dst, type, _, about = values
        frame = _frame()
        call = Call(worker, dst, id, task, type, user_place(frame), started=self._count)
        if type == "RREF_USER_DELETE":
            call.made = self._references.get(about[0], NOWHERE)
        asked = _find(frame, _CALLS)
        if asked is not None:
            seen = asked.f_locals
            call.function, call.arguments = _told(seen["func"], seen["args"], seen["kwargs"])
            call.graph = has_graph((seen["args"], seen["kwargs"]))
            call.is_users = _is_users(seen["func"])
            if not call.place.file and seen["func"] in _METHODS:
                call.place = self._place_of_answered(task)
            if not call.is_users and (called := called_in_line(asked)):
                call.function, call.arguments = called, ""
        running = None if self.runtime is None else self.runtime.running
        call.in_context = running is not None and running.autograd_context_id != NO_CONTEXT
        self.calls[worker, id] = call

    def _place_of_answered(self, task: int) -> CodePlace:
        """The line of the call whose answer a task has: ``rref.rpc_async()`` asks for the type first."""
        known = self.tasks.get(task)
        sent = None if known is None else self.sent.get(known.cause)
        return NOWHERE if sent is None or not sent.is_reply else sent.place

    def _message_sent(self, worker: int, task: int, values: Any) -> None:
        number, src, dst, type, id, *_ = values
        reply = is_reply(type)
        call = self.calls.get((dst, id) if reply else (src, id))
        place = call.place if call is not None else user_place(_frame())
        begins = _locals(_BEGINS)
        if call is None and begins and not isinstance(begins["wait"].worker, Worker):
            place = _told_place(begins["wait"].call.place)
        self.sent[number] = Sent(src, dst, type, call, reply, task, place)

    def _delivered(self, worker: int, task: int, values: Any) -> None:
        self.arrived[values[0]] = self._count

    def _user_created(self, worker: int, task: int, values: Any) -> None:
        self._references.setdefault(values[0], user_place(_frame()))

    def _udf_started(self, worker: int, task: int, values: Any) -> None:
        call = self.call_of(task)
        if call is None:
            return
        call.began = self._count
        if not call.function:
            run = _find(_frame(), (_RUNS,))
            udf = None if run is None else run.f_locals.get("udf")
            if isinstance(udf, serialization.PythonUDF):
                call.function, call.arguments = _told(*udf)
                call.is_users = _is_users(udf.func)
            else:
                call.function = values[0]

    def _udf_ended(self, worker: int, task: int, values: Any) -> None:
        call = self.call_of(task)
        if call is None:
            return
        call.ended = self._count
        run = _find(_frame(), (_RUNS,))
        if values[1] is not None:
            call.result = f"raised {values[1]}"
            thrown = self.lines.thrown.get(task)
            if thrown is not None:
                code = thrown.code
                call.raised = CodePlace(code.co_filename, thrown.line, code.co_name)
                call.missing = thrown.missing
        elif run is not None:
            result = run.f_locals.get("result")
            call.result, call.graph = shown(result), call.graph or has_graph(result)

    def _call_ended(self, worker: int, task: int, values: Any) -> None:
        call = self.calls.get((worker, values[0]))
        if call is not None and values[2] == "timeout":
            self.timeouts.append((self._count, call))

    def _operation_started(self, worker: int, task: int, values: Any) -> None:
        group, member, kind, number, _ = values
        place, *callers = user_places(_frame()) or (NOWHERE,)
        begins = _locals(_BEGINS)
        wait = begins["wait"]
        if not isinstance(wait.worker, Worker):  # a process of the engine torch, which has told it
            place = _told_place(wait.call.place)
        elif not place.file:  # in a thread of its own
            place = self.begun.get(task, NOWHERE)
        operation = Operation(
            group,
            member,
            worker if worker >= 0 else member,
            kind,
            number,
            task,
            place,
            self._count,
            words=words_near(_frame()),
            callers=(*callers,),
        )
        self._open[(*values[:4], wait.question)] = operation
        self.operations.append(operation)
        if kind != POINT_TO_POINT:
            return
        if wait.wants:
            operation.kind, (operation.peer,) = "recv", wait.wants
            operation.is_from_any = operation.peer == ANY
        else:
            (operation.peer,), late = begins["pieces"], _locals(_SENDS_LATE)
            operation.changed = bool(late) and late["tensor"]._version != late["version"]

    def _operation_ended(self, worker: int, task: int, values: Any) -> None:
        wait = _locals(_ENDS)["wait"]
        operation = self._open.pop((*values[:4], wait.question), None)
        if operation is not None:
            operation.ended, operation.good = self._count, values[4] is None
            if operation.is_from_any:
                operation.peer = next(iter(wait.got), ANY)

    def _group_left(self, worker: int, task: int, values: Any) -> None:
        woken = self._woken.get(task, NOWHERE)
        self.left.append(Left(worker, self._count, user_place(_frame()), woken))

    def note_removed(self, path: str) -> None:
        """Told of each file that is removed, where it is."""
        self.removed.append(Removed(path, user_place(sys._getframe(1))))

    def _context_created(self, worker: int, task: int, values: Any) -> None:
        self.with_contexts.add(worker)
        self.contexts.setdefault(values[0], user_place(_frame()))

    def _context_released(self, worker: int, task: int, values: Any) -> None:
        if made_by(values[0])[0] == worker:
            self.over.add(values[0])

    def _fault(self, worker: int, task: int, values: Any) -> None:
        kind, _, on, src, dst, type, _, number, _ = values
        sent = self.sent.get(number)
        if sent is None:  # it was not sent at all
            sent = self._unsent(src, dst, type, task)
        self.faults_seen.append(Fault(self._count, kind, src, dst, on, type, sent))

    def _unsent(self, src: int, dst: int, type: str, task: int) -> Sent | None:
        """A message that a task could not send: the reply to what it serves, or the call that it was about to
        make."""
        serves = self.call_of(task)
        if serves is not None and serves.src == dst and serves.dst == src:
            return Sent(src, dst, type, serves, True, task, serves.place)
        mine = [call for call in self.calls.values() if call.task == task and call.dst == dst]
        return Sent(src, dst, type, mine[-1], False, task, mine[-1].place) if mine else None


_TAKES = {
    tracing.TASK_STARTED: Witness._task_started,
    tracing.CALL_STARTED: Witness._call_started,
    tracing.CALL_ENDED: Witness._call_ended,
    tracing.MESSAGE_SENT: Witness._message_sent,
    tracing.MESSAGE_DELIVERED: Witness._delivered,
    tracing.USER_CREATED: Witness._user_created,
    tracing.UDF_STARTED: Witness._udf_started,
    tracing.UDF_ENDED: Witness._udf_ended,
    tracing.OPERATION_STARTED: Witness._operation_started,
    tracing.OPERATION_ENDED: Witness._operation_ended,
    tracing.GROUP_LEFT: Witness._group_left,
    tracing.CONTEXT_CREATED: Witness._context_created,
    tracing.CONTEXT_RELEASED: Witness._context_released,
    tracing.FAULT_INJECTED: Witness._fault,
}


def _users_last(error: BaseException) -> TracebackType | None:
    """Where an error has come from in the user's code."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if not is_library(trace.tb_frame.f_code.co_filename):
            found = trace
        trace = trace.tb_next
    return found


def _is_users(function: Any) -> bool:
    """Whether it is no function of a library's that calls others for the user. Operators are meant by themselves."""
    code = getattr(function, "__code__", None)
    return code is None or function in _METHODS or not is_library(code.co_filename)


def _told(function: Any, args: Any, kwargs: Any) -> tuple[str, str]:
    """The function that somebody calls, and its arguments; of a reference's method, that method."""
    if function in _METHODS and args:
        _, name, args, kwargs = args
        return f".{name}", arguments(args, kwargs)
    return name_of(function), arguments(args, kwargs)


def _told_place(text: str) -> CodePlace:
    found = _PLACE.match(text)
    return NOWHERE if found is None else CodePlace(found["file"], int(found["line"]))


def _frame() -> FrameType | None:
    """The frame that reports an event."""
    return sys._getframe(3)


def _locals(code: CodeType) -> dict[str, Any]:
    """The variables of a function that is under way where an event is reported; none if it is not."""
    found = _find(_frame(), (code,))
    return {} if found is None else found.f_locals


def _find(frame: FrameType | None, codes: tuple[Any, ...]) -> FrameType | None:
    """The innermost frame of one of these functions, before code of the user's."""
    while frame is not None and frame.f_code not in codes:
        if not is_library(frame.f_code.co_filename):
            return None
        frame = frame.f_back
    return frame
