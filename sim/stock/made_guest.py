"""Inside a process of a script on the engine ``torch``: what it makes and is to end itself (sim/scripts/unended.py)."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed.autograd
import torch.distributed.rpc
import torch.futures

from squall.model.events.kept import Kept, Thing
from squall.sim.scripts.unended import Made, References, over
from squall.sim.stock.after_import import after_import
from squall.sim.world.holders import Root, containers, of_frames, of_module
from squall.sim.world.places import is_library

_dist: Any = torch.distributed
_c10d: Any = torch.distributed.distributed_c10d
_rpc: Any = torch.distributed.rpc
_autograd: Any = torch.distributed.autograd
_thread: Any = threading.Thread
#: functions that give an operation to wait for, some only if ``async_op``
_OPERATIONS = (
    *("all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single"),
    *("barrier", "broadcast", "gather", "irecv", "isend", "reduce", "reduce_scatter"),
    *("reduce_scatter_tensor", "scatter"),
)
#: methods by which somebody uses a future, beside waiting for it, and an operation
_OF_FUTURES = ("add_done_callback", "done", "then")
_OF_OPERATIONS = ("exception", "get_future", "is_completed", "result", "wait")


class MadeGuest:
    """What this process has made; ``kept``: references that only a shutdown has released."""

    def __init__(self) -> None:
        self.made = Made()
        self._references = References()
        self._calls = 0
        self._kept: list[Kept] = []
        self._contexts: dict[int, _Context] = {}

    def waited(self, future: object) -> None:
        """Somebody waits for a future: every call of another worker comes to that."""
        self._calls += 1
        over(future)

    def left(self) -> list[Kept]:
        """What has not ended, its process not being named yet."""
        return [*self._kept, *self.made.kept("")]

    def install(self) -> None:
        """From now on."""
        self._see_calls()
        self._see_groups()
        self._see_threads()
        enter, leave = _autograd._new_context, _autograd._release_context

        def entered(*args: Any) -> Any:
            context = enter(*args)
            known = self._contexts[context._context_id()] = _Context()
            self.made.note("contexts", known)
            return context

        def left(context_id: int) -> Any:
            if context_id in self._contexts:
                over(self._contexts.pop(context_id))
            return leave(context_id)

        vars(_autograd).update(_new_context=entered, _release_context=left)

    def _noting(self, function: Any, what: Thing) -> Any:
        """A function whose result, if there is one, somebody is to end."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if result is not None and type(result) is not int:
                self.made.note(what, result)
            return result

        return wrapped

    def _see_calls(self) -> None:
        native: Any = torch._C
        for name in _OF_FUTURES:
            setattr(native.Future, name, _using(getattr(native.Future, name)))
        for name in ("collect_all", "wait_all"):
            vars(torch.futures)[name] = _using_all(getattr(torch.futures, name))
        # One that a function returns is waited for by who has called it.
        internal = _rpc.internal
        internal._run_function = _returning(internal._run_function)
        api = vars(_rpc.api)
        found = {
            "rpc_async": self._noting(_rpc.rpc_async, "futures"),
            "remote": self._referring(_rpc.remote),
        }
        for module in (vars(_rpc), api):
            module.update(found)
        delete = api["_delete_all_user_and_unforked_owner_rrefs"]

        def deleted(*args: Any) -> Any:
            """Everybody has come to the shutdown: what is there still, the script has kept."""
            self._kept += self._references.kept("", self._calls, self._holders)
            return delete(*args)

        api["_delete_all_user_and_unforked_owner_rrefs"] = deleted

    def _referring(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            reference = function(*args, **kwargs)
            self._references.note(reference, self._calls)
            return reference

        return wrapped

    def _see_groups(self) -> None:
        for name in _OF_OPERATIONS:
            setattr(_dist.Work, name, _using(getattr(_dist.Work, name)))
        for name in _OPERATIONS:
            found = self._noting(getattr(_dist, name), "operations")
            vars(_dist)[name] = found
            if name in ("isend", "irecv"):  # which P2POp compares
                vars(_c10d)[name] = found
        after_import("torch.distributed._functional_collectives", _rewritten)
        begin, new, end = _dist.init_process_group, _dist.new_group, _dist.destroy_process_group

        @functools.wraps(begin)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = begin(*args, **kwargs)
            self.made.note("process groups", _dist.group.WORLD)
            return result

        found = {"init_process_group": wrapped, "new_group": self._noting(new, "process groups")}

        @functools.wraps(end)
        def inner(group: Any = None) -> Any:
            if group is None or group is _dist.group.WORLD:
                self.made.forget("process groups")
            elif isinstance(group, _dist.ProcessGroup):  # not of those who are no members
                over(group)
            return end(group)

        for module in (vars(_dist), vars(_c10d)):
            module.update(found, destroy_process_group=inner)

    def _see_threads(self) -> None:
        start, run = _thread.start, _thread._bootstrap_inner

        @functools.wraps(start)
        def started(thread: threading.Thread) -> None:
            self.made.note("threads", thread)
            start(thread)

        @functools.wraps(run)
        def ran(thread: threading.Thread) -> None:
            try:
                run(thread)
            finally:
                over(thread)

        _thread.start, _thread._bootstrap_inner = started, ran

    def _holders(self, references: Sequence[object]) -> list[str]:
        """What holds these references, the containers that several are in once."""
        wanted = set(map(id, references))
        return containers(roots(), lambda each: id(each) in wanted)


def _rewritten(functional: Any) -> None:
    """``torch.compile`` makes functional ones of operations that it finds in a table, by their functions."""
    table = functional.traceable_collective_remaps
    for function in (vars(_dist)[name] for name in _OPERATIONS):
        if function.__wrapped__ in table:
            table[function] = table[function.__wrapped__]


class _Context:
    """An autograd context, which is known by its number."""


def roots() -> list[Root]:
    """What code of the script can reach: variables of functions that run, globals of its modules."""
    found: list[Root] = []
    for frame in sys._current_frames().values():
        found += of_frames(frame)
    modules = dict.fromkeys(map(id, sys.modules.values()))
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and id(module) in modules and not is_library(file):
            del modules[id(module)]
            found += of_module(module)
    return found


def _using(method: Any) -> Any:
    @functools.wraps(method)
    def used(self: Any, *args: Any, **kwargs: Any) -> Any:
        over(self)
        return method(self, *args, **kwargs)

    return used


def _using_all(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def used(futures: Any) -> Any:
        futures = list(futures)
        for each in futures:
            over(each)
        return function(futures)

    return used


def _returning(function: Any) -> Any:
    @functools.wraps(function)
    def returned(*args: Any) -> Any:
        result = function(*args)
        if isinstance(result, torch._C.Future):
            over(result)
        return result

    return returned
