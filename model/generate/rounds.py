"""Rounds: programs that do little themselves, and beside that all stories, each once.

A random program seldom has a story, and never one of the wide ones (model/program/stories.py). What only
a story tells would take hundreds of seeds to show; a round tells it at once.
"""

from __future__ import annotations

from random import Random

from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.model.program.stories import KINDS, Story

#: two seeds in so many are rounds: in one, trainers call other workers, in the next mostly their own
EVERY, AWAY, AT_HOME = 4000, 13, 15
_WORKERS = 3
#: by trainer, the worker that it is on
_HOMES = (0, 2)
_STEPS = 3


def is_round(seed: int) -> bool:
    """Whether the program of a seed is a round."""
    return seed % EVERY in (AWAY, AT_HOME)


def shuts_down_early(seed: int) -> bool:
    """Whether it is a round in which workers shut down with references left."""
    return seed % EVERY == AWAY


def draw_round(random: Random, seed: int) -> Program:
    """Every kind of story, in any order, for a seed that is a round."""
    kinds = list(KINDS)
    random.shuffle(kinds)
    places = len(_HOMES) * _STEPS
    trainers = []
    for number, home in enumerate(_HOMES):
        others = [worker for worker in range(_WORKERS) if worker != home]
        choice = others if seed % EVERY == AWAY else [home, home, *others]
        steps = []
        for step in range(_STEPS):
            stories = [
                Story(kind=kind, worker=random.choice(choice), before=random.randrange(2))
                for kind in kinds[number * _STEPS + step :: places]
            ]
            op = Op(
                kind="scale",
                inputs=(Input(back=1 + number),),
                worker=(home + 1) % _WORKERS,
                call="sync",
                factor=2,
            )
            total = Op(kind="total", inputs=(Input(back=1),), worker=home)
            backward = Backward(roots=(1,))
            steps.append(Step(ops=(op, total), backwards=(backward,), stories=tuple(stories)))
        trainers.append(Trainer(worker=home, steps=tuple(steps)))
    leaves = tuple(Leaf(owner=home, shape=(2,), seed=home) for home in _HOMES)
    return Program(workers=_WORKERS, leaves=leaves, trainers=tuple(trainers))
