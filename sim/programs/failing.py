"""Calls that fail beside an operation: with its inputs, in its context, just before it.

What such a call has brought about on its way must be gone afterwards: the program goes on in the same
context, and its passes wait for whatever is left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from squall.model.program.operations import BESIDE, PlantedError
from squall.model.program.program import FailingCall, Op
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.real.rpc.worker_info import WorkerInfo

label_module(__name__, "failing")


class Unwritable:
    """Cannot be pickled."""

    def __reduce__(self) -> NoReturn:
        raise PlantedError(BESIDE)


class Unreadable:
    """Can be pickled, and not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return raise_planted, ()


def raise_planted() -> NoReturn:
    raise PlantedError(BESIDE)


def uncopyable() -> Tensor:
    """A tensor whose storage was taken away: to copy it fails, whoever carries it."""
    tensor = torch.ones(4, 4).t()[::2]
    tensor.untyped_storage().resize_(4)
    return tensor


def give_back(inputs: Sequence[Any], *rest: Any) -> Any:
    return inputs


def give_unwritable(inputs: Sequence[Any]) -> Any:
    return (*map(_changed, inputs), Unwritable())


def give_uncopyable(inputs: Sequence[Any]) -> Any:
    return (*map(_changed, inputs), uncopyable())


def _changed(given: Any) -> Any:
    return given * 2 if isinstance(given, Tensor) else given


def call_that_fails(op: Op, kind: FailingCall, inputs: Sequence[Any], nobody: int) -> None:
    """Make the call, in the way of the operation where that can be; ``nobody``: an id that no
    worker has. Raises AssertionError if the call does not fail."""
    to: int | WorkerInfo = op.worker
    function: Any = give_back
    args: tuple[Any, ...] = (inputs,)
    match kind:
        case "argument":
            args = (inputs, Unwritable())
        case "copy":
            args = (inputs, uncopyable())
        case "reading":
            args = (inputs, Unreadable())
        case "result":
            function = give_unwritable
        case "reply":
            function = give_uncopyable
        case "worker":
            to = WorkerInfo("nobody", nobody)
    if op.builtin and kind in ("copy", "worker"):
        tensor = next((given for given in inputs if isinstance(given, Tensor)), torch.ones(1))
        function, args = torch.add, (tensor, uncopyable())
    try:
        if op.call == "remote" and kind not in ("result", "reply"):
            reference = rpc.remote(to, function, args=args)
            created = reference._get_future()
            try:
                reference.to_here()
            finally:
                created.wait()  # the fetch may fail first; a pass must not begin in between
        elif op.call in ("async", "async_execution"):
            future: Future[Any] = rpc.rpc_async(to, function, args=args)
            future.wait()
        else:
            rpc.rpc_sync(to, function, args=args)
    except Exception:
        return
    raise AssertionError(f"a call whose {kind} is to make it fail did not fail")
