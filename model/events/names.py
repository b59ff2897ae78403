"""What a thing of a run is called when people are told of it: the one place that decides that.

A worker goes by the name that its program gave it, a task by the worker whose program it runs or by the function that
it runs there, and a request by the function that it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from squall.model.events.digest import Record
from squall.model.events.unwrapped import called
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
    "BACKWARD_AUTOGRAD_REQ": "message with gradients",
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

#: functions of PyTorch's own that run on other workers, and what a program calls for that
_ON_BEHALF_OF = {
    "_gather_to_leader": "shutdown",
    "_broadcast_to_followers": "shutdown",
    "_receive_broadcast": "shutdown",
    "_update_group_membership": "init_rpc",
    "_get_device_infos": "init_rpc",
    "_local_invoke": "method of an RRef",
    "_local_invoke_async_execution": "method of an RRef",
    "local_invoke": "method of an RRef",
    "local_invoke_async_execution": "method of an RRef",
    "_rref_typeof_on_owner": "type of an RRef",
    "_new_local_optimizer": "DistributedOptimizer",
    "_new_script_local_optimizer": "DistributedOptimizer",
    "_local_optimizer_step": "DistributedOptimizer.step",
    "_script_local_optimizer_step": "DistributedOptimizer.step",
    "_create_module": "RemoteModule",
    "_create_module_with_interface": "RemoteModule",
    "_param_rrefs": "RemoteModule.remote_parameters",
    "_remote_forward": "RemoteModule.forward",
}

_RREF_FORK = ("rref", "fork")
#: what the ids in a message are, by its type; those of a message that carries another one are followed by its own
_ABOUT = {
    "PYTHON_REMOTE_CALL": _RREF_FORK,
    "SCRIPT_REMOTE_CALL": _RREF_FORK,
    "REMOTE_RET": _RREF_FORK,
    "RREF_USER_DELETE": _RREF_FORK,
    "RREF_FORK_REQUEST": _RREF_FORK,
    "RREF_CHILD_ACCEPT": ("fork",),
    "PYTHON_RREF_FETCH_CALL": ("rref",),
    "SCRIPT_RREF_FETCH_CALL": ("rref",),
    "FORWARD_AUTOGRAD_REQ": ("context", "message", "of"),
    "FORWARD_AUTOGRAD_RESP": ("context", "message", "of"),
    "BACKWARD_AUTOGRAD_REQ": ("context", "message"),
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": ("context",),
    "RREF_BACKWARD_REQ": ("context", "rref"),
    "RUN_WITH_PROFILING_REQ": ("profiling", "of"),
    "RUN_WITH_PROFILING_RESP": ("profiling", "of"),
    "EXCEPTION": ("text",),
    "COLLECTIVE": ("group", "operation", "number"),
    "NOTICE": ("group", "operation", "number"),
    "SEND": ("group", "operation", "tag"),
}

_TYPE = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_WORKER = re.compile(r"\bworker (\d+)\b")
_CONTEXT = re.compile(r"\b(the )?((?:autograd )?context) (\d+)\b")
#: of an id of a context or of an autograd message: the bits that count what its worker has made
_COUNTER_BITS = 48


def number_of(number: int, one: str, many: str = "") -> str:
    """``1 run``, ``1,200 runs``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def type_named(type: str) -> str:
    """What messages of a type are."""
    return _MESSAGES.get(type, type.lower().replace("_", " "))


def function_named(name: str) -> str:
    """A function that a call runs; of PyTorch's own, what a program calls for that."""
    return _ON_BEHALF_OF.get(name.rpartition(".")[2], name)


