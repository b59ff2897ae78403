"""Which overload of a torch operator a call by name means.

It is the first whose schema accepts the arguments, in the order in which torch registered them.
(torch/csrc/distributed/rpc/python_functions.cpp, matchBuiltinOp)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: arguments of these types are accepted or not whatever their value; texts are not among them: one
#: may name a device, or not
_PLAIN = frozenset((float, bool, type(None)))
#: whole numbers of so many bits are accepted or not whatever their value
_INT_BITS = 63


class BuiltinOp(NamedTuple):
    """The overload that a call means. ``type_str``: TorchScript's name for its result."""

    name: str
    overload: str
    type_str: str


#: what a worker has matched, by that on which alone the outcome depends: the operator and the kinds
#: of its arguments
Matches = dict[tuple[Any, ...], BuiltinOp]
_MATCHES_MAX = 4096


def match_builtin_op(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], matches: Matches
) -> BuiltinOp:
    """The overload of operator ``name`` (like ``aten::add``) that takes these arguments.

    Raises RuntimeError with torch's text if none does.
    """
    key = _kinds(name, args, kwargs)
    if key is not None:
        known = matches.get(key)
        if known is not None:
            return known
    matched = _match(name, args, kwargs)
    if key is not None and len(matches) < _MATCHES_MAX:
        matches[key] = matched
    return matched


def _kinds(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    kinds: list[Any] = [name]
    for key, value in (*enumerate(args), *kwargs.items()):
        kind = type(value)
        if kind is Tensor:
            # One of one element may stand for a number, depending on its type and value.
            if value.numel() == 1:
                return None
        elif kind is int:
            if value.bit_length() > _INT_BITS:
                return None
        elif kind not in _PLAIN:
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
