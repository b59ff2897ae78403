"""What a seed stands for, and what becomes of it: its scenario, run on workers and checked.

A seed is a scenario: it gives the program and the world it runs in. The same seeds give the same
verdicts in the same order, however many processes share the work.
"""

from __future__ import annotations

import logging
import random
import signal
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import get_context
from typing import NamedTuple, cast

import torch

from squall.model.checks.registry import check
from squall.model.coverage.features import features
from squall.model.coverage.sometimes import sometimes
from squall.model.events.fault_effects import faults_of
from squall.model.events.hangs import explain
from squall.model.events.run import Run, Violation
from squall.model.generate.choices import SeededChoices
from squall.model.generate.generator import generate
from squall.model.generate.rounds import draw_round, is_round, shuts_down_early
from squall.model.one_process.interpreter import interpret
from squall.model.program.program import Program, computation_of
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.sim.faults.file import fitting
from squall.sim.faults.plan import NO_FAULTS, Order, Plan
from squall.sim.programs.faults import run_with_faults
from squall.sim.programs.run import ProgramRun, run_program
from squall.sim.search.draw import Profile, draw_world
from squall.sim.world.device import quiet_torch
from squall.sim.world.garbage import keep_still, settle, still_garbage
from squall.sim.world.real_time import TooLongError, time_limit
from squall.sim.world.trace import digest_of
from squall.sim.world.watch import Comparer, Diverged, Divergence, Recorder, watching

#: one scenario in so many is run twice, and the second run compared with the first as it goes
REPEAT_EVERY = 100
#: steps of the scheduler that a scenario may take; the largest takes some thousands
MAX_STEPS = 400_000
#: frames that are kept of each step of a run that is run again; `squall replay` keeps more
_DEPTH = 6
#: seconds of real time that a scenario may take, of its own process (sim/world/real_time.py)
TIMEOUT_S = 60.0
#: scenarios that a process is given at a time
_CHUNK = 8

_LATENCIES = (
    "lognormal:0.001:0.5",
    "lognormal:0.001:0.5",
    "lognormal:0.001:1.5",
    "uniform:0.0001:0.01",
    "constant:0.001",
    "0",
)
_ORDERS: tuple[Order, ...] = ("fifo", "random")
_SHUT_DOWN_EARLY = 0.25
_SKIP_HANDSHAKES = 0.9


class Scenario(NamedTuple):
    """What a seed stands for."""

    seed: int
    program: Program
    latency: str
    order: Order
    #: whether workers shut down with references in hand and work under way
    shut_down_early: bool = False
    #: whether the group begins without a round of calls, and ends, all being quiet, without one
    skip_handshakes: bool = False
    #: what is to go wrong
    plan: Plan = NO_FAULTS
    #: the profile that drew the plan, or none
    profile: str = ""
    #: seconds that a call may take by default
    rpc_timeout_s: float = DEFAULT_RPC_TIMEOUT_S
    bandwidth_bytes_per_s: float | None = None


class Verdict(NamedTuple):
    """What became of one seed. ``features``: those that its program has, if they were asked for.
    ``hangs``: a line for each send function that is never fed. ``digest``: if it was run more than
    once or failed, else empty."""

    seed: int
    violations: tuple[Violation, ...]
    hangs: tuple[str, ...]
    features: tuple[str, ...]
    digest: str
    events: int
    #: rare situations that the run reached, and how often each kind of fault happened
    sometimes: tuple[str, ...] = ()
    faults: tuple[tuple[str, int], ...] = ()

    @property
    def ok(self) -> bool:
        return not self.violations


class Given(NamedTuple):
    """What all scenarios of a campaign have in common.

    ``profile`` draws the faults of each seed (see sim/search/draw.py); ``plan`` is the same for all,
    but for what is about workers that a program does not have. ``stats``: count features and
    situations.
    """

    profile: str = ""
    plan: Plan = NO_FAULTS
    stats: bool = False
    engine: str = "port"
    #: run every scenario twice, not only one in :data:`REPEAT_EVERY`
    twice: bool = False


def scenario_of(seed: int, given: Given = Given()) -> Scenario:  # noqa: B008 - it never changes
    """The scenario of a seed."""
    if given.profile:
        drawn = draw_world(cast(Profile, given.profile), seed)
        return Scenario(
            seed,
            drawn.program,
            latency=drawn.latency,
            order="fifo",
            plan=drawn.faults,
            profile=given.profile,
            rpc_timeout_s=drawn.rpc_timeout_s,
        )
    world = random.Random(repr(("world", seed)))
    if is_round(seed) and given.engine == "port":
        program = draw_round(random.Random(seed), seed)
    else:
        program = generate(SeededChoices(random.Random(seed)))
    scenario = Scenario(
        seed,
        program,
        latency=world.choice(_LATENCIES),
        order=world.choice(_ORDERS),
        shut_down_early=world.random() < _SHUT_DOWN_EARLY or shuts_down_early(seed),
        skip_handshakes=world.random() < _SKIP_HANDSHAKES,
    )
    if given.plan:
        # What workers exchange beside it would not be run (sim/programs/faults.py).
        scenario = scenario._replace(
            program=computation_of(program),
            plan=fitting(given.plan, program.workers),
            shut_down_early=False,
            skip_handshakes=False,
        )
    return scenario


