"""Whether acts make sense: what their types alone do not tell."""

from __future__ import annotations

from collections.abc import Sequence

from squall.model.program.acts.act import DEEPEST, MOST_ACTS, Act, depth, every
from squall.model.program.acts.expected import ActError, told_alone
from squall.model.program.acts.kind import kinds, unused_fields

#: how long acts may take, in seconds: well below the limit that calls have if none is given
MOST_S = 40.0
MOST_FACTOR = 100


def check_acts(acts: Sequence[Act], home: int, workers: int, place: str) -> None:
    """Raises ActError for the first thing that makes no sense."""
    count = sum(1 for _ in every(acts))
    if count > MOST_ACTS:
        raise ActError(f"{place}: there are {count} acts, not at most {MOST_ACTS}")
    if depth(acts) > DEEPEST:
        raise ActError(f"{place}: acts are more than {DEEPEST} deep in each other")
    _check(acts, workers, place)
    try:
        told = told_alone(acts, home)
    except ActError as error:
        raise ActError(f"{place}: {str(error).partition(': ')[2]}") from None
    if told.seconds > MOST_S:
        raise ActError(f"{place}: they take {told.seconds:g} s, more than {MOST_S:g}")


def _check(acts: Sequence[Act], workers: int, place: str) -> None:
    for at, act in enumerate(acts):
        where = f"{place}[{at}]"
        if act.kind not in kinds():
            known = ", ".join(kinds())
            raise ActError(f"{where}.kind: {act.kind!r} is no kind of act; there are {known}")
        for name, value in unused_fields(act):
            raise ActError(f"{where}.{name}: an act of kind {act.kind!r} has none, not {value!r}")
        if not 0 <= act.worker < workers:
            raise ActError(f"{where}.worker: {act.worker} is not one of the {workers} workers")
        if not 0 <= act.seconds <= MOST_S:
            raise ActError(f"{where}.seconds: {act.seconds:g} is not between 0 and {MOST_S:g}")
        if act.limit_s is not None and not 0 <= act.limit_s <= MOST_S:
            raise ActError(f"{where}.limit_s: {act.limit_s:g} is not between 0 and {MOST_S:g}")
        if not 1 <= act.factor <= MOST_FACTOR:
            raise ActError(f"{where}.factor: {act.factor} is not between 1 and {MOST_FACTOR}")
        if not 1 <= act.times <= MOST_ACTS:
            raise ActError(f"{where}.times: {act.times} is not between 1 and {MOST_ACTS}")
        _check(act.acts, workers, f"{where}.acts")
        _check(act.then, workers, f"{where}.then")
