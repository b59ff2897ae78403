"""Campaigns against planted bugs: how soon does which property notice?

Each mutant gets a process of its own, in which the scenarios of ``squall fuzz`` run with the bug
planted, from seed 0 on, until one fails or the time is up: scenarios without faults, or, for a bug
that only faults bring out, those of each profile of faults in turn. What hangs or dies there is
contained.
Time is that of a core: what other processes take of the machine does not count.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import math
import os
import selectors
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from squall.sim.search.draw import draw, settings_of
from squall.sim.search.mutants.clean_process import CleanProcess
from squall.sim.search.mutants.mutant import Mutant, MutantError

#: seconds that one scenario may take before it counts as a hang; and seconds of real time, for
#: one that waits for something outside
HANG_S, BLOCKED_S = 10.0, 120.0
#: real seconds for each second of a campaign, where others take the rest of the machine
SHARED = 8.0
#: seconds to look for a smaller scenario that fails too
SMALLER_S = 1.0
#: what stands for a property where the process itself showed the bug
HANG, CRASH = "hang", "crash"
#: signals that no bug of ``real/`` sends
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class Found(NamedTuple):
    """A scenario that fails: by what, and how large its program is. ``profile``: of its faults,
    "" if it has none."""

    seed: int
    profile: str
    properties: tuple[str, ...]
    what: str
    ops: int
    workers: int


@dataclass
class Result:
    """What a campaign against one mutant came to."""

    mutant: Mutant
    #: scenarios until the first failure, it included, or until time was up
    scenarios: int = 0
    #: of one core, in all of these
    seconds: float = 0.0
    first: Found | None = None
    smallest: Found | None = None
    #: all properties that any failing scenario broke
    properties: dict[str, None] = field(default_factory=dict)
    #: why there is no verdict: the process could not do its work
    problem: str | None = None

    @property
    def killed(self) -> bool:
        return self.first is not None

    @property
    def by(self) -> str | None:
        """The property that failed first."""
        return self.first.properties[0] if self.first is not None else None

    @property
    def replay(self) -> str | None:
        """A command line that shows the smallest failing scenario."""
        if self.smallest is None:
            return None
        seed, profile = self.smallest.seed, self.smallest.profile
        faults = f" --faults {profile}" if profile else ""
        return f"squall mutants {self.mutant.name} --seeds {seed}:{seed + 1}{faults}"

    def to_json(self) -> dict[str, Any]:
        mutant, smallest = self.mutant, self.smallest
        return {
            "name": mutant.name,
            "killed": self.killed,
            "by": self.by,
            "what": self.first.what if self.first is not None else None,
            "properties": list(self.properties),
            "scenarios": self.scenarios,
            "seconds": round(self.seconds, 3),
            "expected": mutant.expected,
            "origin": mutant.origin,
            "needs": mutant.needs,
            "smallest": None
            if smallest is None
            else {
                "seed": smallest.seed,
                "faults": smallest.profile or None,
                "ops": smallest.ops,
                "workers": smallest.workers,
            },
            "replay": self.replay,
            "problem": self.problem,
        }


def load_mutants() -> dict[str, Mutant]:
    """All mutants by name. They live beside the tests, which nothing here may need otherwise."""
    mutants: dict[str, Mutant] = importlib.import_module(
        "squall.sim.search.mutants.planted"
    ).MUTANTS
    return mutants


def run_mutants(
    mutants: Iterable[Mutant],
    *,
    seconds: float = 60.0,
    jobs: int = 1,
    seeds: Sequence[int] | None = None,
    profile: str | None = None,
    on_result: Callable[[Result], object] | None = None,
) -> list[Result]:
    """A campaign of ``seconds`` at most against each mutant; results in the order of ``mutants``.

    ``seeds``: None tries all of them from 0 on. ``profile``: of the faults; None leaves it to what
    the mutant needs. ``on_result`` is called as each campaign ends. An
    interrupt, or a request to terminate, ends all campaigns, and those that have ended are
    returned. For the main thread.
    """
    chosen = list(mutants)
    order = {mutant.name: index for index, mutant in enumerate(chosen)}
    # All at once, so that who edits ``real/`` meanwhile changes no mutant.
    waiting: list[tuple[Mutant, CodeType]] = []
    # Imported before the first fork, and not run here: children start clean and at once.
    import torch.distributed.optim.utils  # noqa: F401 - which compiles what it imports

    import squall.sim.search.judge  # noqa: F401

    results: list[Result] = []
    for mutant in chosen:
        try:
            waiting.append((mutant, mutant.code()))
        except MutantError as error:
            results.append(Result(mutant, problem=str(error)))
            if on_result is not None:
                on_result(results[-1])
    running: dict[int, _Child] = {}
    selector = selectors.DefaultSelector()

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    terminated = signal.signal(signal.SIGTERM, interrupt)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                child = _Child(*waiting.pop(0), seconds, seeds, profile)
                running[child.pipe] = child
                selector.register(child.pipe, selectors.EVENT_READ)
            for key, _ in selector.select(timeout=0.25):
                child = running[key.fd]
                child.read()
            for child in list(running.values()):
                if child.over():
                    selector.unregister(child.pipe)
                    del running[child.pipe]
                    child.end()
                    results.append(child.result)
                    if on_result is not None:
                        on_result(child.result)
    except KeyboardInterrupt:
        pass
    finally:
        for child in running.values():
            child.end()
        selector.close()
        signal.signal(signal.SIGTERM, terminated)
    return sorted(results, key=lambda result: order[result.mutant.name])


class _Child:
    """A process with one bug planted, as its parent sees it."""

    def __init__(
        self,
        mutant: Mutant,
        code: CodeType,
        seconds: float,
        seeds: Sequence[int] | None,
        profile: str | None,
    ) -> None:
        self.result = Result(mutant)
        self._seconds = seconds
        self._started = time.monotonic()
        self._heard = self._started
        self._heard_cpu_s = 0.0
        #: the profile and the seed of the scenario that it is at
        self._at: tuple[str, int] | None = None
        self._killed = math.inf
        self._unread = b""
        self._closed = self._gone = False
        self.pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.pipe)
            _serve(mutant, code, writing, seconds, _worlds(mutant, seeds, profile))
        os.close(writing)

    def read(self) -> None:
        """Take what the child has said."""
        part = os.read(self.pipe, 1 << 16)
        if not part:
            self._closed = True
            return
        self._heard = time.monotonic()
        self._heard_cpu_s = _cpu_s(self._pid)
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, said: Mapping[str, Any]) -> None:
        result = self.result
        if "problem" in said:
            result.problem = said["problem"]
        elif "starting" in said:
            profile, seed = said["starting"]
            self._at = (profile, seed)
            if not result.killed:
                result.scenarios += 1
        elif "found" in said:
            found = Found(*said["found"])
            self._found(found._replace(properties=tuple(found.properties)), said["seconds"])
        else:
            self._at = None
            if not result.killed:
                result.seconds = said["seconds"]

    def _found(self, found: Found, seconds: float) -> None:
        result = self.result
        self._at = None
        result.properties.update(dict.fromkeys(found.properties))
        if result.first is None:
            result.first = result.smallest = found
            result.seconds = seconds
            self._killed = time.monotonic()
            return
        assert result.smallest is not None
        if (found.ops, found.workers) < (result.smallest.ops, result.smallest.workers):
            result.smallest = found

    def over(self) -> bool:
        """Whether there is nothing more to expect of it."""
        if self._closed:
            if self._at is not None:
                self._ended()
            return True
        now = time.monotonic()
        if self._at is not None and (
            _cpu_s(self._pid) - self._heard_cpu_s > HANG_S or now - self._heard > BLOCKED_S
        ):
            self._died(HANG, f"a scenario took more than {HANG_S:g} s")
            return True
        if now - self._killed > SHARED * SMALLER_S:  # it may be in a scenario that hangs
            return True
        # The child keeps to its time itself; between two scenarios it is never silent for long.
        return now - self._started > SHARED * (self._seconds + HANG_S)

    def _ended(self) -> None:
        """It ended in the middle of a scenario: by the bug, or because somebody ended it."""
        _, status = os.waitpid(self._pid, 0)
        self._gone = True
        by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if by in _FROM_OUTSIDE:
            if not self.result.killed:
                self.result.problem = f"its process was ended from outside, by {_name(by)}"
            return
        how = _name(by) if by else f"exit code {os.waitstatus_to_exitcode(status)}"
        self._died(CRASH, f"the process died: {how}")

    def _died(self, how: str, what: str) -> None:
        assert self._at is not None
        if not self.result.killed:
            found = _found(*self._at, (how,), what)
            self._found(found, self.result.seconds + _cpu_s(self._pid) - self._heard_cpu_s)

    def end(self) -> None:
        """Make sure that it is gone."""
        if not self._gone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self.pipe)


def _cpu_s(pid: int) -> float:
    """Seconds that a process has had of a core; 0 where the system does not say, or it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _name(signum: int) -> str:
    return signal.Signals(signum).name


