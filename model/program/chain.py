"""Chains of references: one made from the other, and few of them kept.

A chain goes on beside a step. It makes a reference to a number, sends it around, makes further ones
from it, and asks for the number at the end. Each reference is a temporary: unless a link ``holds``
it, nobody refers to it any more while the call that it is given to, its fetch, its fork or its
creation is under way. What a chain must come to is the sum of what its links add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field

from squall.model.program.choices import Choices
from squall.model.program.validated import Checked, plain

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

#: how the first reference is made
Origin = Literal[
    "remote",  # rpc.remote: the number is on ``worker``
    "slow",  # the same, by a function that takes a while
    "returned",  # a function on ``worker`` returns a reference to what it has
    "elsewhere",  # a function on ``via`` returns a reference that it has made on ``worker``
    "own",  # a reference to a number of the trainer's worker
]
#: how one reference is made from the one before
LinkKind = Literal[
    "pass",  # a worker is given it and gives it back
    "pass_async",  # the same by rpc_async, which nobody waits for at first
    "add",  # a worker is given it, fetches the number, and keeps one more as a new reference
    "proxy",  # its owner makes one more a new reference: rref.remote().plus(1)
    "store",  # a worker keeps it for a while, and gives it back when it is asked
    "twice",  # a worker is given it two times in one message, and gives back the second
]
#: what is done with the last reference
Ending = Literal[
    "to_here",  # the number is fetched
    "proxy_sync",  # rref.rpc_sync().get()
    "proxy_async",  # rref.rpc_async().get().wait()
    "proxy_remote",  # rref.remote().get().to_here()
    "there",  # a worker is given it and fetches the number
    "dropped",  # nobody asks
]

#: links that make the number one more
ADDING = frozenset(("add", "proxy"))
_ORIGINS: tuple[Origin, ...] = get_args(Origin)
_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
_ENDINGS: tuple[Ending, ...] = get_args(Ending)
_MOST_LINKS = 4
_MOST_READERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Checked):
    """How one reference is made from the one before, by ``worker`` if one has to do with it.
    ``holds``: the trainer keeps the one before until the end."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    kind: LinkKind = "pass"
    worker: int = 0
    holds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Checked):
    """References, from one made on ``worker`` to the last, with which ``ending`` is done.

    ``readers``: workers that are given the last one at the same time, each of which fetches the
    number; it is dropped at once. ``waits``: each reference has its value before it goes on.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    #: the field of a step that has such, how many at most, and how many programs have some
    field: ClassVar[str] = "chains"
    most: ClassVar[int] = 3
    often: ClassVar[float] = 0.25

    worker: int
    before: int = 0
    origin: Origin = "remote"
    via: tuple[int, ...] = ()
    number: Annotated[int, Field(ge=0, le=1000)] = 0
    links: Annotated[tuple[Link, ...], Field(max_length=20)] = ()
    readers: Annotated[tuple[int, ...], Field(max_length=20)] = ()
    ending: Ending = "to_here"
    waits: bool = False

    @property
    def last_number(self) -> int:
        """The number that the last reference refers to."""
        return self.number + sum(link.kind in ADDING for link in self.links)

    @property
    def handlers(self) -> int:
        """It has readers; and what makes the last of its references may wait for the others."""
        return 1 + self.size

    @property
    def longest_s(self) -> float:
        return 1.0

    @property
    def size(self) -> int:
        return 1 + len(self.links) + len(self.readers)

    def wrong(self) -> str | None:
        wrong = self.origin == "elsewhere" and len(self.via) != 1
        return f"via: there is one worker on the way, not {len(self.via)}" if wrong else None

    def plain(self) -> dict[str, Any]:
        """The chain as plain values: what a script can have."""
        links = tuple((link.kind, link.worker, link.holds) for link in self.links)
        return {**plain(self), "links": links, "expected": self.last_number}

    @classmethod
    def drawn(cls, choices: Choices, workers: list[int], most_before: int) -> Chain:
        """One that is drawn; the first of ``workers`` is the trainer's own."""

        def link() -> Link:
            return Link(
                kind=choices.pick("kind", _KINDS),
                worker=choices.pick("worker", workers),
                holds=choices.chance("holds", 0.2),
            )

        origin = choices.pick("origin", _ORIGINS)
        links = [
            choices.group("link", link) for _ in range(choices.integer("links", 0, _MOST_LINKS))
        ]
        readers = choices.integer("readers", 0, _MOST_READERS)
        return cls(
            worker=choices.pick("worker", workers),
            before=choices.integer("before", 0, most_before),
            origin=origin,
            via=(choices.pick("via", workers),) if origin == "elsewhere" else (),
            number=choices.integer("number", 0, 20),
            links=tuple(links),
            readers=tuple(
                choices.group("reader", partial(choices.pick, "worker", workers))
                for _ in range(readers)
            ),
            ending=choices.pick("ending", _ENDINGS),
        )

    def for_compiled(self) -> Chain:
        """With values that are there before their references go on: on PyTorch's engine a reference
        that is handed on within its owner before it is created has none (home-before-creation)."""
        return replace(self, waits=True)
