"""A story about operators of torch that are called with every kind of argument: which overload is
meant depends on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import error_of

label_module(__name__, "overloads")
story = stories_of(__name__, rank=119)

#: of two arguments, each with overloads for a tensor and for a number as the second; of the last
#: two the number is a dimension, and a tensor of one element passes for it
_EITHER: tuple[Callable[..., Any], ...] = (
    torch.add,
    torch.mul,
    torch.sub,
    torch.div,
    torch.eq,
    torch.lt,
    torch.remainder,
    torch.fmod,
    torch.clamp,
    torch.bitwise_and,
    torch.max,
    torch.min,
)
#: those whose second argument is a whole number, for which any tensor of one element passes; only
#: the first of them takes one of several
_WHOLE: tuple[Callable[..., Any], ...] = (
    torch.tensor_split,
    torch.cumsum,
    torch.cumprod,
    torch.unbind,
    torch.softmax,
)
_OPERATORS = _EITHER + _WHOLE


def _whole() -> Tensor:
    return torch.tensor([6, 4, 9])


def _fractions() -> Tensor:
    return torch.tensor([0.5, 3.0, -2.0], dtype=torch.float32)


def _column() -> Tensor:
    return torch.tensor([[1], [2]], dtype=torch.int32)


#: the first argument
_FIRST: tuple[Callable[[], Tensor], ...] = (_whole, _fractions, _column)
#: no operator takes it
_TOO_LARGE = 2**70
#: the second: numbers, and tensors of one element, which may pass for a number, or of several
_SECOND: tuple[Callable[[], Any], ...] = (
    lambda: 3,
    lambda: 2.5,
    lambda: True,
    lambda: torch.tensor(2.0, dtype=torch.float64),
    lambda: torch.tensor([2], dtype=torch.int64),
    lambda: torch.tensor([[2.5]], dtype=torch.float64),
    lambda: torch.tensor(4, dtype=torch.int8),
    _whole,
    _fractions,
    lambda: torch.tensor([1]),
    lambda: _TOO_LARGE,
)
#: what a call raises of arguments that no overload takes, before anything is sent
_UNMATCHED = (
    "RuntimeError: Overloaded torch operator invoked from Python failed to match any schema"
)
#: what torch says of arguments that an operator does not take
_REFUSED = (
    "is not supported",
    "not implemented for",
    "Dimension out of range",
    "a vector of size 2",
    # of numbers in a tensor that should be whole
    "Unable to cast Python instance",
    "to have dtype of long",
)
#: how many arguments one story tries, one after the other
_MOST = 8


def _shown(value: Any) -> str:
    """Tensors with all that depends on the overload."""
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.tolist()}"
    if isinstance(value, list | tuple):  # a tuple arrives as a list
        return str([_shown(each) for each in value])
    return repr(value)


def _called(to: int, how: int, operator: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What comes of a call."""
    if how == 0:
        return error_of(lambda: _shown(rpc.rpc_sync(to, operator, args=args)))
    if how == 1:
        return error_of(lambda: _shown(rpc.rpc_async(to, operator, args=args).wait()))
    return error_of(lambda: _shown(rpc.remote(to, operator, args=args).to_here()))


def _is_right(there: str, operator: Callable[..., Any], first: Tensor, second: Any) -> bool:
    """Whether a call came to what it comes to here, to an error if that is one."""
    if operator in _WHOLE:
        if isinstance(second, Tensor) and second.numel() > 1:
            refused = operator is not torch.tensor_split
        else:
            refused = isinstance(second, float)
            second = int(second)
            refused |= second == _TOO_LARGE
        if refused or there.startswith(_UNMATCHED):
            return refused and there.startswith(_UNMATCHED)
    here = error_of(lambda: _shown(operator(first, second)))
    if here.startswith("no error"):
        return here == there
    return not there.startswith("no error")


@story(
    "overloads",
    numbers={
        "operator": (0, len(_OPERATORS) - 1),
        "first": (0, len(_FIRST) - 1),
        "second": (0, len(_SECOND) - 1),
        "step": (0, len(_SECOND) - 1),
        "times": (1, _MOST),
        "how": (0, 2),
    },
    errors=_REFUSED,
)
def overloads(
    to: int, operator: int, first: int, second: int, step: int, times: int, how: int
) -> str:
    """An operator is called with second arguments of one kind after the other: each result has the
    numbers, the shape and the dtype that it has without a call, and arguments that no overload takes
    are refused at once, whatever was called before."""
    facts: dict[str, bool] = {}
    for number in range(times):
        at = (second + number * step) % len(_SECOND)
        meant, args = _OPERATORS[operator], (_FIRST[first](), _SECOND[at]())
        facts[f"{meant.__name__}_{first}_{at}"] = _is_right(
            _called(to, how, meant, args), meant, *args
        )
    return told(**facts)
