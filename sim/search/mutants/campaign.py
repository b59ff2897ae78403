"""Campaigns against planted bugs: how soon does which property notice?

Each mutant gets a process of its own (see trial.py), in which the scenarios of ``squall fuzz`` run
with the bug planted, the distilled cover first and then seeds from 0 on, until one fails or the
time is up: scenarios without faults, or, for a bug that only faults bring out, those of each
profile of faults in turn. Before it, another process plays the stored scenarios of the corpus, and
what comes of them is told apart. What hangs or dies there is contained. Time is that of a core: what other processes take of the machine does not
count.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType

from squall.model.events.run import Violation
from squall.sim.scenario import Scenario
from squall.sim.scenarios.patch import PatchError
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.result import CRASH, HANG, Result, TrialPart
from squall.sim.search.mutants.trial import (
    Ended,
    Limits,
    Problem,
    Starting,
    attack,
    failure_of,
)
from squall.sim.world import interrupts
from squall.sim.world.sandbox import Contained

#: seconds that one scenario may take before it counts as a hang; and seconds of real time, for
#: one that waits for something outside
HANG_S, BLOCKED_S = 10.0, 120.0
#: real seconds for each second of a campaign, where others take the rest of the machine
SHARED = 8.0
#: real seconds between two looks at processes that send nothing
_LOOK_S = 0.25
#: signals that no bug of ``real/`` sends
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def run_mutants(
    mutants: Iterable[Mutant],
    limits: Limits = Limits(),  # noqa: B008 - it never changes
    *,
    jobs: int = 1,
    on_result: Callable[[Result], object] | None = None,
) -> list[Result]:
    """A campaign within ``limits`` against each mutant; results in the order of ``mutants``.

    ``on_result`` is called as each campaign ends. An interrupt, or a request to terminate, ends all
    campaigns, and those that have ended are returned. For the main thread.
    """
    chosen = list(mutants)
    results: dict[str, Result] = {}
    campaigns = results_of(chosen, limits, jobs)
    with (
        interrupts.heard(),
        contextlib.suppress(KeyboardInterrupt),
        contextlib.closing(campaigns),
    ):
        for result in campaigns:
            results[result.mutant.name] = result
            if on_result is not None:
                with interrupts.deferred():
                    on_result(result)
            interrupts.check()
    return [results[mutant.name] for mutant in chosen if mutant.name in results]


def results_of(
    mutants: list[Mutant],
    limits: Limits,
    jobs: int,
    *,
    on_look: Callable[[], object] = lambda: None,
) -> Generator[Result, None, None]:
    """The result of each campaign as it ends, ``jobs`` at a time.

    ``on_look`` is called several times a second.
    """
    # It compiles what it imports, for a second: here, not in each process.
    import torch.distributed.optim.utils  # noqa: F401

    # All are compiled now, so that an edit of ``real/`` during the campaign changes none.
    waiting: deque[tuple[Result, CodeType]] = deque()
    for mutant in mutants:
        try:
            waiting.append((Result(mutant), mutant.code()))
        except PatchError as error:
            yield Result(mutant, problem=str(error))
    running: dict[Connection, _Trial] = {}

    def start(trial: _Trial) -> None:
        running[trial.copy.connection] = trial

    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                result, code = waiting.popleft()
                stored = limits.stored(result.mutant)
                if stored:
                    result.corpus = TrialPart()
                    start(_Trial(result, result.corpus, code, stored, limits))
                else:
                    start(_campaign(result, code, limits))
            interrupts.check()
            on_look()
            for connection in wait(list(running), _LOOK_S):
                assert isinstance(connection, Connection)
                running[connection].receive()
            for connection, trial in list(running.items()):
                if trial.over():
                    del running[connection]
                    trial.copy.end()
                    if trial.part is trial.result.corpus and trial.result.problem is None:
                        start(_campaign(trial.result, trial.code, limits))
                    else:
                        yield trial.result
    finally:
        for trial in running.values():
            trial.copy.end()


def _campaign(result: Result, code: CodeType, limits: Limits) -> _Trial:
    return _Trial(result, result.campaign, code, limits.scenarios(result.mutant), limits)


class _Trial:
    """A process with one bug planted, as its parent sees it: for one ``part`` of its ``result``."""

    def __init__(
        self,
        result: Result,
        part: TrialPart,
        code: CodeType,
        scenarios: Iterable[Scenario],
        limits: Limits,
    ) -> None:
        self.result = result
        self.part = part
        self.code = code
        self._limits = limits
        self._started = self._heard = time.monotonic()
        self._heard_cpu_s = 0.0
        #: the scenario that it is at
        self._at: Starting | None = None
        self._killed = math.inf
        self._ended = False
        self.copy = Contained(attack, result.mutant, code, scenarios, limits)

    def receive(self) -> None:
        """Take what it has sent."""
        self._heard = time.monotonic()
        self._heard_cpu_s = _cpu_s(self.copy.pid)
        connection = self.copy.connection
        try:
            while connection.poll():
                self._take(connection.recv())
        except (EOFError, ConnectionError):
            self._ended = True

    def _take(self, sent: Starting | Ended | Problem) -> None:
        part = self.part
        match sent:
            case Problem(text):
                self.result.problem = text
            case Starting():
                self._at = sent
                part.scenarios += not part.killed
            case Ended(seconds, found):
                self._at = None
                if found is not None:
                    self._killed = min(self._killed, self._heard)
                    part.add(found, seconds)
                elif not part.killed:
                    part.seconds = seconds

    def over(self) -> bool:
        """Whether there is nothing more to expect of it."""
        if self._ended:
            if self._at is not None:
                self._died(self._at)
            return True
        now = time.monotonic()
        if self._at is not None:
            cpu_s = _cpu_s(self.copy.pid)
            if cpu_s - self._heard_cpu_s > HANG_S or now - self._heard > BLOCKED_S:
                self._showed(self._at, HANG, f"a scenario took more than {HANG_S:g} s", cpu_s)
                return True
        if (
            now - self._killed > SHARED * self._limits.smaller_s
        ):  # it may be in a scenario that hangs
            return True
        # The process ends by itself when its time is over; between two scenarios it soon sends
        # something.
        return now - self._started > SHARED * (self._limits.seconds + HANG_S)

    def _died(self, at: Starting) -> None:
        """The process ended in the middle of a scenario: by the bug, or by a signal from
        outside."""
        cpu_s = _cpu_s(self.copy.pid)
        code = self.copy.wait()
        by = signal.Signals(-code) if code < 0 else None
        if by in _FROM_OUTSIDE:
            if not self.part.killed:
                self.result.problem = f"its process was ended from outside, by {by.name}"
            return
        how = f"exit code {code}" if by is None else by.name
        self._showed(at, CRASH, f"the process died: {how}", cpu_s)

    def _showed(self, at: Starting, how: str, what: str, cpu_s: float) -> None:
        if not self.part.killed:
            seconds = self.part.seconds + max(0.0, cpu_s - self._heard_cpu_s)
            self.part.add(
                failure_of(at.scenario, [Violation(how, what, "a verdict", "none")]), seconds
            )


def _cpu_s(pid: int) -> float:
    """Seconds that a process has had of a core; 0 where the system does not say, or it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
