"""What a campaign makes of its failures by itself: each kind is made small once, beside the leases or
after them, and the kinds that were found here before are looked for again."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from squall.model.events.failure_place import place_of
from squall.model.events.run import Violation
from squall.sim.campaigns.parts.diff import DIFFERENCE, differences
from squall.sim.campaigns.row import Key
from squall.sim.diff.known import known_rules
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.file import name_of
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.replay_with_mutant import again, planted
from squall.sim.search.shrink.shrinker import NotFailingError, Shrinker
from squall.sim.stock.shared import close_fork_servers
from squall.sim.world import interrupts
from squall.sim.world.sandbox import Contained, end_with_parent

#: real seconds for one run
RUN_S = 60.0
#: seconds for making a kind small; real ones that all of a task may take, as a multiple of what it
#: may use: where others have the machine, and where leases have it first
SHRINK_S, _MORE, _MORE_BESIDE = 60.0, 4, 20
_LOOK_S = 0.25
#: what is added to the niceness of a process beside leases: it gets a tenth of what one of them gets
_NICER = 10


class Task(NamedTuple):
    """A scenario of a kind: whether the kind shows in it, and, with ``shrink``, a smaller one."""

    key: Key
    scenario: Scenario
    shrink: bool = False


class Triaged(NamedTuple):
    """What came of a task. ``shows`` None: nobody knows, since the process has ended.

    ``scenario``: the smallest that was found, if it was made small;
    ``events``: of its run. ``known``: of the engine ``torch``, the rules that predict it.
    """

    key: Key
    shows: bool | None
    scenario: Scenario | None = None
    events: int = 0
    known: tuple[str, ...] = ()


class Triage:
    """Tasks, each in a process of its own. ``seconds``: for making one small, :data:`SHRINK_S` by
    default. ``on_done`` gets what has come of each. For the main thread."""

    def __init__(
        self,
        *,
        seconds: float | None = None,
        on_done: Callable[[Triaged], object] = lambda triaged: None,
    ) -> None:
        self._seconds = SHRINK_S if seconds is None else seconds
        self._on_done = on_done
        self._waiting: deque[Task] = deque()
        self._running: dict[Connection, tuple[Task, Contained, float]] = {}

    @property
    def left(self) -> int:
        return len(self._waiting) + len(self._running)

    def add(self, task: Task) -> None:
        self._waiting.append(task)

    def step(self, jobs: int, wait_s: float = 0.0, *, beside: bool = False) -> None:
        """Have at most so many under way, and see to those that are done. ``beside``: leases come
        first, so these processes get what is left of the machine."""
        while self._waiting and len(self._running) < jobs:
            self._start(self._waiting.popleft(), beside=beside)
        if not self._running:
            return
        wait(list(self._running), wait_s)
        for connection, (task, copy, until) in list(self._running.items()):
            done = Triaged(task.key, None)
            if connection.poll():
                with suppress(EOFError, ConnectionError):
                    done = connection.recv()
            elif time.monotonic() < until:
                continue
            del self._running[connection]
            copy.end()
            with interrupts.deferred():
                self._on_done(done)

    def finish(self, jobs: int, on_look: Callable[[int], object] = lambda left: None) -> None:
        """All that is left. ``on_look`` is called several times a second, with how many that are.
        An interrupt raises KeyboardInterrupt; what was done was told."""
        with interrupts.heard():
            while self.left:
                interrupts.check()
                on_look(self.left)
                self.step(jobs, _LOOK_S)

    def close(self) -> None:
        """End what is under way."""
        self._waiting.clear()
        while self._running:
            _, (_, copy, _) = self._running.popitem()
            copy.end()

    def _start(self, task: Task, *, beside: bool) -> None:
        copy = Contained(_work, task, self._seconds, _NICER if beside else 0)
        used = RUN_S + task.shrink * self._seconds
        until = time.monotonic() + used * (_MORE_BESIDE if beside else _MORE)
        self._running[copy.connection] = (task, copy, until)


def _work(connection: Connection, task: Task, seconds: float, nicer: int) -> None:
    end_with_parent()
    os.nice(nicer)
    logging.disable(logging.CRITICAL)
    try:
        connection.send(_done(task, seconds))
    finally:
        close_fork_servers()


def _done(task: Task, seconds: float) -> Triaged:
    scenario, key = task.scenario, task.key
    found = shown(scenario, key)
    if found is None:
        return Triaged(key, shows=False)
    known: tuple[str, ...] = ()
    if key[0] != DIFFERENCE:  # one is what no rule predicts
        with campaign_settings():
            known = known_rules(scenario)
    done = Triaged(key, shows=True, events=found, known=known)
    if not task.shrink:
        return done
    small = made_small(scenario, key, seconds)
    after = None if small is None else shown(small, key)
    if after is None:
        return done
    return done._replace(scenario=small, events=after)


def shown(scenario: Scenario, key: Key) -> int | None:
    """The events of a run in which a kind shows, 0 where two engines differ; None if it does not show. For the main
    thread."""
    if key[0] == DIFFERENCE:
        with campaign_settings(), planted(scenario.expected.mutant):
            return 0 if _differing(key, scenario) else None
    plain = Expected(mutant=scenario.expected.mutant)
    if key[0] == "determinism":  # which a replay only looks at where it is to be expected
        plain = replace(plain, property=key[0])
    run = again(replace(scenario, expected=plain), seconds=RUN_S)
    kinds = ((each.property, each.what, place_of(run, each)) for each in run.violations)
    return len(run.records) if key in kinds else None


def made_small(scenario: Scenario, key: Key, seconds: float) -> Scenario | None:
    """The smallest that ``seconds`` have found in which the kind shows at that place; the time is
    that of this process, if all work is done in it. None if it does not show any more."""
    alone = ENGINES[scenario.engine].in_this_process and key[0] != DIFFERENCE
    expected = replace(scenario.expected, property=key[0], what=key[1])
    shrinker = Shrinker(
        replace(scenario, expected=expected),
        seconds=seconds,
        clock=time.process_time if alone else time.monotonic,
        place=key[2],
        wrong=partial(_differing, key) if key[0] == DIFFERENCE else None,
    )
    try:
        return shrinker.run()
    except NotFailingError:
        return None


def _differing(key: Key, scenario: Scenario) -> list[Violation]:
    """Those of a kind in which the engines differ in that scenario."""
    return [each for each, at in differences(scenario) if (*each[:2], at) == key]


def same(kinds: dict[Key, Scenario]) -> dict[Key, Key]:
    """Of kinds whose small scenarios are the same run, all but the first: which the first is."""
    first: dict[str, Key] = {}
    found = {}
    for key, scenario in kinds.items():
        other = first.setdefault(name_of(scenario), key)
        if other != key:
            found[key] = other
    return found
