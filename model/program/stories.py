"""Stories: short tests of the API that run beside the computation of a step, each with a known
result.

A story runs in a task of its own while its step goes on. It makes calls to one worker, perhaps
in an autograd context of its own, and tells in a line what came of them. What programs themselves
cannot show is shown here: timeouts, errors of every kind, callbacks, passes that must not begin
or must not go on.

What a story is called, the line that it must come to and the function that performs it are
declared in one place, where that function is (sim/programs/stories/):

    story = stories_of(__name__)

    @story("an echo", expected="1")
    def an_echo(to: int) -> str:
        return str(rpc.rpc_sync(to, echo, args=(1,)))

Here they are only registered: this package knows no RPC. Whoever draws, checks or reads programs
with stories has imported those modules (squall.sim.programs.stories.play), or has said what imports
them (:func:`declared_by`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict

from squall.model.program.acts.act import Act, every
from squall.model.program.acts.expected import told_alone
from squall.model.program.validated import Checked

#: the kind of a story that does acts (model/program/acts/), each in a way that has its own meaning
ACTS = "acts"
#: what performs a story: called with the worker that it is about, on the trainer's worker, it
#: tells, or gives what will tell when the worker has shut down
Perform = Callable[..., str | Callable[[], str]]
#: the line that a story must come to: a text, in which ``<to>`` stands for the worker that it is
#: about, or what makes one from the trainer's worker and that one
Expected = str | Callable[..., str]
#: what a story with many small facts tells when all of them are so
AS_IT_SHOULD_BE = "as it should be"
#: what is told of a story that raised begins so
RAISED = "it raised"
#: the text of an error that a story asked for
PLANTED = "planted in a story"
#: seconds of virtual time that a story takes at most, if it does not say
LONGEST_S = 10.0
NO_NUMBERS: Mapping[str, tuple[int, int]] = {}
#: the rank of a module that declares none: behind all that do
LAST = 1_000_000


class StoryError(RuntimeError):
    """An error that a story asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story(Checked):
    """The story called ``kind``, between the trainer's worker and ``worker``. It begins before
    operation ``before`` of its step, or at its end if the step has not so many. One of kind
    :data:`ACTS` does ``acts``. ``numbers``: how many, which and how long, in the order in which its
    kind names them; those that are missing are the least."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    kind: str
    worker: int
    before: int = 0
    acts: tuple[Act, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def handlers(self) -> int:
        """It does not say how many."""
        return 0

    @property
    def longest_s(self) -> float:
        """Of virtual time, but for that of acts."""
        return _registered()[self.kind].longest_s

    @property
    def size(self) -> int:
        return 1 + sum(1 for _ in every(self.acts))


#: how often programs are given a story
Drawn = Literal["often", "rarely", "alone", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryKind:
    """A kind of story: its name, what performs it and what must come of it.

    ``drawn``: how often; those that tell many small things at once rarely, and those that need the
    group for themselves only beside the one step of a program; never what leaves something behind.
    ``port_only``: why PyTorch's compiled engine cannot play it, in words; empty: it can.
    ``on_torch``: the rule (docs/divergences.md) by which it comes to another line there, and that
    line. ``errors``: texts one of which an error of a handler says that it
    brings about, besides :data:`PLANTED`. ``numbers``: by name, the least and the greatest that each
    may be; it is performed with them, by their names, and what is expected is made from them.
    ``longest_s``: seconds of virtual time that it takes at most. ``rank``: of its module, among
    all that declare stories.
    """

    name: str
    perform: Perform
    expected: Expected
    drawn: Drawn
    port_only: str
    on_torch: tuple[str, Expected] | None
    errors: tuple[str, ...]
    numbers: Mapping[str, tuple[int, int]]
    longest_s: float
    rank: int
    module: str


#: by name
_REGISTERED: dict[str, StoryKind] = {}
#: what imports the modules that declare stories, as long as nobody has asked for one
_TO_IMPORT: list[Callable[[], object]] = []


def declared_by(importing: Callable[[], object]) -> None:
    """Have the modules that declare stories imported when somebody first asks for one: they import torch,
    without which a file without stories can be read."""
    _TO_IMPORT.append(importing)


def _registered() -> dict[str, StoryKind]:
    while _TO_IMPORT:
        _TO_IMPORT.pop()()
    return _REGISTERED


class _Names(Sequence[str]):
    """The names of all registered kinds that ``test`` holds for: by rank and name of their
    modules, in a module in the order in which they are declared there."""

    def __init__(self, test: Callable[[StoryKind], bool]) -> None:
        self._test = test
        self._names: tuple[str, ...] = ()
        self._registered = 0

    def _found(self) -> tuple[str, ...]:
        known = _registered()
        if not known:
            raise RuntimeError(
                "no stories are registered: sim/programs/stories/play.py has to be imported before "
                "programs are drawn or read"
            )
        if self._registered != len(known):
            kinds = sorted(known.values(), key=lambda kind: (kind.rank, kind.module))
            self._names = tuple(kind.name for kind in kinds if self._test(kind))
            self._registered = len(known)
        return self._names

    def __getitem__(self, index: Any) -> Any:
        return self._found()[index]

    def __len__(self) -> int:
        return len(self._found())

    # What Sequence has for these asks for each element by itself.

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __contains__(self, name: object) -> bool:
        return name in self._found()


KINDS: Sequence[str] = _Names(lambda kind: kind.name != ACTS)
#: those that programs with stories may have
DRAWN: Sequence[str] = _Names(
    lambda kind: kind.drawn == "often" and not kind.numbers and kind.name != ACTS
)
#: those of them that have numbers, which are drawn with them
SIZED: Sequence[str] = _Names(lambda kind: kind.drawn == "often" and bool(kind.numbers))
#: those that tell many small things at once, or need the group for themselves
WIDE: Sequence[str] = _Names(lambda kind: kind.drawn != "often")
#: those of them that any program may have
RARE: Sequence[str] = _Names(lambda kind: kind.drawn == "rarely")
#: those that need the group for themselves
ALONE: Sequence[str] = _Names(lambda kind: kind.drawn == "alone")

P = TypeVar("P", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Declare:
    """Declares the stories of a module: a decorator that registers what performs one, and returns it as it is."""

    module: str
    rank: int

    def __call__(
        self,
        name: str,
        *,
        expected: Expected = AS_IT_SHOULD_BE,
        drawn: Drawn = "often",
        port_only: str = "",
        on_torch: tuple[str, Expected] | None = None,
        errors: tuple[str, ...] = (),
        numbers: Mapping[str, tuple[int, int]] = NO_NUMBERS,
        longest_s: float = LONGEST_S,
    ) -> Callable[[P], P]:
        """What it is given is that of :class:`StoryKind`. Raises ValueError if there is a story of that name."""

        def register(perform: P) -> P:
            kind = StoryKind(
                name=name,
                perform=perform,
                expected=expected,
                drawn=drawn,
                port_only=port_only,
                on_torch=on_torch,
                errors=errors,
                numbers=numbers,
                longest_s=longest_s,
                rank=self.rank,
                module=self.module,
            )
            if _REGISTERED.setdefault(name, kind) is not kind:
                raise ValueError(f"there are two stories called {name!r}")
            return perform

        return register


def stories_of(module: str, *, rank: int = LAST) -> Declare:
    """Declares the stories of a module."""
    return Declare(module, rank)


def port_only() -> dict[str, str]:
    """Stories that PyTorch's compiled engine cannot play: why not, by name."""
    return {name: kind.port_only for name, kind in _registered().items() if kind.port_only}


