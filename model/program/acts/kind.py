"""The kinds of acts: what declares them, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

from squall.model.discovery import modules_in
from squall.model.program.acts.act import Act, How
from squall.model.program.acts.executor import At

#: the values of fields that an act does not say
_DEFAULTS = {field.name: field.default for field in fields(Act) if field.name != "kind"}


class Do(Protocol):
    def __call__(self, act: Act, at: At, /) -> None: ...


class Drawing(Protocol):
    """What draws acts (model/generate/acts.py), as far as the kinds ask for it."""

    def worker(self) -> int:
        """A worker to be called."""

    def seconds(self) -> float:
        """How long something takes: whole seconds."""

    def limit_s(self) -> float | None:
        """A limit of time, which is never a whole number of seconds."""

    def integer(self, name: str, lo: int, hi: int) -> int: ...

    def chance(self, name: str, probability: float) -> bool: ...

    def how(self) -> How: ...

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
        """Some acts, done in the same circumstances as the one that is drawn but for what is
        said: ``on`` a worker, where there is a tensor of a context or not, a reference or not, in a
        callback or a hook or not."""


class ActDraw(Protocol):
    """Draws an act of the kind."""

    def __call__(self, drawing: Drawing, /) -> Act: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActKind:
    """A kind of act: its name, what it does, the fields that it looks at, and how it is drawn.

    ``in_context``: whether it needs a tensor of an autograd context where it is done (True), or
    there should be no context (False); None: either. ``in_creation``: whether it needs a reference.
    ``inner``: whether it may be done in a callback or in a hook. ``weight``: how often it is drawn,
    against the others that fit.
    """

    name: str
    do: Do
    takes: frozenset[str]
    draw: ActDraw
    in_context: bool | None
    in_creation: bool
    inner: bool
    weight: int
    module: str


_REGISTERED: dict[str, ActKind] = {}
#: the same in the order of :func:`kinds`, made anew where there are more
_in_order: dict[str, ActKind] = {}


def kinds_of(module: str) -> Callable[..., Callable[[Do], Do]]:
    """A decorator for the kinds of acts that a module declares."""

    def declare(
        name: str,
        *,
        draw: ActDraw,
        takes: Iterable[str] = (),
        in_context: bool | None = None,
        in_creation: bool = False,
        inner: bool = True,
        weight: int = 1,
    ) -> Callable[[Do], Do]:
        def register(do: Do) -> Do:
            made = ActKind(
                name=name,
                do=do,
                takes=frozenset(takes),
                draw=draw,
                in_context=in_context,
                in_creation=in_creation,
                inner=inner,
                weight=weight,
                module=module,
            )
            if _REGISTERED.setdefault(name, made) is not made:
                raise ValueError(f"there are two kinds of acts called {name!r}")
            return do

        return register

    return declare


def kinds() -> dict[str, ActKind]:
    """All kinds by name, in the order of their modules and, in a module, as declared there."""
    global _in_order
    _discover()
    if len(_in_order) != len(_REGISTERED):
        _in_order = dict(sorted(_REGISTERED.items(), key=lambda each: each[1].module))
    return _in_order


def kind_of(act: Act) -> ActKind:
    """Raises KeyError if there is no such kind."""
    _discover()
    return _REGISTERED[act.kind]


def _discover() -> None:
    if not _REGISTERED:
        modules_in("squall.model.program.acts.kinds")


def unused_fields(act: Act) -> list[tuple[str, Any]]:
    """Fields with a value at which its kind does not look."""
    takes = kind_of(act).takes
    return [
        (name, value)
        for name, default in _DEFAULTS.items()
        if name not in takes and (value := getattr(act, name)) != default
    ]


def outline(acts: Iterable[Act], indent: str = "") -> Iterator[str]:
    """The acts in lines of text: each with the fields that it has, and below it those inside."""
    for act in acts:
        said = [act.kind]
        for name, default in _DEFAULTS.items():
            value = getattr(act, name)
            if name == "worker" and name in kind_of(act).takes:
                said.append(f"worker{value}")
            elif value != default and name not in ("acts", "then", "worker"):
                said.append(f"{name}={value!r}")
        yield indent + " ".join(said)
        yield from outline(act.acts, indent + "  ")
        if act.then:
            yield f"{indent}  then"
            yield from outline(act.then, indent + "    ")
