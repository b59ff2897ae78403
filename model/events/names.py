"""What a thing of a run is called when people are told of it: the one place that decides that.

A worker goes by the name that its program gave it, a task by the worker whose program it runs or by the function that
it runs there, and a request by the function that it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from squall.model.events.digest import Record
from squall.real import tracing

#: what a task does: the program of its worker, a request of another worker, or what either has started it for
Role = Literal["main", "request", "thread"]
_LONGEST = 60
#: what is asked for by requests that name no function
_ASKED = {
    "BACKWARD_AUTOGRAD_REQ": "its part of the backward pass",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": "the release of a context",
    "COLLECTIVE": "a part of a collective",
    "PYTHON_RREF_FETCH_CALL": "the value of a reference",
    "RREF_BACKWARD_REQ": "the backward pass of a reference",
    "RREF_FORK_REQUEST": "the registration of a reference",
    "RREF_CHILD_ACCEPT": "the confirmation of a reference",
    "RREF_USER_DELETE": "the deletion of a reference",
    "SCRIPT_RREF_FETCH_CALL": "the value of a reference",
    "PYTHON_CALL": "a call",
    "PYTHON_REMOTE_CALL": "a remote call",
    "SCRIPT_CALL": "an operator",
    "SCRIPT_REMOTE_CALL": "a remote operator",
    "FORWARD_AUTOGRAD_REQ": "a call",
    "RUN_WITH_PROFILING_REQ": "a call",
    "SEND": "a message",
}

#: what messages are, by their types
_MESSAGES = {
    "SCRIPT_CALL": "call of an operator",
    "SCRIPT_RET": "answer of an operator",
    "SCRIPT_REMOTE_CALL": "remote call of an operator",
    "PYTHON_CALL": "call of a Python function",
    "PYTHON_RET": "answer of a Python function",
    "PYTHON_REMOTE_CALL": "remote call of a Python function",
    "REMOTE_RET": "answer to a remote call",
    "SCRIPT_RREF_FETCH_CALL": "request for the value of a reference",
    "SCRIPT_RREF_FETCH_RET": "value of a reference",
    "PYTHON_RREF_FETCH_CALL": "request for the value of a reference",
    "PYTHON_RREF_FETCH_RET": "value of a reference",
    "RREF_USER_DELETE": "release of a reference",
    "RREF_FORK_REQUEST": "registration of a reference",
    "RREF_CHILD_ACCEPT": "confirmation of a reference",
    "RREF_ACK": "answer about a reference",
    "FORWARD_AUTOGRAD_REQ": "call within a context",
    "FORWARD_AUTOGRAD_RESP": "answer within a context",
    "BACKWARD_AUTOGRAD_REQ": "gradients",
    "BACKWARD_AUTOGRAD_RESP": "answer to gradients",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": "release of a context",
    "CLEANUP_AUTOGRAD_CONTEXT_RESP": "answer about a context",
    "RUN_WITH_PROFILING_REQ": "call under a profiler",
    "RUN_WITH_PROFILING_RESP": "answer under a profiler",
    "RREF_BACKWARD_REQ": "backward pass of a reference",
    "RREF_BACKWARD_RESP": "answer about a backward pass",
    "EXCEPTION": "error",
    "COLLECTIVE": "part of a collective",
    "NOTICE": "notice of a receiver",
    "SEND": "message of a group",
}

_TYPE = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


def type_named(type: str) -> str:
    """What messages of a type are."""
    return _MESSAGES.get(type, type.lower().replace("_", " "))


def types_named(text: str) -> str:
    """A text in which types of messages are said in words."""
    return _TYPE.sub(lambda found: _MESSAGES.get(found[0], found[0]), text)


def event_named(type: str) -> str:
    """An event by its type."""
    return type.replace("udf", "function").replace("_", " ")


def code(name: str) -> str:
    """A name or an expression of a program, within a sentence."""
    return f"`{name}`" if len(name) <= _LONGEST else f"`{name[:_LONGEST]}...`"


def worker_named(names: Mapping[int, str], id: int) -> str:
    return names.get(id, f"worker {id}")


def request_named(type: str, function: str = "") -> str:
    """A request by what it asks for."""
    return code(function) if function else _ASKED.get(type, type.lower().replace("_", " "))


def task_named(role: Role, worker: str, name: str = "", function: str = "") -> str:
    """``worker``: what that is called; ``name``: that of the thread, or the type of the request; ``function``: what
    the request asked for."""
    if role == "main":
        return worker or name
    where = f" on {worker}" if worker else ""
    if role == "request":
        return f"{request_named(name, function)}{where}"
    return f"thread {code(name)}{where}"


#: requests that run a function, and what answers them
_CALLS = (
    *("PYTHON_CALL", "PYTHON_REMOTE_CALL", "SCRIPT_CALL", "SCRIPT_REMOTE_CALL"),
    *("FORWARD_AUTOGRAD_REQ", "RUN_WITH_PROFILING_REQ"),
)
_REPLIES = (
    *("PYTHON_RET", "REMOTE_RET", "SCRIPT_RET", "EXCEPTION"),
    *("FORWARD_AUTOGRAD_RESP", "RUN_WITH_PROFILING_RESP"),
)


class Names:
    """Those of a run, from its events. ``workers``: what workers are called; ``asked``: by (caller, id of the call) the
    function, where that was noted."""

    def __init__(
        self,
        records: Sequence[Record],
        workers: Mapping[int, str],
        asked: Mapping[tuple[int, int], str] | None = None,
    ) -> None:
        self.workers = workers
        self._asked = asked or {}
        #: by task: the function of the request that it serves
        self.functions: dict[int, str] = {}
        #: by (caller, id of the call): the task that serves it, and the type of the request
        self._served: dict[tuple[int, int], int] = {}
        self._types: dict[tuple[int, int], str] = {}
        self._tasks: dict[int, tuple[int, str, int]] = {}
        self._mains: dict[int, int] = {}
        for _, worker, task, type, values in records:
            if type is tracing.UDF_STARTED:
                self.functions.setdefault(task, str(values[0]))
            elif type is tracing.HANDLER_STARTED:
                self._served[values[0], values[2]] = task
            elif type is tracing.CALL_STARTED:
                self._types[worker, values[0]] = str(values[2])
            elif type is tracing.TASK_STARTED:
                self._tasks[task] = (worker, str(values[0]), values[2])
            if worker >= 0 and task and (task not in self._tasks or self._tasks[task][2] < 0):
                self._mains.setdefault(worker, task)

    def worker(self, id: int) -> str:
        return worker_named(self.workers, id)

    def main(self, worker: int) -> int:
        """The task that runs the program of a worker; -1 if there is none."""
        return self._mains.get(worker, -1)

    def call(self, worker: int, id: int) -> str:
        """What a worker has called."""
        return request_named(self._types.get((worker, id), "a call"), self.function(worker, id))

    def function(self, worker: int, id: int) -> str:
        """The function that a worker has called; "" where it is none, or nobody has noted or begun it."""
        noted = self._asked.get((worker, id))
        return noted or self.functions.get(self._served.get((worker, id), -1), "")

    def function_of(self, type: str, src: int, dst: int, id: int) -> str:
        """The function that a message calls, or whose result it brings; "" for others."""
        if type in _REPLIES:
            return self.function(dst, id)
        return self.function(src, id) if type in _CALLS else ""

    def message(self, type: str, src: int, dst: int, id: int) -> str:
        """A message in a picture."""
        function = self.function_of(type, src, dst, id)
        if not function:
            return type.lower().replace("_", " ")
        return f"reply of {function}" if type in _REPLIES else function

    def task(self, task: int, worker: int = -1) -> str:
        """``worker``: the one that it worked for, if that is known better than by the event of its start."""
        started_on, name, cause = self._tasks.get(task, (-1, "", -1))
        worker = worker if worker >= 0 else started_on
        role: Role = "request" if cause >= 0 else "thread"
        if self._mains.get(worker) == task or not name:
            role = "main"
        where = "" if worker < 0 else self.worker(worker)
        return task_named(role, where, name, self.functions.get(task, ""))
