"""Scenarios that campaigns run first, by name: every story once, about other workers and at home. They reach
situations that random programs seldom do.

A story with numbers is drawn with other ones each time, and is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from squall.sim.names import EngineName

if TYPE_CHECKING:
    from squall.model.program.program import Program
    from squall.sim.scenario import Scenario
    from squall.sim.search.draw import Settings

AT_HOME, AWAY = "stories-at-home", "stories-away"
_TORCH = "torch-"
#: by name: the engine, and whether stories are about the trainer's own worker
_NAMES: dict[str, tuple[EngineName, bool]] = {
    AT_HOME: ("port", True),
    AWAY: ("port", False),
    _TORCH + AT_HOME: ("torch", True),
    _TORCH + AWAY: ("torch", False),
}
#: whose errors keep references to values of another worker alive on the compiled engine (failed-future-keeps-frames)
_LEFT_BEHIND = frozenset({"proxies"})
_WORKERS, _STEPS = 3, 3


def names() -> list[str]:
    """The names of all of them, in their order; none of them is made."""
    return list(_NAMES)


@cache
def corpus() -> dict[str, Scenario]:
    """All of them, in the order of their names; each has its name as its note."""
    return {name: _scenario(name, *how) for name, how in _NAMES.items()}


def corpus_for(settings: Settings) -> list[Scenario]:
    """Those that a campaign with these settings runs first: none of trainings, none under faults, nor on the
    stand-in device, where not all that they do can be done."""
    if (
        settings.groups
        or settings.profile is not None
        or settings.plan
        or settings.device == "stand-in"
    ):
        return []
    return [
        scenario.in_world(device=settings.device)
        for scenario in corpus().values()
        if scenario.engine == settings.engine
    ]


def _scenario(name: str, engine: EngineName, at_home: bool) -> Scenario:
    import squall.sim.programs.stories.play  # noqa: F401  registers the stories
    from squall.model.program.stories import DRAWN, WIDE, port_only
    from squall.sim.faults.plan import Plan, Schedule
    from squall.sim.scenario import Scenario, World

    port = engine == "port"
    # On the compiled engine what programs draw is met soon enough.
    left_out = {*port_only(), *(() if at_home else _LEFT_BEHIND)}
    kinds = [*DRAWN, *WIDE] if port else [kind for kind in WIDE if kind not in left_out]
    disturbed = port and not at_home
    world = World(
        latency="lognormal:0.001:1.5" if disturbed else "constant:0.001",
        faults=Plan(schedule=Schedule(order="random")) if disturbed else Plan(),
        shut_down_early=port is not at_home,
        skip_handshakes=True,
    )
    work = _with_stories(kinds, at_home, trainers=(0, 2) if port else (0,))
    return Scenario(work=work, seed=13, engine=engine, world=world, note=name)


def _with_stories(kinds: Sequence[str], at_home: bool, trainers: tuple[int, ...]) -> Program:
    """Each of ``kinds`` once, spread over the steps of all trainers, at their beginnings and between their calls."""
    from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
    from squall.model.program.stories import Story

    def stories(trainer: int, number: int) -> tuple[Story, ...]:
        first = trainers.index(trainer) * _STEPS + number
        return tuple(
            Story(
                kind=kind,
                worker=trainer if at_home else (trainer + 1 + place % (_WORKERS - 1)) % _WORKERS,
                before=place % 2,
            )
            for place, kind in enumerate(kinds[first :: _STEPS * len(trainers)])
        )

    def step(trainer: int, number: int) -> Step:
        there = (trainer + 1) % _WORKERS
        return Step(
            ops=(
                Op(kind="scale", inputs=(Input(1),), worker=there, call="sync", factor=2),
                Op(kind="total", inputs=(Input(1),), worker=trainer),
            ),
            backwards=(Backward(roots=(1,)),),
            stories=stories(trainer, number),
        )

    return Program(
        workers=_WORKERS,
        leaves=(Leaf(owner=0, shape=(2,)), Leaf(owner=2, shape=(2,), seed=2)),
        trainers=tuple(
            Trainer(worker=trainer, steps=tuple(step(trainer, each) for each in range(_STEPS)))
            for trainer in trainers
        ),
    )