def rules_on_torch() -> set[str]:
    """The rules by which stories come to another line on PyTorch's engine."""
    return {kind.on_torch[0] for kind in _registered().values() if kind.on_torch is not None}


def on_torch(story: Story, home: int) -> tuple[str, str] | None:
    """The rule and the line of a story that comes to another one on the compiled engine."""
    known = _registered()[story.kind].on_torch
    return None if known is None else (known[0], _line(known[1], story, home))


def perform_of(kind: str) -> Perform:
    """What performs a story of this kind. Raises KeyError if there is none."""
    return _registered()[kind].perform


def errors(stories: Iterable[Story]) -> list[str]:
    """An error of a handler that one of the stories brings about says one of these."""
    kinds = dict.fromkeys(story.kind for story in stories)
    return [PLANTED, *(text for kind in kinds for text in _registered()[kind].errors)]


def expected(story: Story, home: int) -> str:
    """The line that a story of a trainer on worker ``home`` must come to."""
    if story.kind == ACTS:
        return as_line(told_alone(story.acts, home).lines)
    return _line(_registered()[story.kind].expected, story, home)


def as_line(lines: Iterable[str]) -> str:
    """What acts told, as a story tells it."""
    return "; ".join(lines) or "nothing"


def _line(line: Expected, story: Story, home: int) -> str:
    return (
        line.replace("<to>", str(story.worker))
        if isinstance(line, str)
        else line(home, story.worker, **numbers_of(story))
    )


def numbers_of(story: Story) -> dict[str, int]:
    """The numbers of a story, by their names."""
    found = {name: least for name, (least, _) in _registered()[story.kind].numbers.items()}
    return {**found, **dict(zip(found, story.numbers, strict=False))}


def ranges_of(kind: str) -> Mapping[str, tuple[int, int]]:
    """The least and the greatest of each number of a kind, by name."""
    return _registered()[kind].numbers
