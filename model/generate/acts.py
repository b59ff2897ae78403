"""Draws acts: any number of them, beside and within each other."""

from __future__ import annotations

from squall.model.program.acts.act import CONTEXT, Act, How
from squall.model.program.acts.check import check_acts
from squall.model.program.acts.expected import ActError
from squall.model.program.acts.kind import ActKind, kinds
from squall.model.program.choices import Choices

#: acts in a list, in all, and how deep they are in each other
_MOST_IN_A_LIST, _MOST, _DEEPEST = 4, 18, 4
#: how many acts that have a reference at hand do something with it, besides those by chance
_WITH_IT = 0.8
_WAITS_S = (1.0, 1.0, 2.0)
_LIMITS_S: tuple[float | None, ...] = (None, None, None, 0.5, 1.5, 2.5, 0.0)
_HOWS: tuple[How, ...] = ("sync", "async", "remote")


def draw_acts(choices: Choices, home: int, workers: int, calm: bool = True) -> tuple[Act, ...]:
    """Acts of worker ``home``. What they come to is certain if nothing fails; where messages may be
    lost, which is not ``calm``, nothing in them waits for ever for what was lost: they have no
    autograd contexts, and no call without a limit of time."""
    drawing = _Drawing(choices, home, workers, calm)
    acts = drawing.acts("acts")
    # Now and then what comes of them would depend on how long a message takes, or would be a hang:
    # then what is at their end is left out, until it does not.
    while acts:
        try:
            check_acts(acts, home, workers, "acts")
        except ActError:
            acts = acts[:-1]
        else:
            return acts
    return (Act(kind="told", acts=(Act(kind="sync", worker=home),)),)


class _Drawing:
    """Acts while they are drawn, and the circumstances in which the next one will be done."""

    def __init__(self, choices: Choices, home: int, workers: int, calm: bool) -> None:
        self._choices = choices
        self._workers = workers
        self._left = _MOST
        self._depth = 0
        self._on = home
        #: whether there is a tensor of a context, and whether there is a context at all
        self._in_context = False
        self._covered = False
        self._calm = calm
        self._in_creation = False
        self._inner = False

    def worker(self) -> int:
        others: list[int] = [*range(self._on + 1, self._workers), *range(self._on + 1)]
        return self._choices.pick("worker", others)

    def seconds(self) -> float:
        return self._choices.choice("seconds", _WAITS_S)

    def limit_s(self) -> float | None:
        limit_s = self._choices.choice("limit", _LIMITS_S)
        return limit_s if self._calm or limit_s != 0 else None

    def integer(self, name: str, lo: int, hi: int) -> int:
        return self._choices.integer(name, lo, hi)

    def chance(self, name: str, probability: float) -> bool:
        return self._choices.chance(name, probability)

    def how(self) -> How:
        return self._choices.choice("how", _HOWS)

    def acts(
        self,
        name: str,
        *,
        least: int = 1,
        on: int | None = None,
        in_context: bool | None = None,
        in_creation: bool | None = None,
        inner: bool | None = None,
    ) -> tuple[Act, ...]:
        outside = (self._on, self._in_context, self._covered, self._in_creation, self._inner)
        self._on = self._on if on is None else on
        self._in_context = self._in_context if in_context is None else in_context
        self._covered |= self._in_context
        self._in_creation = self._in_creation if in_creation is None else in_creation
        self._inner = self._inner if inner is None else inner
        self._depth += 1
        try:
            count = self._choices.integer(name, least, _MOST_IN_A_LIST)
            drawn = [self._choices.group("act", self._draw) for _ in range(count)]
        finally:
            self._depth -= 1
            (
                self._on,
                self._in_context,
                self._covered,
                self._in_creation,
                self._inner,
            ) = outside
        return tuple(act for act in drawn if act is not None)

    def _draw(self) -> Act | None:
        if not self._left:
            return None
        self._left -= 1
        usable = {
            name: kind
            for name, kind in kinds().items()
            if self._fits(kind) and not ("acts" in kind.takes and self._is_too_deep(kind))
        }
        if self._in_creation and self._choices.chance("with the reference", _WITH_IT):
            usable = {name: kind for name, kind in usable.items() if kind.in_creation} or usable
        kinds_often = [name for name, kind in usable.items() for _ in range(kind.weight)]
        return usable[self._choices.pick("kind", kinds_often)].draw(self)

    def _is_too_deep(self, kind: ActKind) -> bool:
        """Whether no acts may be in one of this kind. What uses a reference may be one deeper than what
        makes it."""
        return self._depth >= _DEEPEST + kind.in_creation

    def _fits(self, kind: ActKind) -> bool:
        return (
            (kind.in_context is None or kind.in_context == self._in_context)
            and (kind.in_context is not False or not self._covered)
            and (kind.name != CONTEXT or self._calm)
            and (self._in_creation or not kind.in_creation)
            and (kind.inner or not self._inner)
        )
