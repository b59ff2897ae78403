"""Whether the members of a process group make the same calls in the same order, where size and type of the calls are
equal: by the calls of the script that they come from, by the variables that their tensors are in, and by the
parameters that these are.

Members may come to one collective from other lines, and with tensors of other names: that alone says nothing.
What does is that some calls in a row are the same on two members, each as often, but in another order.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from squall.sim.scripts.call import Call, Frame

#: what becomes of equal calls in another order: other things are put together. Of what is gathered each member
#: gives what it likes.
_MIXES = ("all_reduce", "broadcast", "reduce", "reduce_scatter")
#: of calls in a row that are told so many, at most, and that are kept
_TOLD, _KEPT = 4, 64


@dataclass
class _Row:
    """Calls of a member and of the first one, since both had made the same ones: how many, and the first
    of those that differ."""

    balance: Counter[Hashable] = field(default_factory=Counter)
    calls: int = 0
    differ: int = 0
    apart: list[tuple[Call, Call]] = field(default_factory=list)


class CallOrder:
    """Of one group."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], _Row] = {}

    def note(self, calls: Sequence[Call]) -> tuple[list[Call], list[Call]] | None:
        """All calls of one number, which go together but perhaps for their order: two
        members' calls in a row that are in another order."""
        first, *others = sorted(calls, key=lambda call: call.rank)
        for other in others:
            if first.names == other.names and not self._rows:
                continue
            for what, facet in _FACETS.items():
                row = self._rows.get((what, other.rank))
                one, two = facet(first), facet(other)
                if row is None and (one == two or None in (one, two)):
                    continue
                row = row or self._rows.setdefault((what, other.rank), _Row())
                row.calls += 1
                if one != two:
                    row.differ += 1
                    row.apart += [(first, other)] if len(row.apart) < _KEPT else []
                    row.balance[one] += 1
                    row.balance[two] -= 1
                if any(row.balance.values()):
                    continue
                del self._rows[what, other.rank]
                apart = row.apart
                ours = [*{facet(own): own for own, _ in apart}.values()]
                is_dense = 2 * row.differ >= row.calls
                if is_dense and len(ours) > 1 and not _alternatives(*ours[:2]):
                    return [own for own, _ in apart], [theirs for _, theirs in apart]
        return None


def told(calls: Sequence[Call]) -> str:
    """One member's calls in a row."""
    said = [_about(call) for call in calls[:_TOLD]]
    places = dict.fromkeys(call.place for call in calls[:_TOLD] if call.place)
    where = f", at {' and '.join(places)}" if places else ""
    more = ", ..." if calls[_TOLD:] else ""
    return f"{calls[0].caller} calls {', then '.join(said)}{more}{where}"


def _about(call: Call) -> str:
    names = [*call.names.variables, *([call.names.parameter] if call.names.parameter else [])]
    of = f" of {' = '.join(names)}" if names else ""
    return f"{call.kind} {call.sequence}{of} at t={call.at_s:.6f} s"


def _source(call: Call) -> Hashable:
    texts = tuple((frame.function, frame.text) for frame in call.names.stack)
    return (call.kind, *call.agreed.items(), texts) if texts else None


def _variables(call: Call) -> Hashable:
    return _mixed(call, call.names.variables)


def _parameter(call: Call) -> Hashable:
    return _mixed(call, call.names.parameter)


def _mixed(call: Call, names: Hashable) -> Hashable:
    return (call.kind, *call.agreed.items(), names) if names and call.kind in _MIXES else None


#: what a call is known by, None if it is not
_FACETS: dict[str, Callable[[Call], Hashable]] = {
    "source": _source,
    "variables": _variables,
    "parameter": _parameter,
}


def _alternatives(one: Call, two: Call) -> bool:
    """Whether of two calls of one member only one is made each time that the code around them runs: a condition
    decides which, and may decide otherwise elsewhere."""
    for here, there in zip(one.names.stack, two.names.stack, strict=False):
        if here != there:
            return here.file == there.file and _are_alternatives(here, there)
    return False


def _are_alternatives(one: Frame, two: Frame) -> bool:
    ways = [_arms(one.file, frame.line) for frame in (one, two)]
    common = ways[0].keys() & ways[1].keys()
    return any(ways[0][node] != ways[1][node] for node in common)


@cache
def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


def _arms(file: str, line: int) -> dict[int, int]:
    """By line of a condition, which of its parts a line is in."""
    tree = _tree(file)
    found: dict[int, int] = {}
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.If():
                arms = [node.body, node.orelse]
            case ast.Try():
                arms = [node.body, *(each.body for each in node.handlers)]
            case ast.Match():
                arms = [each.body for each in node.cases]
            case _:
                continue
        for n, arm in enumerate(arms):
            if arm and arm[0].lineno <= line <= (arm[-1].end_lineno or line):
                found[node.lineno] = n
    return found
