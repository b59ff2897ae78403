"""What a backward pass that does not retain the graph has to have freed: all that its nodes saved."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from torch import Tensor

_RAW = "_raw_saved_"
#: the end of a name under which gradients leave the graph of a worker, or are accumulated
_LEAVES = ("RecvRpcBackward", "AccumulateGrad")


def check_freed(roots: Sequence[Tensor]) -> None:
    """Raises AssertionError if a node of this worker that a pass from ``roots`` has run still has a
    tensor that it saved: memory that the program takes for free, and a second pass that goes
    through where it has to be refused."""
    nodes = [root.grad_fn for root in roots]
    seen: dict[Any, None] = dict.fromkeys(nodes)
    nodes = list(seen)
    for node in nodes:  # grows while it is walked
        if node is None or _is_leaf(node):
            continue
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen[following] = None
                nodes.append(following)
    wanted: dict[Any, bool] = {}
    for node in nodes:
        if node is not None and _is_run(node, wanted):
            for name in _saved(type(node)):
                if _has(node, name):
                    raise AssertionError(f"{node.name()} still has {name} after its pass")


def _is_leaf(node: Any) -> bool:
    return str(node.name()).endswith(_LEAVES)


def _is_run(node: Any, known: dict[Any, bool]) -> bool:
    """Whether some way from a node leads to where gradients are wanted. Without recursion: a graph
    may be deep."""
    stack = [node]
    while stack:
        at = stack[-1]
        if at in known:
            stack.pop()
            continue
        following = [] if _is_leaf(at) else [each for each, _ in at.next_functions if each]
        unknown = [each for each in following if each not in known]
        if unknown:
            stack += unknown
            continue
        known[at] = _is_leaf(at) or any(known[each] for each in following)
        stack.pop()
    return known[node]


@functools.cache
def _saved(node_type: type) -> tuple[str, ...]:
    """The attributes of a C++ node that are tensors which it saved."""
    raw = [name for name in dir(node_type) if name.startswith(_RAW)]
    return tuple(name.replace(_RAW, "_saved_") for name in raw if name != f"{_RAW}tensors")


def _has(node: Any, name: str) -> bool:
    try:
        value = getattr(node, name)
    except RuntimeError:  # it was freed
        return False
    if isinstance(value, tuple):
        return any(each is not None for each in value)
    return value is not None
