"""Are the rules too generous? Results are disturbed on purpose, and compared.

One fact of one engine is changed: a gradient (a little, a lot, one element, its sign, type, layout;
missing, or one too many), the end of a step, a text, a count or something left. A disturbance that
leaves no unknown difference behind was swallowed by a rule, or by what a comparison allows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squall.model.checks.compiled import LEFT
from squall.sim.diff.compare import Results, compare_results
from squall.sim.diff.facts import (
    A_VALUE,
    ABSENT,
    COUNTS,
    ENDS,
    NO_END,
    Facts,
    Place,
    value_of,
)
from squall.sim.diff.tensors import tensors_differ
from squall.sim.diff.undefined import is_defined

#: the share of disturbances that have to be noticed
REQUIRED = 0.99
#: units in the last place of the largest element by which a gradient is changed a little
_LITTLE_ULPS = 16

Change = Callable[[random.Random, Facts, Results], tuple[Place, Any] | None]


class Planted(NamedTuple):
    """A disturbance: of what kind, on which engine, where, from what to what; and by which rule the
    difference was explained, if nobody noticed."""

    seed: int
    kind: str
    engine: str
    where: str
    before: str
    after: str
    noticed: bool
    rule: str = ""

    def __str__(self) -> str:
        return (
            f"seed {self.seed}, {self.engine}: {self.kind} of {self.where}, {self.before} -> "
            f"{self.after}: {self.rule or 'no difference'}"
        )

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


@dataclass
class Tally:
    """How many disturbances there were, and who swallowed those that nobody noticed."""

    planted: int = 0
    noticed: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    swallowed: list[Planted] = field(default_factory=list)

    def add(self, planted: Planted) -> None:
        self.planted += 1
        self.by_kind[planted.kind] += 1
        self.noticed += planted.noticed
        if not planted.noticed:
            self.swallowed.append(planted)

    @property
    def share(self) -> float:
        return self.noticed / self.planted if self.planted else 0.0

    @property
    def ok(self) -> bool:
        return self.planted > 0 and self.share >= REQUIRED


def plant(results: Results, times: int, seed: int = 0) -> Iterator[Planted]:
    """Disturb results ``times`` times, each time from the start.

    The results themselves must hold no unknown difference: it could not be told from the new one.
    """
    stream = random.Random(repr(("planted", seed, results.scenario.seed)))
    for _ in range(times):
        yield _one(results, stream)


def _one(results: Results, stream: random.Random) -> Planted:
    while True:
        kind = stream.choice(list(_KINDS))
        engine = stream.choice(("port", "torch"))
        facts: Facts = getattr(results, engine)
        changed = stream.choice(_KINDS[kind])(stream, facts, results)
        if (
            changed is not None
            and is_defined(results.open_from, changed[0])
            and not _mended(results, engine, *changed)
        ):
            break
    place, value = changed
    disturbed = dict(facts)
    if value is None:
        disturbed.pop(place, None)
    else:
        disturbed[place] = value
    comparison = compare_results(
        replace(results, port=disturbed) if engine == "port" else replace(results, torch=disturbed)
    )
    noticed = bool(comparison.unknown)
    rule = next((d.rule or "" for d in comparison.differences if d.place == place), "")
    return Planted(
        results.scenario.seed,
        kind,
        engine,
        " ".join(map(str, place)),
        _shown(facts.get(place)),
        _shown(value),
        noticed,
        "" if noticed else rule,
    )


def _mended(results: Results, engine: str, place: Place, value: Any) -> bool:
    """Whether the change makes both engines alike."""
    other: Facts = results.torch if engine == "port" else results.port
    there = value_of(other, place)
    if isinstance(value, Tensor) or isinstance(there, Tensor):
        if value is None or there is None:
            return value is there
        return tensors_differ(place, there, value) is None
    if place == ("hang",):
        return bool((value == ENDS) == (there == ENDS))
    return bool((ABSENT.get(place[0]) if value is None else value) == there)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        dense = value if value.layout == torch.strided else value.to_dense()
        return f"{dense.tolist()} {value.dtype} {value.layout}"
    return str(value)[:200]


# -- gradients ------------------------------------------------------------------------------------


def _gradient(change: Callable[[random.Random, Tensor], Tensor | None]) -> Change:
    def apply(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
        places = [place for place in facts if place[0] == "gradient" and _any(facts[place])]
        if not places:
            return None
        place = stream.choice(places)
        changed = change(stream, facts[place])
        return None if changed is None else (place, changed)

    return apply


def _any(gradient: Tensor) -> bool:
    """Whether there is anything but zeros, which are as good as no gradient."""
    return bool(_dense(gradient).any())


def _dense(gradient: Tensor) -> Tensor:
    return gradient.detach() if gradient.layout == torch.strided else gradient.detach().to_dense()


def _with_element(stream: random.Random, gradient: Tensor, by: Tensor | float) -> Tensor:
    """A copy of the same layout and strides with something added to one element."""
    changed = gradient.detach().clone()
    values = changed._values() if changed.is_sparse else changed
    numel = values.numel()
    if not numel:
        return _dense(gradient) + by
    index = tuple(stream.randrange(size) for size in values.shape)
    values[index] += by
    return changed


def _little(stream: random.Random, gradient: Tensor) -> Tensor:
    largest = float(_dense(gradient).abs().max())
    return _with_element(stream, gradient, _LITTLE_ULPS * torch.finfo(gradient.dtype).eps * largest)


def _a_lot(stream: random.Random, gradient: Tensor) -> Tensor:
    return gradient.detach() * 2


def _element(stream: random.Random, gradient: Tensor) -> Tensor:
    return _with_element(stream, gradient, 1 + float(_dense(gradient).abs().max()))


def _sign(stream: random.Random, gradient: Tensor) -> Tensor:
    return -gradient.detach()


def _dtype(stream: random.Random, gradient: Tensor) -> Tensor:
    other = torch.float32 if gradient.dtype != torch.float32 else torch.float64
    return (gradient.detach().real if gradient.is_complex() else gradient.detach()).to(other)


def _layout(stream: random.Random, gradient: Tensor) -> Tensor | None:
    if gradient.layout != torch.strided:
        return _dense(gradient)
    return gradient.detach().to_sparse() if gradient.dim() else None


def _missing(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    places = [place for place in facts if place[0] == "gradient" and _any(facts[place])]
    return (stream.choice(places), None) if places else None


def _extra(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    """A gradient for a leaf that has none in this pass."""
    passes = dict.fromkeys(place[1:4] for place in facts if place[0] == "gradient")
    places = [
        ("gradient", *at, leaf)
        for at in passes
        for leaf in (*range(len(results.program.leaves)), -1)
        if ("gradient", *at, leaf) not in facts
    ]
    return (stream.choice(places), torch.ones(2, dtype=torch.float64)) if places else None


# -- ends and texts -------------------------------------------------------------------------------


def _outcome(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    place = stream.choice([place for place in facts if place[0] == "outcome"])
    now = facts[place]
    others = [A_VALUE, NO_END, "an error that nobody has planted", f"{now} and more"]
    return place, stream.choice([other for other in others if other != now])


def _texts(facts: Facts) -> list[Place]:
    kinds = ("outcome", "first error", "story", "beside", "death")
    return [
        place
        for place, value in facts.items()
        if place[0] in kinds and value not in (A_VALUE, NO_END)
    ]


def _text(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    places = _texts(facts)
    if not places:
        return None
    place = stream.choice(places)
    words = str(facts[place]).split(" ")
    at = stream.randrange(min(len(words), 12))
    how = stream.choice(("drop", "change", "insert"))
    if how == "drop" and len(words) > 1:
        del words[at]
    elif how == "insert":
        words.insert(at, "other")
    else:
        words[at] = words[at][:-1] + ("x" if not words[at].endswith("x") else "y")
    return place, " ".join(words)


# -- counts and what is left ----------------------------------------------------------------------


def _count(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    places = [place for place in facts if place[0] in COUNTS]
    if not places:
        return None
    place = stream.choice(places)
    now: int = facts[place]
    more = stream.choice((-1, 1, 2, now + 1))
    return place, max(0, now + more)


def _answer(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    """A request is refused, or not answered."""
    place = stream.choice([place for place in facts if place[0] == "requests"] or [()])
    if not place:
        return None
    kind = stream.choice(("refused", "unanswered"))
    worker = (stream.randrange(results.program.workers),) if kind == "unanswered" else ()
    where = (kind, place[1], *worker)
    return where, value_of(facts, where) + 1


def _left(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    if value_of(facts, ("hang",)) != ENDS and not any(place[0] == "left" for place in facts):
        return None  # nobody has counted
    place = ("left", stream.randrange(results.program.workers), stream.choice(LEFT))
    now: int = value_of(facts, place)
    return place, now + stream.choice((1, 2) if not now else (-now, 1, 2))


def _hang(stream: random.Random, facts: Facts, results: Results) -> tuple[Place, Any] | None:
    now = value_of(facts, ("hang",))
    return ("hang",), "worker0: MainThread waits" if now == ENDS else None


_KINDS: dict[str, Sequence[Change]] = {
    "gradient": (
        *(_gradient(change) for change in (_little, _a_lot, _element, _sign, _dtype, _layout)),
        _missing,
        _extra,
    ),
    "outcome": (_outcome,),
    "text": (_text,),
    "count": (_count, _count, _answer),
    "leftover": (_left, _left, _hang),
}
