"""The choices of many executions as a tree: what could go next at each point, and what was tried.

    tree = ChoiceTree()
    explored = explore(lambda chooser: subject(tree.watching(chooser)))

For pictures of small explorations: everything stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from squall.model.events.names import type_named
from squall.sim.world.controlled_time import Chooser, Dependence, Entry, Footprint, Grain
from squall.sim.world.delivery import Delivery
from squall.sim.world.primitives import SimTask


@dataclass
class Choice:
    """A point of some executions at which something had to go next.

    ``enabled``: what could go, as name and words, in the order in which the chooser saw it.
    ``tried``: by name, what each led to. ``ended``: how many executions ended here.
    """

    enabled: tuple[tuple[int, str], ...] = ()
    tried: dict[int, Choice] = field(default_factory=dict)
    ended: int = 0

    @property
    def left_out(self) -> int:
        """How many of those that could go were never tried."""
        return len(self.enabled) - len(self.tried)

    def walk(self) -> Iterator[Choice]:
        """This choice and all after it."""
        yield self
        for after in self.tried.values():
            yield from after.walk()


class ChoiceTree:
    """Collects the choices of executions. ``root``: the first choice, which all of them share."""

    def __init__(self) -> None:
        self.root = Choice()
        #: where the last execution has come to
        self._at: Choice | None = None

    def watching(self, chooser: Chooser) -> Chooser:
        """A chooser for the next execution that does what ``chooser`` does."""
        self.over()
        self._at = self.root
        return _Watching(self, chooser)

    def over(self) -> ChoiceTree:
        """The last execution is over: note where it ended."""
        if self._at is not None:
            self._at.ended += 1
            self._at = None
        return self

    def chosen(self, enabled: Sequence[Entry], name: int) -> None:
        """In the execution that goes on, ``name`` went next of what was enabled."""
        here = self._at
        assert here is not None
        if not here.enabled:
            here.enabled = tuple((each.name, in_words(each)) for each in enabled)
        self._at = here.tried.setdefault(name, Choice())


class _Watching:
    def __init__(self, tree: ChoiceTree, chooser: Chooser) -> None:
        self._tree = tree
        self._chooser = chooser
        self.grain: Grain = chooser.grain
        self.ordered = chooser.ordered
        self.dependence: Dependence = chooser.dependence
        self.crowded = chooser.crowded

    def choose(self, enabled: Sequence[Entry]) -> Entry:
        chosen = self._chooser.choose(enabled)
        self._tree.chosen(enabled, chosen.name)
        return chosen

    def done(self, name: int, entry: Entry | None, footprint: Footprint) -> None:
        self._chooser.done(name, entry, footprint)


def in_words(entry: Entry) -> str:
    """What an entry is: a message with its way, a task with its worker, or a timer."""
    event = entry.event
    if isinstance(event, Delivery):
        message = event.message
        return f"{type_named(message.type.name)} {message.src}→{message.dst}"
    owner = getattr(event, "worker", None)
    whose = "" if owner is None else f"{owner.name}: "
    return f"{whose}{event.name if isinstance(event, SimTask) else 'timer'}"
