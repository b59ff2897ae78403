"""Draws chains of references (model/program/chain.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

from squall.model.generate.choices import Choices
from squall.model.program.chain import Chain, Ending, Link, LinkKind, Origin

_ORIGINS: tuple[Origin, ...] = get_args(Origin)
_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
_ENDINGS: tuple[Ending, ...] = get_args(Ending)
_MOST_LINKS = 4
_MOST_READERS = 3


def draw_chain(choices: Choices, workers: list[int], most_before: int) -> Chain:
    """Draw a chain; the first of ``workers`` is the trainer's own."""

    def link() -> Link:
        return Link(
            kind=choices.pick("kind", _KINDS),
            worker=choices.pick("worker", workers),
            holds=choices.chance("holds", 0.2),
        )

    origin = choices.pick("origin", _ORIGINS)
    links = [choices.group("link", link) for _ in range(choices.integer("links", 0, _MOST_LINKS))]
    readers = choices.integer("readers", 0, _MOST_READERS)
    return Chain(
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


def for_compiled(chain: Chain) -> Chain:
    """With values that are there before their references go on: on PyTorch's engine a reference
    that is handed on within its owner before it is created has none (home-before-creation)."""
    return replace(chain, waits=True)
