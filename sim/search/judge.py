"""Judges scenarios: each is run on workers and in one process, and checked.

The same seeds give the same verdicts in the same order, however many processes share the work.
"""

from __future__ import annotations

import io
import signal
from array import array
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from itertools import islice
from multiprocessing import active_children, get_context
from typing import NamedTuple

import torch

import squall.sim.engines.port
import squall.sim.programs.run  # noqa: F401  what runs programs, for processes that are copied of this one
from squall.model.checks.registry import check
from squall.model.checks.scripts import counted
from squall.model.coverage.behaviour import facts_of, pairs_of
from squall.model.coverage.features import features
from squall.model.coverage.sometimes import sometimes
from squall.model.events.failure_place import place_of
from squall.model.events.fault_effects import faults_of
from squall.model.events.predicted_hangs import explain
from squall.model.events.run import Run, Violation
from squall.model.one_process.interpreter import interpret
from squall.sim.names import GROUPS
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.play import ahead, play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.search.schedules import Rescheduled, names_a_seed
from squall.sim.world import interrupts
from squall.sim.world.garbage import keep_still, settle
from squall.sim.world.huge_pages import use_huge_pages
from squall.sim.world.real_time import TooLongError, time_limit

#: one seed in so many is run twice, and the second run compared with the first as it goes
REPEAT_EVERY = 100
#: seconds of real time that a scenario may take, of its own process (sim/world/real_time.py)
TIMEOUT_S = 60.0
#: scenarios that a process is given at a time
_CHUNK = 8
#: scenarios of a process that are over before huge pages have saved what they cost
_FEW = 100

#: what is judged: a seed, whose scenario is drawn first, also with another schedule, or a scenario
Source = int | Rescheduled | Scenario


class Verdict(NamedTuple):
    """What became of a scenario.

    ``scenario``: kept if something does not hold, and None else. ``features``: those that its
    program has, if they were asked for. ``hangs``: a line for each send function that is never
    fed. ``digest``: if it was run more than once or failed, else empty. ``name``: that of the
    scenario, if it is not a seed's own.
    """

    seed: int
    violations: tuple[Violation, ...]
    scenario: Scenario | None = None
    hangs: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    digest: str = ""
    events: int = 0
    #: rare situations that the run reached, and how often each kind of fault happened
    sometimes: tuple[str, ...] = ()
    faults: tuple[tuple[str, int], ...] = ()
    name: str = ""
    #: how often checks gave up, by excuse
    excused: tuple[tuple[str, int], ...] = ()
    #: what the run showed (model/coverage/behaviour.py), if that was asked for: words of 64 bits
    facts: bytes = b""
    #: where the first violation shows (model/events/failure_place.py)
    place: str = ""

    @property
    def ok(self) -> bool:
        return not self.violations

    @property
    def of_cover(self) -> bool:
        """Whether the scenario is a seed's with another schedule."""
        return bool(self.name) and names_a_seed(self.name)


def drawn_ahead(sources: Iterable[Source], settings: Settings) -> Iterator[Source]:
    """The scenarios of seeds, drawn and run in one process several at a time: that takes half the
    time, since the code stays in the processor's caches. Where drawing raises, the seed itself."""
    left = iter(sources)
    while chunk := list(islice(left, _CHUNK)):
        drawn: deque[Source] = deque()
        with suppress(Exception):
            drawn.extend(
                source if isinstance(source, Scenario) else draw(source, settings)
                for source in chunk
            )
        ahead.clear()
        for each in drawn:
            if isinstance(each, Scenario) and each.program is not None:
                with suppress(Exception):  # it is raised where the scenario is played
                    ahead[id(each)] = (each, interpret(each.program))
        for source in chunk:
            yield drawn.popleft() if drawn else source


