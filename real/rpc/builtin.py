"""A torch operator called by name: matched at the caller, run at the callee.

The first overload whose schema accepts the arguments is called, in the order in which torch
registered them. (torch/csrc/distributed/rpc/python_functions.cpp, matchBuiltinOp)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.jit import ScriptFunction

from squall.real.rpc.commands import ScriptCall, ScriptRemoteCall
from squall.real.rpc.serialization import dump

if TYPE_CHECKING:
    from squall.real.ids import ForkId, RRefId
    from squall.real.process import Process

    TorchScript = ScriptFunction[Any, Any]

#: arguments of these types are accepted or not whatever their value
_PLAIN = frozenset((int, float, bool, str, type(None)))


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


class BuiltinOp(NamedTuple):
    """The overload that a call means. ``type_str``: TorchScript's name for its result."""

    name: str
    overload: str
    type_str: str


#: the outcome of matching depends on these alone: operator, kinds of arguments
_matches: dict[tuple[Any, ...], BuiltinOp] = {}
_MATCHES_MAX = 4096


def match_builtin_op(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BuiltinOp:
    """The overload of operator ``name`` (like ``aten::add``) that takes these arguments.

    Raises RuntimeError with torch's text if none does.
    """
    key = _kinds(name, args, kwargs)
    if key is not None:
        known = _matches.get(key)
        if known is not None:
            return known
    matched = _match(name, args, kwargs)
    if key is not None and len(_matches) < _MATCHES_MAX:
        _matches[key] = matched
    return matched


def _kinds(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    kinds: list[Any] = [name]
    for key, value in (*enumerate(args), *kwargs.items()):
        kind = type(value)
        # A tensor of one element may stand for a number, depending on its type and value.
        if kind not in _PLAIN and (kind is not Tensor or value.numel() == 1):
            return None
        kinds.append((key, kind))
    return tuple(kinds)


def _match(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BuiltinOp:
    dispatched, own = _schemas(name)
    errors: list[str] = []
    for schema in dispatched + own:
        try:
            torch._C._check_schema_allow_fake_script_object(schema, *args, **kwargs)
        except RuntimeError as error:
            errors.append(str(error))
            continue
        returns = schema.returns
        type_str = returns[0].type.annotation_str if returns else "NoneType"
        return BuiltinOp(name, schema.overload_name, type_str)
    # As in torch, the text tells of TorchScript's own operators only.
    text = "".join(f"{error}\n\n" for error in errors[len(dispatched) :])
    raise RuntimeError(
        f"Overloaded torch operator invoked from Python failed to match any schema:\n{text}"
    )


@lru_cache(maxsize=1024)
def _schemas(name: str) -> tuple[list[Any], list[Any]]:
    """The overloads of the dispatcher, which are tried first, and TorchScript's own."""
    schemas: list[Any] = torch._C._jit_get_schemas_for_operator(name)
    names = set(torch._C._dispatch_get_all_op_names())
    # A tensor of one element passes for a number, so the order is more than a matter of speed.
    dispatched = [s for s in schemas if _full_name(s) in names]
    return dispatched, [s for s in schemas if _full_name(s) not in names]


def _full_name(schema: Any) -> str:
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


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
    overload, _ = _overload(operator, args, kwargs)
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
    overload, type_str = _overload(operator, args, kwargs)
    payload, tensors, forks = dump(worker, (operator, overload, args, kwargs))

    def call(rref_id: RRefId, fork_id: ForkId) -> ScriptRemoteCall:
        return ScriptRemoteCall(payload, tensors, rref_id, fork_id, type_str)

    return call, forks


def _overload(
    operator: str | TorchScript, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str]:
    """Which overload a call means, and TorchScript's name for the type of its result."""
    if isinstance(operator, str):
        op = match_builtin_op(operator, args, kwargs)
        return op.overload, op.type_str
    schema: Any = operator.schema  # a property, whatever its stub says
    return "", schema.returns[0].type.annotation_str