def in_words(text: str, workers: Mapping[int, str]) -> str:
    """What a check says, as people are told it: types of messages, workers and contexts by what they are called."""

    def context(found: re.Match[str]) -> str:
        return f"the {context_named(workers, int(found[3]))}"

    text = _TYPE.sub(lambda found: _MESSAGES.get(found[0], found[0]), text)
    text = _CONTEXT.sub(context, text)
    return _WORKER.sub(lambda found: worker_named(workers, int(found[1])), text)


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ..."""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number:,}{last or 'th'}"


def made_by(id: int) -> tuple[int, int]:
    """The worker that made a context or an autograd message, and how many it had made before."""
    return id >> _COUNTER_BITS, id & ((1 << _COUNTER_BITS) - 1)


def context_named(workers: Mapping[int, str], id: int) -> str:
    """An autograd context by the worker that began it."""
    maker, before = made_by(id)
    return f"{ordinal(before + 1)} context of {worker_named(workers, maker)}"


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
        return worker or name or "program"
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


def kinds_of(type: str, about: Sequence[Any]) -> list[tuple[str, Any]]:
    """What each thing is that a message of a type is about."""
    kinds = _ABOUT.get(type, ())
    if kinds[-1:] == ("of",) and len(about) >= len(kinds):
        inner = about[len(kinds) :]
        return [*zip(kinds, about, strict=False), *kinds_of(about[len(kinds) - 1], inner)]
    return [(kinds[n] if n < len(kinds) else "", value) for n, value in enumerate(about)]


class Names:
    """Those of a run, from its events. ``workers``: what workers are called; ``asked``: by (caller, id of the call) the
    function, and ``places``: by number of an event the line of the program, where these were noted."""

    def __init__(
        self,
        records: Sequence[Record],
        workers: Mapping[int, str],
        asked: Mapping[tuple[int, int], str] | None = None,
        places: Mapping[int, str] | None = None,
    ) -> None:
        self.workers = workers
        self._asked = {call: function_named(name) for call, name in (asked or {}).items()}
        #: by context: the line that has begun it, where that was noted
        self.begun: dict[int, str] = {}
        #: by task: the function of the request that it serves
        self.functions: dict[int, str] = {}
        #: by (caller, id of the call): the task that serves it, and the type of the request
        self._served: dict[tuple[int, int], int] = {}
        self._types: dict[tuple[int, int], str] = {}
        self._tasks: dict[int, tuple[int, str, int]] = {}
        self._mains: dict[int, int] = {}
        #: by RRef: (caller, id) of the remote call that makes it
        self._made: dict[tuple[int, int], tuple[int, int]] = {}
        for number, (_, worker, task, type, values) in enumerate(records):
            if type is tracing.UDF_STARTED:
                self.functions.setdefault(task, function_named(str(values[0])))
            elif type is tracing.HANDLER_STARTED:
                self._served[values[0], values[2]] = task
            elif type is tracing.CALL_STARTED:
                self._types[worker, values[0]] = str(values[2])
                about = dict(kinds_of(values[2], values[4]))
                if "fork" in about and called(values[2], values[4]).endswith("REMOTE_CALL"):
                    self._made.setdefault(about["rref"], (worker, values[0]))
            elif type is tracing.CONTEXT_CREATED:
                if made_by(values[0])[0] == worker and (place := (places or {}).get(number)):
                    self.begun.setdefault(values[0], place)
            elif type is tracing.TASK_STARTED:
                self._tasks[task] = (worker, str(values[0]), values[2])
            if worker >= 0 and task and (task not in self._tasks or self._tasks[task][2] < 0):
                self._mains.setdefault(worker, task)
        for call, task in self._served.items():
            if call in self._asked and task in self.functions:
                self.functions[task] = self._asked[call]

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

    def began(self, task: int, name: str) -> str:
        """A function that began in a task. ``name``: as its event has it."""
        known = function_named(name)
        return known if known == name else self.functions.get(task, known)

    def function_of(self, type: str, src: int, dst: int, id: int) -> str:
        """The function that a message calls, or whose result it brings; "" for others."""
        if type in _REPLIES:
            return self.function(dst, id)
        return self.function(src, id) if type in _CALLS else ""

    def message(self, type: str, src: int, dst: int, id: int) -> str:
        """A message in a picture."""
        function = self.function_of(type, src, dst, id)
        if not function:
            return type_named(type)
        return f"reply of {function}" if type in _REPLIES else function

    def context(self, id: int) -> str:
        """A context, and the line that has begun it, where that was noted."""
        place = self.begun.get(id)
        return context_named(self.workers, id) + (f" ({place})" if place else "")

    def about(self, type: str, about: Sequence[Any]) -> list[str]:
        """What a message is about, thing by thing."""
        return [self.thing(kind, value) for kind, value in kinds_of(type, about)]

    def thing(self, kind: str, value: Any) -> str:
        """Something that has an id. ``kind``: as in :data:`_ABOUT`."""
        if kind == "context":
            return context_named(self.workers, value)
        if kind == "message" and value >= 0:
            maker, before = made_by(value)
            return f"autograd message {before} of {self.worker(maker)}"
        if kind == "of":
            return type_named(value)
        if kind == "profiling":
            return f"profile {value[1]} of {self.worker(value[0])}"
        if kind in ("rref", "fork", "child"):
            return f"{'RRef' if kind == 'rref' else kind} {value[1]} of {self.worker(value[0])}"
        if kind in ("group", "number", "tag"):
            return f"{'process group' if kind == 'group' else kind} {value}"
        return str(value).partition("\n")[0]

    def maker(self, rref: tuple[int, int]) -> str:
        """The function whose result a reference is to; "" where that is not known."""
        return self.function(*self._made[rref]) if rref in self._made else ""

    def task(self, task: int, worker: int = -1, *, where: bool = True) -> str:
        """``worker``: the one that it worked for, if that is known better than by the event of its start; told with
        it if ``where``."""
        started_on, name, cause = self._tasks.get(task, (-1, "", -1))
        worker = worker if worker >= 0 else started_on
        role: Role = "request" if cause >= 0 else "thread"
        if self._mains.get(worker) == task or not name:
            role, name = (
                "main",
                name and "main",
            )  # a process goes by its worker, not by who has started it
        on = self.worker(worker) if where and worker >= 0 else ""
        return task_named(role, on, name, self.functions.get(task, ""))
