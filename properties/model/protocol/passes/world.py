"""What bounds an exploration of contexts and passes, and a state of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from squall.model.protocol.passes.state import Context


class World(NamedTuple):
    """What bounds an exploration."""

    workers: int = 2
    contexts: int = 1
    #: autograd messages of each context
    pairs: int = 2
    #: of each context
    passes: int = 1
    #: that may happen: see ``FAULTS`` in :mod:`squall.model.protocol.passes.faults`
    faults: int = 0
    #: whether programs keep to what FAST mode asks: see :func:`may` in
    #: :mod:`squall.properties.model.protocol.passes.explore`
    careful: bool = True


@dataclass(slots=True, eq=False)
class State:
    """A state of a world: its contexts, and the faults that may still come."""

    contexts: list[Context]
    faults: int = 0

    def key(self) -> tuple[object, ...]:
        """Equal for equal states."""
        return (self.faults, *(each.key() for each in self.contexts))


def initial(world: World) -> State:
    """Nothing has been made yet."""
    return State([Context() for _ in range(world.contexts)], world.faults)