def play(scenario: Scenario, *, times: int = 1) -> Run:
    """Run a scenario in one process and on workers, the latter ``times`` times (once or twice).

    A second run is compared with the first as it goes, and stopped where it parts from it
    (:attr:`Run.divergence`). What no program should cause is in :attr:`Run.crash` of what comes
    back.
    """
    program = scenario.program
    expected = interpret(program)
    if times == 1:
        played, divergence = _run_once(scenario), None
        digests = []
    else:
        first = Recorder(depth=_DEPTH)
        with watching(first):
            played = _run_once(scenario)
        digests = [played.cluster.trace.digest()]
        divergence = _run_again(scenario, first)
        first.steps.clear()  # what is left of the run refers to it in circles
        if divergence is None:
            digests.append(digests[0])
    return Run(
        played.cluster.trace.records,
        program,
        expected,
        played.outcome,
        ended_s=played.cluster.runtime.now(),
        waits=played.waits,
        waiting=played.waiting,
        crash=played.crash,
        digests=tuple(digests),
        divergence=None if divergence is None else str(divergence),
        recovery=played.recovery,
    )


def _run_once(scenario: Scenario) -> ProgramRun:
    if scenario.plan:
        return run_with_faults(
            scenario.program,
            scenario.plan,
            raises=False,
            seed=scenario.seed,
            latency=scenario.latency,
            bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s,
            order=scenario.order,
            rpc_timeout_s=scenario.rpc_timeout_s,
            skip_handshakes=scenario.skip_handshakes,
            max_steps=MAX_STEPS,
        )
    return run_program(
        scenario.program,
        raises=False,
        seed=scenario.seed,
        latency=scenario.latency,
        bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s,
        order=scenario.order,
        faults=scenario.plan,
        rpc_timeout_s=scenario.rpc_timeout_s,
        shut_down_early=scenario.shut_down_early,
        skip_handshakes=scenario.skip_handshakes,
        max_steps=MAX_STEPS,
    )


def _run_again(scenario: Scenario, first: Recorder) -> Divergence | None:
    """Where a second run parts from the first, if it does."""
    comparer = Comparer(first.steps)
    try:
        with watching(comparer):
            _run_once(scenario)
        comparer.finish()
    except Diverged as diverged:
        return diverged.divergence
    return None


def drawn_ahead(seeds: Iterable[int], given: Given) -> Iterator[tuple[int, Scenario | None]]:
    """Seeds with their scenarios, several of which are drawn in one go: what draws them stays in
    the processor's caches, and that takes half the time. None where drawing raises something."""
    left = iter(seeds)
    while chunk := list(islice(left, _CHUNK)):
        drawn: deque[Scenario] = deque()
        with suppress(Exception):
            drawn.extend(scenario_of(seed, given) for seed in chunk)
        for seed in chunk:
            yield seed, drawn.popleft() if drawn else None


def judge(
    seed: int,
    given: Given = Given(),  # noqa: B008 - it never changes
    scenario: Scenario | None = None,
) -> Verdict:
    """Play the scenario of a seed, if that has not been drawn yet, and check everything."""
    settle()
    if scenario is None:
        scenario = scenario_of(seed, given)
    if given.engine == "torch":
        from squall.sim.stock.play import judge_native

        return judge_native(scenario)
    run = play(scenario, times=2 if given.twice or seed % REPEAT_EVERY == 0 else 1)
    found = features(scenario.program) if given.stats else {}
    violations = tuple(check(run))
    return Verdict(
        seed,
        violations,
        tuple(explain(run)) if run.hangs else (),
        tuple(name for name, times in found.items() if times),
        run.digests[0] if run.digests else digest_of(run.records) if violations else "",
        len(run.records),
        tuple(sorted(sometimes(run))) if given.stats else (),
        tuple(sorted(faults_of(run).counts.items())),
    )


# -- many seeds -----------------------------------------------------------------------------------


@contextmanager
def campaign_settings(device: str = "cpu") -> Iterator[None]:
    """One thread, one device, no log, no warning and no automatic collection of garbage: for a
    process that judges many seeds."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with quiet_torch(device), still_garbage(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def judge_in_time(
    seed: int,
    given: Given = Given(),  # noqa: B008
    scenario: Scenario | None = None,
) -> Verdict:
    """As :func:`judge`, ended after :data:`TIMEOUT_S`. For the main thread."""
    try:
        with time_limit(TIMEOUT_S, elsewhere=given.engine == "torch"):
            return judge(seed, given, scenario)
    except TooLongError:
        seen = f"it was still running after {TIMEOUT_S:g} s of real time"
    except (Exception, SystemExit) as error:  # so broken a run that it could not be judged
        seen = f"{type(error).__name__}: {error}"
    violation = Violation("progress", "the run broke off", "an end", seen)
    return Verdict(seed, (violation,), (), (), "", 0)


def judge_all(
    seeds: Iterable[int],
    given: Given = Given(),  # noqa: B008
    *,
    jobs: int = 1,
    device: str = "cpu",
) -> Generator[Verdict, None, None]:
    """The verdicts on all seeds, in their order."""
    if jobs == 1:
        with campaign_settings(device):
            for seed, scenario in drawn_ahead(seeds, given):
                yield judge_in_time(seed, given, scenario)
        return
    # A process that has used CUDA cannot be copied; one that has not starts at once that way.
    context = get_context("spawn" if device == "cuda" else "fork")
    left = iter(seeds)
    running: deque[Future[list[Verdict]]] = deque()
    with ProcessPoolExecutor(jobs, context, _ignore_interrupts) as pool:
        try:
            while True:
                while len(running) < 2 * jobs and (chunk := list(islice(left, _CHUNK))):
                    running.append(pool.submit(_judge_chunk, chunk, device, given))
                if not running:
                    return
                yield from running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    keep_still()


def _judge_chunk(seeds: list[int], device: str, given: Given) -> list[Verdict]:
    with campaign_settings(device):
        return [
            judge_in_time(seed, given, scenario) for seed, scenario in drawn_ahead(seeds, given)
        ]
