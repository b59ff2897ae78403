"""Trainings that are smaller than one, the smallest first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from squall.sim.trainings.training import Talk, Training

_PLAIN = {field.name: field.default for field in fields(Training)}
#: of a talk, what each value is plainer than
_PLAIN_TALK = {
    "after": 0,
    "root": 0,
    "operator": "SUM",
    "dtype": "float64",
    "on_thread": False,
    "at_work": False,
    "large": False,
}


def smaller(training: Training) -> Iterator[Training]:
    """Each with something left out or made plainer: fewer ranks first."""
    for changes in _changes(training):
        with suppress(ValueError):  # a training with that is none
            less = replace(training, **changes)
            if less.size < training.size:
                yield less


def _changes(training: Training) -> Iterator[dict[str, Any]]:
    for ranks in range(2, training.ranks):
        yield {"ranks": ranks, **_for_ranks(training, ranks)}
    if training.talks:
        yield {"talks": ()}
    if training.wrapper != "by hand":
        yield {"wrapper": "by hand", "options": (), "schedule": "GPipe", "chunks": 2}
    for at in range(len(training.talks)):
        yield {"talks": training.talks[:at] + training.talks[at + 1 :]}
    for name in ("steps", "rounds", "optimizer", "options", "layers", "chunks"):
        yield {name: _PLAIN[name]}
    if training.steps > 1:
        yield {"steps": training.steps - 1, "talks": _until(training.talks, training.steps - 1)}
    for at in range(len(training.options)):
        yield {"options": training.options[:at] + training.options[at + 1 :]}
    for at in range(len(training.layers)):
        yield {"layers": training.layers[:at] + training.layers[at + 1 :]}
    for at, talk in enumerate(training.talks):
        for plainer in _plainer(talk):
            yield {"talks": (*training.talks[:at], plainer, *training.talks[at + 1 :])}


def _for_ranks(training: Training, ranks: int) -> dict[str, Any]:
    """What else changes where there are fewer."""
    talks = []
    for talk in training.talks:
        among = tuple(rank for rank in talk.among if rank < ranks)
        if len(among) >= 2:
            talks.append(replace(talk, among=among, root=min(talk.root, len(among) - 1)))
    changes: dict[str, Any] = {"talks": tuple(talks)}
    if training.wrapper == "pipeline":
        changes["layers"] = training.layers[: ranks * training.stages_a_rank]
    return changes


def _until(talks: tuple[Talk, ...], steps: int) -> tuple[Talk, ...]:
    return tuple(replace(talk, after=min(talk.after, steps - 1)) for talk in talks)


def _plainer(talk: Talk) -> Iterator[Talk]:
    for name, plain in _PLAIN_TALK.items():
        if getattr(talk, name) != plain:
            changes: dict[str, Any] = {name: plain}
            if name == "at_work":
                changes["on_thread"] = False
            yield replace(talk, **changes)
    for at in range(len(talk.among)):
        if len(talk.among) > 2:
            among = talk.among[:at] + talk.among[at + 1 :]
            yield replace(talk, among=among, root=min(talk.root, len(among) - 1))
