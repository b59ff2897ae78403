"""A torch operator called by name: matched at the caller, run at the callee.

(torch/csrc/distributed/rpc/python_functions.cpp)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.jit import ScriptFunction

from squall.real.rpc.commands import ScriptCall, ScriptRemoteCall
from squall.real.rpc.overloads import match_builtin_op
from squall.real.rpc.serialization import dump
from squall.real.rpc.state import rpc_state

if TYPE_CHECKING:
    from squall.real.ids import ForkId, RRefId
    from squall.real.process import Process

    TorchScript = ScriptFunction[Any, Any]


class OperatorCall(NamedTuple):
    """A call of one overload of an operator, or of a TorchScript function, as it travels."""

    operator: str | TorchScript
    #: empty for a TorchScript function
    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        operator = self.operator
        return operator if isinstance(operator, str) else str(operator.qualified_name)


@lru_cache(maxsize=1024)
def _operator(name: str, overload: str) -> tuple[Callable[..., Any], int]:
    """The function of an overload, and how many values it returns."""
    function = torch._C._get_operation_overload(name, overload)[0]
    returns = len(torch._C._get_schema(name, overload).returns)
    return function, returns


def run_jit_operator(call: OperatorCall) -> Any:
    """Run the operator. Raises what it raises, and RuntimeError if it returns several values."""
    if not isinstance(call.operator, str):
        return call.operator(*call.args, **call.kwargs)
    function, returns = _operator(call.operator, call.overload)
    result = function(*call.args, **call.kwargs)
    if returns != 1:
        raise RuntimeError(
            "Return value of a builtin operator or a TorchScript function should be a single "
            f"IValue, got a vector of size {returns}"
        )
    return result


def make_script_call(
    worker: Process, operator: str | TorchScript, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[ScriptCall, list[Any]]:
    """The command that has another worker run an operator or TorchScript function, and the forks
    in it.

    Raises RuntimeError if no overload takes these arguments.
    """
    overload, _ = _overload(worker, operator, args, kwargs)
    payload, tensors, forks = dump(worker, (operator, overload, args, kwargs))
    return ScriptCall(payload, tensors), forks


def make_script_remote_call(
    worker: Process,
    operator: str | TorchScript,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[[RRefId, ForkId], ScriptRemoteCall], list[Any]]:
    """What :func:`squall.real.rpc.rref_creation.create_rref` needs to run such a thing elsewhere,
    and the forks in it."""
    overload, type_str = _overload(worker, operator, args, kwargs)
    payload, tensors, forks = dump(worker, (operator, overload, args, kwargs))

    def call(rref_id: RRefId, fork_id: ForkId) -> ScriptRemoteCall:
        return ScriptRemoteCall(payload, tensors, rref_id, fork_id, type_str)

    return call, forks


def _overload(
    worker: Process, operator: str | TorchScript, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str]:
    """Which overload a call means, and TorchScript's name for the type of its result."""
    if isinstance(operator, str):
        op = match_builtin_op(operator, args, kwargs, rpc_state(worker).matches)
        return op.overload, op.type_str
    schema: Any = operator.schema  # a property, whatever its stub says
    return "", schema.returns[0].type.annotation_str