def judge(source: Source, settings: Settings = Settings()) -> Verdict:  # noqa: B008
    """Play a scenario and check everything."""
    settle()
    scenario = source if isinstance(source, Scenario) else draw(source, settings)
    twice = settings.twice or scenario.seed % REPEAT_EVERY == 0
    run = play(scenario, times=2 if twice else 1, stdout=io.StringIO(), stderr=io.StringIO())
    program = scenario.program
    found = features(program) if settings.stats and program is not None else {}
    violations = tuple(counted(run, check(run)))
    return Verdict(
        scenario.seed,
        violations,
        scenario if violations else None,
        tuple(explain(run)) if run.hangs and scenario.engine == "port" else (),
        tuple(name for name, times in found.items() if times),
        run.digest if violations or run.judged.digests else "",
        len(run.records),
        tuple(sorted(sometimes(run))) if settings.stats else (),
        tuple(sorted(faults_of(run).counts.items())),
        _name(source),
        tuple(sorted((run.judged.excused + Counter(run.judged.excuses)).items())),
        _facts(run, found) if settings.stats else b"",
        place_of(run, violations[0]) if violations else "",
    )


def _facts(run: Run, features: Mapping[str, int]) -> bytes:
    facts = facts_of(run.records) | pairs_of(name for name, times in features.items() if times)
    return array("Q", sorted(facts)).tobytes()


def _name(source: Source) -> str:
    if isinstance(source, Scenario):
        name = source.note.removeprefix(GROUPS)
        return "" if name.isdigit() else name
    return "" if isinstance(source, int) else str(source)


# -- many scenarios -------------------------------------------------------------------------------


def judge_in_time(source: Source, settings: Settings = Settings()) -> Verdict:  # noqa: B008
    """As :func:`judge`, ended after :data:`TIMEOUT_S`. For the main thread."""
    engine = ENGINES[settings.engine]
    try:
        engine.ready()
        with time_limit(TIMEOUT_S, elsewhere=not engine.in_this_process):
            verdict = judge(source, settings)
        interrupts.check()  # a run that has caught an interrupt is no verdict
        return verdict
    except TooLongError:
        seen = f"it was still running after {TIMEOUT_S:g} s of real time"
    except (Exception, SystemExit) as error:  # so broken a run that it could not be judged
        seen = f"{type(error).__name__}: {error}"
    interrupts.check()
    violation = Violation("progress", "the run broke off", "an end", seen)
    name = _name(source)
    if isinstance(source, Scenario):
        return Verdict(source.seed, (violation,), source, name=name)
    seed = source if isinstance(source, int) else source.seed
    with suppress(Exception):
        return Verdict(seed, (violation,), draw(source, settings), name=name)
    return Verdict(seed, (violation,), name=name)


def judge_all(
    sources: Iterable[Source],
    settings: Settings = Settings(),  # noqa: B008
    *,
    jobs: int = 1,
) -> Generator[Verdict, None, None]:
    """The verdicts on all, in their order.

    After an interrupt come those that other processes have reached, and then KeyboardInterrupt.
    """
    if jobs == 1:
        with campaign_settings(settings.device):
            for judged, source in enumerate(drawn_ahead(sources, settings)):
                # Not in a pool: what its processes share would be 120 MiB of each one's own.
                if judged == _FEW and ENGINES[settings.engine].in_this_process:
                    use_huge_pages()
                yield judge_in_time(source, settings)
        return
    # A process that has used CUDA cannot be copied; one that has not starts at once that way.
    context = get_context("spawn" if settings.device == "cuda" else "fork")
    left = iter(sources)
    running: deque[Future[list[Verdict]]] = deque()
    others = {child.pid for child in active_children()}
    with ProcessPoolExecutor(jobs, context, _ignore_interrupts) as pool:
        try:
            while True:
                interrupts.check()
                while len(running) < 2 * jobs and (chunk := list(islice(left, _CHUNK))):
                    with interrupts.deferred():  # what a signal raises in a fork is lost
                        running.append(pool.submit(_judge_chunk, chunk, settings))
                    interrupts.check()
                if not running:
                    return
                verdicts = running[0].result()
                running.popleft()
                yield from verdicts
        except KeyboardInterrupt:
            for future in running:
                if future.done() and future.exception() is None:
                    yield from future.result()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            # The others would be waited for, and what they are at may take a minute.
            for child in active_children():
                if child.pid not in others:
                    child.kill()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    keep_still()


def _judge_chunk(sources: list[Source], settings: Settings) -> list[Verdict]:
    with campaign_settings(settings.device):
        return [judge_in_time(source, settings) for source in drawn_ahead(sources, settings)]
