"""Calls that fail beside an operation: with its inputs, just before it, in its context.

What such a call has brought about on its way must be gone afterwards: the program goes on in the same
context, and its passes wait for whatever is left there. A call that fails only when it has been
answered, so that its messages count, is given inputs without history: their gradients would be
waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from squall.model.program.operations import BESIDE, PlantedError
from squall.model.program.program import FailingCall, Op
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.real.rpc.worker_info import WorkerInfo
from squall.real.runtime import current_task
from squall.real.streams import current_streams, on_streams
from squall.real.worker import current_worker
from squall.sim.programs.profiled import Profiled

label_module(__name__, "failing")

#: seconds of virtual time after which what comes late is there
_LATE_S = 0.002


class Unwritable:
    """Cannot be pickled."""

    def __reduce__(self) -> NoReturn:
        raise PlantedError(BESIDE)


class Unreadable:
    """Can be pickled, and not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return raise_planted, ()


class Unsettled:
    """Can be pickled as objects of a user's class mostly are, and does not take its state."""

    def __init__(self) -> None:
        self.held: list[Any] = [{"number": 1}, {2}, rpc.RRef(3)]

    def __setstate__(self, state: object) -> None:
        raise PlantedError(BESIDE)


class Missing:
    """Can be pickled, and not unpickled: a name is not there, on some workers; on others as above."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (raise_missing if current_worker().id % 2 else raise_planted), ()


class Unnamed(Exception):  # noqa: N818
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise PlantedError(BESIDE)


def raise_planted() -> NoReturn:
    raise PlantedError(BESIDE)


def raise_missing() -> NoReturn:
    raise AttributeError(BESIDE)


def uncopyable() -> Tensor:
    """A tensor whose storage was taken away: to copy it fails, whoever carries it. It is on the CPU,
    where that can be done to it, whatever the default device is."""
    tensor = torch.ones(4, 4, device="cpu").t()[::2]
    tensor.untyped_storage().resize_(4)
    return tensor


# -- what is called -------------------------------------------------------------------------------


def give_back(inputs: Sequence[Any], *rest: Any) -> Any:
    return inputs


def give_unwritable(inputs: Sequence[Any]) -> Any:
    return (*_results(inputs), Unwritable())


def give_uncopyable(inputs: Sequence[Any]) -> Any:
    return (*_results(inputs), uncopyable())


def give_unreadable(inputs: Sequence[Any]) -> Any:
    return (*map(_changed, inputs), rpc.RRef(1), Missing(), rpc.RRef(2))


@async_execution
def give_no_future(inputs: Sequence[Any]) -> Any:
    return inputs


@async_execution
def give_unwritable_late(inputs: Sequence[Any]) -> Future[Any]:
    return _later(lambda: give_unwritable(inputs))


@async_execution
def give_uncopyable_late(inputs: Sequence[Any]) -> Future[Any]:
    return _later(lambda: give_uncopyable(inputs))


@async_execution
def fail_late(inputs: Sequence[Any]) -> Future[Any]:
    return _later(raise_planted)


def fail_at_once(inputs: Sequence[Any]) -> NoReturn:
    raise_planted()


def fail_unwritably(inputs: Sequence[Any]) -> NoReturn:
    class Local(Exception):  # noqa: N818
        pass

    raise Local(BESIDE)


def fail_unnamed(inputs: Sequence[Any]) -> NoReturn:
    raise Unnamed


def leave(inputs: Sequence[Any]) -> NoReturn:
    raise SystemExit(BESIDE)


def _changed(given: Any) -> Any:
    return given * 2 if isinstance(given, Tensor) else given


def _results(inputs: Sequence[Any]) -> list[Any]:
    """Tensors made of the inputs, and one of its own, which has a history in any case."""
    own = torch.ones(2, dtype=torch.float64, requires_grad=True)
    return [*map(_changed, inputs), own * 2, rpc.RRef(1)]


def _later(make: Callable[[], Any]) -> Future[Any]:
    # A task of its own begins on the default streams; the inputs are ready on those of the request.
    streams = current_streams()
    future: Future[Any] = Future(devices=streams)

    def end() -> None:
        current_task().runtime.sleep(_LATE_S)
        with on_streams(streams.values()):
            try:
                value = make()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(value)

    current_task().runtime.spawn(end, name="late", worker=current_worker())
    return future


# -- kinds ----------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """What is called, with what besides the inputs.

    ``answered``: a call ends with an answer that counts, ``kept``: a creation ends well, so that
    the inputs must have no history. ``read``: nothing goes wrong unless the result travels.
    """

    function: Callable[..., Any]
    further: Callable[[], Any] | None = None
    answered: bool = False
    kept: bool = True
    read: bool = False


_FUNCTIONS: dict[FailingCall, _Kind] = {
    "argument": _Kind(give_back, Unwritable, kept=False),
    "copy": _Kind(give_back, uncopyable, kept=False),
    "reading": _Kind(give_back, Unreadable, kept=False),
    "state": _Kind(give_back, Unsettled, kept=False),
    "worker": _Kind(give_back, kept=False),
    "result": _Kind(give_unwritable, read=True),
    "reply": _Kind(give_uncopyable, read=True),
    "late result": _Kind(give_unwritable_late, read=True),
    "late reply": _Kind(give_uncopyable_late, read=True),
    "late error": _Kind(fail_late),
    "no future": _Kind(give_no_future),
    "answer": _Kind(give_unreadable, answered=True, read=True),
    "raises": _Kind(fail_at_once, answered=True),
    "unwritable error": _Kind(fail_unwritably),
    "unnamed error": _Kind(fail_unnamed, kept=False),
    "exit": _Kind(leave, kept=False),
    "operator": _Kind(torch.mm),
}


#: kinds whose function is not called, whatever it is given
_UNSENT: frozenset[FailingCall] = frozenset({"argument", "copy", "reading", "state", "worker"})


def call_that_fails(op: Op, inputs: Sequence[Any], home: int, nobody: int) -> None:
    """Make the call that is to fail before an operation, from worker ``home``; ``nobody``: an id
    that no worker has. Raises AssertionError if the call does not fail."""
    assert op.fails_first is not None
    kind = _FUNCTIONS[op.fails_first]
    way = op.fails_by.removeprefix("profiled ")
    if way == "op":
        way = {"async_execution": "async"}.get(op.call, op.call)
    to: int | WorkerInfo = op.worker
    if op.fails_first == "worker":
        to = WorkerInfo("nobody", nobody)
    elif kind.read and op.worker == home and way == "remote":
        way = "sync"  # what is kept here need not travel
    if kind.kept if way == "remote" else kind.answered:
        inputs = [given.detach() if isinstance(given, Tensor) else given for given in inputs]
    function, args = kind.function, _arguments(op, kind, inputs)
    if op.builtin and op.fails_first in ("copy", "worker"):
        function, args = torch.add, (_first(inputs), uncopyable())
    with Profiled(op.fails_by.startswith("profiled")):
        try:
            _call(way, to, function, args)
        except Exception:
            return
    raise AssertionError(f"a call whose {op.fails_first} is to make it fail did not fail")


def _arguments(op: Op, kind: _Kind, inputs: Sequence[Any]) -> tuple[Any, ...]:
    if op.fails_first == "operator":
        matrix = torch.ones(2, 3, dtype=torch.float64)
        return _first(inputs).abs().sum().double() * matrix, matrix
    further = () if kind.further is None else (kind.further(),)
    # A reference before and one behind what cannot be handled: both have to be let go.
    return (inputs, rpc.RRef(1), *further, rpc.RRef(2)) if op.fails_first in _UNSENT else (inputs,)


def _first(inputs: Sequence[Any]) -> Tensor:
    return next((given for given in inputs if isinstance(given, Tensor)), torch.ones(1))


def _call(way: str, to: int | WorkerInfo, function: Any, args: tuple[Any, ...]) -> None:
    if way == "remote":
        reference = rpc.remote(to, function, args=args)
        created = reference._get_future()
        try:
            reference.to_here()
        finally:
            created.wait()  # the fetch may fail first; a pass must not begin in between
    elif way == "async":
        future: Future[Any] = rpc.rpc_async(to, function, args=args)
        future.wait()
    else:
        rpc.rpc_sync(to, function, args=args)