def _worlds(
    mutant: Mutant, seeds: Sequence[int] | None, profile: str | None
) -> Iterator[tuple[str, int]]:
    """The profile and the seed of one scenario after the other."""
    from squall.sim.search.draw import PROFILES

    profiles: tuple[str, ...] = PROFILES if mutant.needs_faults else ("",)
    if profile is not None:
        profiles = (profile,)
    for seed in count() if seeds is None else seeds:
        for each in profiles:
            yield each, seed


def _found(profile: str, seed: int, names: tuple[str, ...], what: str) -> Found:
    scenario = draw(seed, settings_of(profile))
    ops, workers = scenario.operations or 0, scenario.workers or 0
    return Found(seed, profile, names, what[:300], ops, workers)


def _serve(
    mutant: Mutant,
    code: CodeType,
    pipe: int,
    seconds: float,
    worlds: Iterator[tuple[str, int]],
) -> None:
    """What the child does. Never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        logging.disable(logging.CRITICAL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)

        def say(**facts: object) -> None:
            os.write(pipe, json.dumps(facts).encode() + b"\n")

        try:
            _attack(say, seconds, worlds, lambda: mutant.apply(code))
        except Exception as error:
            say(problem=f"{type(error).__name__}: {error}")
        status = 0
    finally:
        os._exit(status)


def _attack(
    say: Callable[..., None],
    seconds: float,
    worlds: Iterator[tuple[str, int]],
    planted: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.search.judge import judge

    started = time.process_time()
    until = started + seconds
    found = False
    clean_process = CleanProcess()
    with campaign_settings():
        for profile, seed in worlds:
            say(starting=(profile, seed))
            with planted():
                try:
                    violations = judge(seed, settings_of(profile)).violations
                    names = tuple(dict.fromkeys(violation.property for violation in violations))
                    what = str(violations[0]) if violations else ""
                except Exception as error:  # the run was so broken that it could not be judged
                    names, what = (CRASH,), f"{type(error).__name__}: {error}"
            now = time.process_time()
            # What fails without the bug too says nothing about it.
            if names and clean_process.holds(profile, seed):
                say(found=_found(profile, seed, names, what), seconds=now - started)
                if not found:
                    found = True
                    until = min(until, now + SMALLER_S)
            else:
                say(passed=seed, seconds=now - started)
            if now > until:
                return


# -- what it all comes to -------------------------------------------------------------------------


def median_seconds(results: Iterable[Result]) -> float | None:
    """Of those that were killed."""
    seconds = [result.seconds for result in results if result.killed]
    return statistics.median(seconds) if seconds else None


def only_killers(results: Iterable[Result]) -> dict[str, list[str]]:
    """By property, the mutants that it alone noticed."""
    from squall.model.checks.registry import PROPERTIES

    found: dict[str, list[str]] = {property.name: [] for property in PROPERTIES}
    for result in results:
        if len(result.properties) == 1:
            found.setdefault(next(iter(result.properties)), []).append(result.mutant.name)
    return found
