"""Whether collectives come to what they are defined to be, and nobody writes to their tensors meanwhile.

Members tell what they have given and what they have got (sim/stock/results_guest.py), which is computed here
in another way: from the tensors themselves, with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as fold
from typing import Any

import numpy as np

from squall.sim.scripts.findings import Findings
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.digests import Elements
from squall.sim.stock.groups import NativeGroups
from squall.sim.stock.results_guest import MemberReport
from squall.sim.stock.worker import NativeWorker

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": np.add,
    "AVG": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}
#: what gloo does with a part of a tensor (pytorch#192920)
_IN_PIECES = (
    "a tensor of rank {} does not lie in one piece: gloo takes what lies in memory from its first element on, which are "
    "other elements; NCCL refuses it (call contiguous() before)"
)
_REDUCES = ("all_reduce", "reduce", "reduce_scatter")
#: those of which each member is to have something else
_BY_MEMBER = ("reduce_scatter", "scatter", "all_to_all")
_GATHERS = ("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "gather")


class Results:
    """Answers what members of groups tell when an operation is over for them."""

    def __init__(self, cluster: NativeCluster, groups: NativeGroups, findings: Findings) -> None:
        self._groups = groups
        self._findings = findings
        #: by group and number, until all members of it have told
        self._told: dict[tuple[int, int], dict[int, MemberReport]] = {}
        #: how many collectives have been compared with their definition
        self.compared = 0
        cluster.answers["group over"] = self._hear

    def _hear(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        """Raises FoundError for what is wrong, unless the run is to go on."""
        number, rank, (kind, sequence), place, is_written, told, size = rest
        ranks = self._groups.groups[number].ranks
        what = f"{kind} {sequence} of {self._groups.groups[number].ledger.of}"
        where = f", called at {place}" if place else ""
        if is_written:
            text = (
                f"{what}{where}: rank {ranks[rank]} has written to its tensors before it was over"
            )
            self._findings.note("tensor overwritten", text)
        if told is None:
            return
        all_told = self._told.setdefault((number, sequence), {})
        all_told[rank] = told
        if len(all_told) < size:
            return
        del self._told[number, sequence]
        if not all(each.is_good and each.agreed == told.agreed for each in all_told.values()):
            return
        self.compared += 1
        wrong = first_wrong(kind, all_told, ranks)
        if wrong:
            in_pieces = [
                ranks[member] for member, each in all_told.items() if not each.in_one_piece
            ]
            why = f"; {_IN_PIECES.format(sorted(in_pieces)[0])}" if in_pieces else ""
            self._findings.note("wrong result", f"{what}{where}: {wrong}{why}")


def first_wrong(kind: str, told: dict[int, MemberReport], ranks: Sequence[int]) -> str:
    """Where a collective of which all members, who have these ``ranks``, have ``told`` came to something else; "" if
    nowhere, or if the definition does not say."""
    told = dict(sorted(told.items()))
    right: list[Elements] = []
    for rank, each in told.items():
        if each.results == right and kind not in _BY_MEMBER:
            continue
        expected = _defined(kind, rank, told)
        if expected is None or len(expected) != len(each.results):
            continue
        results = map(_array, each.results)
        for part, (values, got) in enumerate(zip(expected, results, strict=True)):
            at = _first_apart(values, got)
            if at is not None:
                return (
                    f"rank {ranks[rank]} has {got[at]} at element {at} of part {part}, and not "
                    f"{values[0][at]}"
                )
        right = each.results
    return ""


def _array(elements: Elements) -> Any:
    return np.frombuffer(elements[1], np.dtype(elements[0]))


#: what is expected, and how far from it is still right, element by element
_Expected = tuple[Any, Any]


def _defined(kind: str, rank: int, told: dict[int, MemberReport]) -> list[_Expected] | None:
    given = {member: list(map(_array, each.given)) for member, each in told.items()}
    about = told[rank].agreed
    root = int(about.get("root", -1))
    if kind in ("reduce", "gather") and rank != root:
        return None
    if kind == "broadcast":
        return _exactly(given[root])
    if kind in _GATHERS:
        return _exactly([part for parts in given.values() for part in parts])
    if kind == "scatter":
        return _exactly(_part(given[root], rank, len(told)))
    if kind == "all_to_all":
        return _exactly([p for parts in given.values() for p in _part(parts, rank, len(told))])
    if kind not in _REDUCES or about.get("op") not in _OPERATORS:
        return None
    if kind == "reduce_scatter":
        given = {member: _part(parts, rank, len(told)) for member, parts in given.items()}
    parts = list(zip(*given.values(), strict=True))
    exact = told[rank].precision, told[rank].least
    return [_reduced(list(each), about["op"], *exact) for each in parts]


def _part(parts: list[Any], rank: int, size: int) -> list[Any]:
    each = len(parts) // size
    return parts[rank * each : (rank + 1) * each]


def _exactly(parts: list[Any]) -> list[_Expected]:
    return [(part, 0.0) for part in parts]


def _reduced(values: list[Any], op: str, precision: float, least: float) -> _Expected:
    """Floating-point numbers in double precision, whose rounding each member may have done in another order."""
    if precision and values[0].dtype.kind == "f":
        values = [each.astype(np.float64) for each in values]
    with np.errstate(all="ignore"):
        total = fold(_OPERATORS[op], values)
        if op == "AVG":
            total = total / len(values)
        if not precision or op in ("MIN", "MAX"):
            return total, 0.0
        sizes = [np.abs(each) for each in values]
        largest = fold(np.multiply if op == "PRODUCT" else np.add, sizes)
        near_zero = least * fold(np.multiply, [np.maximum(each, 1.0) for each in sizes])
        return total, len(values) * (precision * largest + near_zero)


def _first_apart(expected: _Expected, got: Any) -> int | None:
    values, tolerance = expected
    if values.shape != got.shape:
        return None
    with np.errstate(all="ignore"):
        far = np.abs(values - got) > tolerance if values.dtype.kind in "fc" else values != got
    # What has no number, or is too large for one, has no distance.
    far &= np.isfinite(values) & np.isfinite(got)
    return int(np.argmax(far)) if far.any() else None
