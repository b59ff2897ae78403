"""Small worlds: programs of a few calls, each of which reaches another part of the protocols.

What ``squall mutants --explore`` explores with a bug planted, in this order, the smallest first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import squall.model.program.check
import squall.sim.programs.stories.play  # noqa: F401  stories are known
from squall.model.program.chain import Chain, Link
from squall.model.program.program import (
    Backward,
    Ending,
    Input,
    Leaf,
    Op,
    Optimizer,
    Program,
    Step,
    Trainer,
)
from squall.sim.scenario import Scenario, World
from squall.sim.world.controlled_time import Grain


class SmallWorld(NamedTuple):
    """A scenario, in words what it is, and the grains in which it can be explored.

    ``seconds``: real time for which each grain of it is explored once all short ways to a failure
    have been tried, in all worlds; ``faulty_seconds``: the same with each fault that it can have.
    """

    name: str
    about: str
    scenario: Scenario
    grains: tuple[Grain, ...] = ("message", "task")
    seconds: float = 2.0
    faulty_seconds: float = 0.0


_LEAVES = (Leaf(owner=0, seed=1),)
#: one on each of two workers
_TWO_LEAVES = (Leaf(owner=0, seed=1), Leaf(owner=1, seed=2))


def _op(kind: str, *inputs: int | Input, on: int = 0, call: str = "local", **options: Any) -> Op:
    """An operation; a number is how far back an input is."""
    given = tuple(each if isinstance(each, Input) else Input(back=each) for each in inputs)
    return Op(kind=kind, inputs=given, worker=on, call=call, factor=2, **options)  # type: ignore[arg-type]


def _remote(on: int = 1, *, back: int = 1, keep: str = "use") -> Op:
    return _op("scale", back, on=on, call="remote", keep=keep)


def _given(back: int, on: int, call: str = "sync", how: str = "rref", **options: Any) -> Op:
    """An operation on a value of which a worker is given a reference."""
    return _op("scale", Input(back=back, how=how), on=on, call=call, **options)  # type: ignore[arg-type]


def _world(
    name: str,
    about: str,
    workers: int,
    *ops: Op,
    backwards: tuple[Backward, ...] = (),
    leaves: tuple[Leaf, ...] = _LEAVES,
    grains: tuple[Grain, ...] = ("message", "task"),
    early: bool = False,
    **options: Any,
) -> SmallWorld:
    trainer = Trainer(worker=0, steps=(Step(ops=ops, backwards=backwards, **options),))
    return _of(name, about, workers, trainer, leaves=leaves, grains=grains, early=early)


def _of(
    name: str,
    about: str,
    workers: int,
    *trainers: Trainer,
    leaves: tuple[Leaf, ...] = _LEAVES,
    grains: tuple[Grain, ...] = ("message", "task"),
    early: bool = False,
    **options: Any,
) -> SmallWorld:
    program = Program(workers=workers, leaves=leaves, trainers=trainers, **options)
    world = World(skip_handshakes=True, shut_down_early=early)
    return SmallWorld(name, about, Scenario(work=program, world=world), grains)


_PASS = (_op("scale", 1, on=1, call="sync"), _op("total", 1))
_BACK = (Backward(roots=(1,)),)
#: a call to worker 1 that raises, and nobody asks
_NOBODY_WAITS = _op("scale", 1, on=1, call="async", fails_first="raises", fails_by="async")
_DIAMOND = (
    _op("scale", 1, on=1, call="async"),
    _op("scale", 2, on=2, call="async"),
    _op("total", 1, 2),
)


#: in the order of their size
WORLDS: tuple[SmallWorld, ...] = (
    _world("a call", "worker 0 calls worker 1", 2, _op("scale", 1, on=1, call="sync")),
    _world(
        "two calls",
        "two calls at once",
        2,
        _op("scale", 1, on=1, call="async"),
        _op("scale", 2, on=1, call="async"),
    ),
    _world(
        "a reference",
        "a value made on worker 1, fetched, dropped",
        2,
        _remote(),
        _op("total", 1),
    ),
    _world(
        "a dropped reference",
        "a value made on worker 1, and nobody asks",
        2,
        _remote(keep="now"),
    ),
    _world("a pass", "a call in a context, and a pass", 2, *_PASS, backwards=_BACK),
    _world(
        "two passes",
        "a call in a context, and two passes, one after the other",
        2,
        *_PASS,
        backwards=(Backward(roots=(1,), times=2),),
    ),
    _world(
        "two passes at once",
        "a call in a context, and two passes at the same time",
        2,
        *_PASS,
        backwards=(Backward(roots=(1,), times=2, every_s=0.0, may_fail=True),),
    ),
    _world(
        "a call that fails",
        "a call in a context is under way as another one fails, and the context is left",
        2,
        _op("scale", 1, on=1, call="async"),
        _op("scale", 2, on=1, call="sync", fault="udf"),
        retry=True,
    ),
    _world(
        "a pass that fails",
        "the pass fails on worker 1",
        2,
        _op("scale", 1, on=1, call="sync", fault="backward"),
        _op("total", 1),
        backwards=_BACK,
        retry=True,
    ),
    _world(
        "a reference given back",
        "a function on worker 1 is given a reference to a value of its own",
        2,
        _remote(),
        _given(1, 1),
    ),
    _world(
        "a shared reference",
        "a value made on worker 1, of which worker 2 is given a reference",
        3,
        _remote(),
        _given(1, 2),
    ),
    _world(
        "a reference of its own",
        "worker 1 is given a reference to a value of worker 0",
        2,
        _op("scale", 1, call="rref", keep="use"),
        _given(1, 1),
    ),
    _world(
        "two references",
        "two values made on worker 1, of which worker 2 is given references",
        3,
        _remote(),
        _remote(back=2),
        _op("add", Input(back=1, how="rref"), Input(back=2, how="rref"), on=2, call="sync"),
    ),
    _world(
        "a reference shared twice",
        "a value made on worker 1, of which worker 2 is given references by two calls",
        3,
        _remote(),
        _given(1, 2, "async"),
        _given(2, 2, "async"),
    ),
    _world(
        "a reference that is passed on",
        "worker 2 makes a value on worker 1 and returns the reference",
        3,
        _op("scale", 1, call="local"),
        chains=(Chain(worker=1, origin="elsewhere", via=(2,)),),
    ),
    _world(
        "a reference that goes around",
        "a value made on worker 1; worker 2 is given the reference and gives it back",
        3,
        _op("scale", 1, call="local"),
        chains=(Chain(worker=1, links=(Link(kind="pass", worker=2),)),),
    ),
    _world(
        "a stored reference",
        "worker 2 keeps a reference for a while",
        3,
        _op("scale", 1, call="local"),
        chains=(Chain(worker=1, links=(Link(kind="store", worker=2),), ending="dropped"),),
    ),
    _world(
        "a slow value",
        "a value that takes a while, of which worker 2 is given a reference",
        3,
        _op("scale", 1, call="local"),
        chains=(Chain(worker=1, origin="slow", ending="there", readers=(2,)),),
    ),
    _world(
        "a proxy",
        "a method of an object on worker 1, whose result stays there",
        2,
        _op("scale", 1, on=1, call="helper_remote", keep="use"),
        _op("total", 1),
    ),
    _world(
        "a proxy of a slow value",
        "a method of a value that takes a while, by way of its reference",
        2,
        _op("scale", 1, call="local"),
        chains=(
            Chain(
                worker=1,
                origin="slow",
                links=(Link(kind="proxy", worker=1),),
                ending="proxy_sync",
            ),
        ),
    ),
    _world("a diamond", "a pass over two workers", 3, *_DIAMOND, backwards=_BACK),
    _world(
        "a diamond that fails",
        "a pass over two workers fails on one of them",
        3,
        _op("scale", 1, on=1, call="async", fault="backward"),
        *_DIAMOND[1:],
        backwards=_BACK,
        retry=True,
    ),
    _world(
        "a pass in a row",
        "a call to worker 2 by way of worker 1, and a pass",
        3,
        _op("scale", 1, on=2, call="sync", via=(1,)),
        _op("total", 1),
        backwards=_BACK,
    ),
    _of(
        "two trainers",
        "two workers train at the same time, each with the leaf of the other",
        2,
        Trainer(
            worker=0,
            steps=(
                Step(ops=(_op("scale", 1, on=1, call="sync"), _op("total", 1)), backwards=_BACK),
            ),
        ),
        Trainer(
            worker=1,
            steps=(
                Step(
                    ops=(_op("scale", 2, on=0, call="sync"), _op("total", 1, on=1)),
                    backwards=_BACK,
                ),
            ),
        ),
        leaves=_TWO_LEAVES,
    ),
    _of(
        "an optimizer",
        "a pass, and a step of an optimizer with parameters on worker 1",
        2,
        Trainer(
            worker=0,
            steps=(Step(ops=_PASS, backwards=_BACK, optimize=True),),
            optimizer=Optimizer(leaves=(0,)),
        ),
        leaves=(Leaf(owner=1, seed=1),),
    ),
    _of(
        "an exchange",
        "three workers exchange objects, twice",
        3,
        Trainer(worker=0, steps=(Step(ops=(_op("scale", 1),)),)),
        gathers=2,
    ),
    _of(
        "two groups",
        "a reference in one group, and a call in the next one",
        2,
        Trainer(
            worker=0,
            steps=(
                Step(ops=(_remote(keep="program"),)),
                Step(ops=(_op("scale", 1, on=1, call="sync"),), group=1),
            ),
        ),
        endings=(Ending(),),
        grains=("task",),
    ),
    _of(
        "a group that is left",
        "a reference, and workers that leave at once",
        2,
        Trainer(
            worker=0,
            steps=(
                Step(ops=(_remote(keep="program"),)),
                Step(ops=(_op("scale", 1, on=1, call="sync"),), group=1),
            ),
        ),
        endings=(Ending(graceful=False),),
        grains=("task",),
    ),
    _of(
        "a group that is left at work",
        "a call that nobody waits for, and workers that leave at once",
        2,
        Trainer(
            worker=0,
            steps=(
                Step(ops=(_NOBODY_WAITS,)),
                Step(ops=(_op("scale", 1, on=1, call="sync"),), group=1),
            ),
        ),
        endings=(Ending(graceful=False),),
        grains=("task",),
    ),
    _world(
        "an early end at work",
        "workers leave as soon as they have done their part, while a call is under way for "
        "which nobody waits",
        2,
        _NOBODY_WAITS,
        early=True,
        grains=("task",),
    ),
    _world(
        "an early end",
        "workers leave as soon as they have done their part, while a reference is kept",
        2,
        _remote(keep="program"),
        early=True,
        grains=("task",),
    ),
    _world(
        "an early end of three",
        "the same with a reference that worker 2 keeps",
        3,
        _remote(keep="program"),
        _given(1, 2, "async", "kept_rref"),
        early=True,
        grains=("task",),
    ),
)
