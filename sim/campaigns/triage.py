"""What a campaign makes of its failures by itself, once no lease is left: each kind is made small once,
and the kinds that were found here before are looked for again."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from squall.model.events.run import Run, Violation
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.file import name_of
from squall.sim.search.again import again
from squall.sim.search.shrink.shrinker import Shrinker
from squall.sim.world import interrupts
from squall.sim.world.contained import Contained, end_with_parent

#: real seconds for making a kind small, and for one run; more, where others have the machine
SHRINK_S, _RUN_S, _MORE = 60.0, 60.0, 4
_LOOK_S = 0.25
Key = tuple[str, str]


class Task(NamedTuple):
    """A scenario of a kind: whether the kind shows in it, and, with ``shrink``, a smaller one."""

    key: Key
    scenario: Scenario
    shrink: bool = False


class Triaged(NamedTuple):
    """What came of a task. ``shows`` None: nobody knows, since the process has ended.

    ``place``: the events that show what broke, without numbers. ``scenario``: the smallest that was
    found, if it was made small; ``events``: of its run.
    """

    key: Key
    shows: bool | None
    place: str = ""
    scenario: Scenario | None = None
    events: int = 0


def triage(
    tasks: Iterable[Task],
    *,
    jobs: int = 1,
    seconds: float = SHRINK_S,
    on_done: Callable[[Triaged], object] = lambda triaged: None,
    on_look: Callable[[int], object] = lambda left: None,
) -> None:
    """Each in a process of its own, ``jobs`` at a time. ``seconds``: for making one small.

    ``on_look`` is called several times a second, with how many are left. An interrupt raises
    KeyboardInterrupt; what was done was told. For the main thread.
    """
    waiting = deque(tasks)
    running: dict[Connection, tuple[Task, Contained, float]] = {}
    with interrupts.heard():
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    task = waiting.popleft()
                    copy = Contained(_work, task, seconds)
                    until = time.monotonic() + _MORE * (_RUN_S + task.shrink * seconds)
                    running[copy.connection] = (task, copy, until)
                interrupts.check()
                on_look(len(waiting) + len(running))
                wait(list(running), _LOOK_S)
                for connection, (task, copy, until) in list(running.items()):
                    done = Triaged(task.key, None)
                    if connection.poll():
                        with suppress(EOFError, ConnectionError):
                            done = connection.recv()
                    elif time.monotonic() < until:
                        continue
                    del running[connection]
                    copy.end()
                    with interrupts.deferred():
                        on_done(done)
        finally:
            for _, copy, _ in running.values():
                copy.end()


def _work(connection: Connection, task: Task, seconds: float) -> None:
    end_with_parent()
    logging.disable(logging.CRITICAL)
    scenario, run, found = task.scenario, *_shown(task.scenario, task.key)
    if found is None:
        connection.send(Triaged(task.key, shows=False))
        return
    small = None
    if task.shrink:
        small = Shrinker(scenario, seconds=seconds).run()
        run, again_found = _shown(small, task.key)
        found = again_found or found
    connection.send(Triaged(task.key, True, place_of(run, found), small, len(run.records)))


def _shown(scenario: Scenario, key: Key) -> tuple[Run, Violation | None]:
    """A run of the scenario, and the violation of that kind, if there is one."""
    plain = Expected(mutant=scenario.expected.mutant)
    if key[0] == "determinism":  # which a replay only looks at where it is to be expected
        plain = replace(plain, property=key[0])
    run = again(replace(scenario, expected=plain), seconds=_RUN_S)
    found = [each for each in run.violations if (each.property, each.what) == key]
    return run, found[0] if found else None


def place_of(run: Run, violation: Violation) -> str:
    """The first and the last event that show it, by their types, without ids and numbers; "" if it
    cites none."""
    numbers = [number for number in violation.events if number < len(run.records)]
    names = [_named(run, number) for number in (*numbers[:1], *numbers[-1:])]
    return " … ".join(dict.fromkeys(names))


def _named(run: Run, number: int) -> str:
    _, _, _, type, values = run.records[number]
    if "type" in type.fields:
        return f"{type.name} {values[type.fields.index('type')]}"
    return str(type.name)


def same(kinds: dict[Key, Scenario]) -> dict[Key, Key]:
    """Of kinds whose small scenarios are the same run, all but the first: which the first is."""
    first: dict[str, Key] = {}
    found = {}
    for key, scenario in kinds.items():
        other = first.setdefault(name_of(scenario), key)
        if other != key:
            found[key] = other
    return found
