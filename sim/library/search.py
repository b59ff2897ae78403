"""``squall.fuzz``, ``replay``, ``shrink``, ``why``, ``explore`` and ``diff``: what the commands of these names do, as
functions, for functions too."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import torch

from squall.model.events.names import number_of
from squall.model.events.run import NOT_CHECKED
from squall.sim.diff.compare import Comparison, compare_engines
from squall.sim.explore.campaign import parts
from squall.sim.explore.execution import How
from squall.sim.explore.group_orders import Outcome, Sends
from squall.sim.explore.groups import explore_groups
from squall.sim.explore.search import Budget
from squall.sim.library.arguments import check_count, check_latency, check_seconds, check_seeds
from squall.sim.library.campaign import SHRINK_S, Around, Finding, search
from squall.sim.library.hypotheses import outside
from squall.sim.library.run import (
    Failed,
    FaultsGiven,
    Function,
    Run,
    must_be_outside,
    plan_of,
    profile_of,
    run_scenario,
    scenario_of,
    turn,
)
from squall.sim.library.why import WHY_S, Cause, cause_of
from squall.sim.names import EngineName
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.own import read_scenario_file
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.sources import as_now, edited
from squall.sim.scenarios.store import Store
from squall.sim.search.campaign import run_campaign
from squall.sim.search.draw import Settings, draw
from squall.sim.search.replay_with_mutant import again
from squall.sim.search.shrink.shrinker import Shrinker
from squall.sim.world.call_lines import CallLines
from squall.sim.world.controlled_time import Grain, GrainError, NotExplorableError
from squall.sim.world.watch import watching

#: what a run can be named by: a seed, a file, the name of a stored failure, or a run itself
Named = int | str | os.PathLike[str] | Run | Scenario


@dataclass(frozen=True)
class Fuzzed:
    """What a campaign has found: ``runs`` of it held. Of a function the first failure ends it, which
    is the ``finding``; of random programs ``failures`` has one of each kind. ``unchecked``: why nothing was
    checked in any of the runs, if so."""

    runs: int
    finding: Finding | None = None
    failures: tuple[Failure, ...] = ()
    unchecked: str | None = None

    @property
    def ok(self) -> bool:
        return self.finding is None and not self.failures

    def raise_if_failed(self) -> Fuzzed:
        """This. Raises :class:`squall.Failed` if a function has failed, AssertionError if a
        program has."""
        if self.finding is not None:
            raise self.finding.failed()
        if self.failures:
            raise AssertionError("\n".join(failure.text for failure in self.failures))
        return self

    def __repr__(self) -> str:
        if self.finding is not None:
            return "\n".join(
                [
                    f"<squall.Fuzzed, failed after {number_of(self.runs, 'run')}>",
                    *self.finding.lines(),
                ]
            )
        if self.unchecked is not None:
            return (
                f"<squall.Fuzzed, {number_of(self.runs, 'run')}, {NOT_CHECKED}: {self.unchecked}>"
            )
        texts = [failure.text for failure in self.failures]
        return "\n".join(
            [
                f"<squall.Fuzzed, {number_of(self.runs, 'run')}, {number_of(len(texts), 'failure')}>",
                *texts,
            ]
        )


def fuzz(
    function: Function | str | os.PathLike[str] | None = None,
    *,
    seeds: int | range = 100,
    faults: FaultsGiven = None,
    workers: int = 3,
    engine: EngineName = "port",
    latency: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    check: bool = True,
    join: str | None = None,
    strict: bool = False,
    shrink_s: float = SHRINK_S,
    on_run: Callable[[int], object] = lambda _: None,
) -> Fuzzed:
    """Run a function, or a script, under many seeds; without one, a random program for each seed.

    >>> import squall
    >>> import torch
    >>> import torch.distributed.rpc as rpc
    >>> def add(rank):
    ...     return rpc.rpc_sync("worker0", torch.add, args=(torch.ones(1), rank)).item()
    >>> squall.fuzz(add, workers=2, seeds=20, join="worker{rank}").ok
    True

    A seed draws latencies (unless ``latency`` says them), the order of what happens at one instant,
    and what goes wrong under ``faults``: a profile, or a plan for all. The first failure of a function
    is made small, which takes ``shrink_s`` seconds of real time at most, and as many what decided it
    (:class:`Cause`). Where a fault has happened
    errors of calls do not count, unless ``strict``. Other options are those of :func:`squall.run`.
    """
    must_be_outside()
    each = check_seeds(seeds)
    check_seconds("shrink_s", shrink_s)
    check_latency(latency)
    profile = profile_of(faults)
    plan = plan_of(None if profile is not None else faults)
    if function is None:
        settings = Settings(profile, plan, engine)
        with turn, outside(), campaign_settings():
            campaign = run_campaign(each, settings, first=())
        return Fuzzed(
            campaign.scenarios - campaign.failed, failures=tuple(campaign.failures.values())
        )
    around = Around(engine=engine, profile=profile, plan=plan, latency=latency, strict=strict)
    script = scenario_of(
        function, workers=workers, args=args, kwargs=kwargs, check=check, join=join
    ).script
    assert script is not None
    scenarios = (around.scenario(script, seed) for seed in each)
    runs, found, unchecked = search(scenarios, strict=strict, shrink_s=shrink_s, on_run=on_run)
    if found is not None and found.interrupted:
        raise KeyboardInterrupt
    return Fuzzed(runs, found, unchecked=unchecked)


def read(what: Named, *, allow_scripts: bool = False, now: bool = False) -> Scenario:
    """The scenario that is meant, with its files as they were, or as they are ``now``; a warning tells what was
    edited.

    A file with a script that squall has not written itself may do whatever its user may: it is
    refused, with PermissionError, unless ``allow_scripts``. Raises OSError, ValueError and
    LookupError for what is no scenario.
    """
    scenario = _read(what, allow_scripts)
    if now and scenario.script is not None:
        return as_now(scenario)
    for line in edited(scenario):
        told = f"edited since it was kept: {line} (squall.replay with now=True runs that)"
        warnings.warn(told, stacklevel=3)
    return scenario


def _read(what: Named, allow_scripts: bool) -> Scenario:
    if isinstance(what, Scenario):
        return what
    if isinstance(what, Run):
        return what.scenario
    if isinstance(what, int):
        return draw(what)
    path = _path(what)
    if not path.exists():
        kept = Store().find(str(what))
        if kept is None:
            raise LookupError(f"{str(what)!r} is no file and no stored failure (squall failures)")
        path = Path(kept.file)
    found = read_scenario_file(path)
    if not (found.own or allow_scripts):
        raise PermissionError(
            f"{path} has a Python script that squall did not write: expected allow_scripts=True, if "
            "you trust it"
        )
    return found.scenario


def _path(what: object) -> Path:
    if isinstance(what, str | os.PathLike):
        return Path(what)
    expected = "a seed, the path of a scenario file, the name of a stored failure, or a run"
    raise TypeError(f"{what!r} is a {type(what).__name__}, expected {expected}")


def replay(
    what: Named,
    *,
    engine: EngineName | None = None,
    now: bool = False,
    allow_scripts: bool = False,
) -> Run:
    """Run it again: a seed (of a random program), a file, a stored failure, or a run.

    >>> import squall
    >>> squall.replay(5).digest == squall.replay(5).digest
    True

    ``engine``: another than the scenario's. ``now``: a script or a test that was kept, with its files as they
    are now; otherwise they are as they were, and a warning tells what was edited. Raises as
    :func:`read` does.
    """
    must_be_outside()
    scenario = read(what, allow_scripts=allow_scripts, now=now)
    if engine is not None:
        scenario = replace(scenario, engine=engine, expected=Expected())
    with turn, outside():
        with watching(noted := CallLines()):
            return Run(scenario, again(scenario), noted)


def shrink(
    what: Named,
    *,
    seconds: float | None = 120,
    on_run: Callable[[int], object] = lambda _: None,
    allow_scripts: bool = False,
) -> Run:
    """The smallest scenario found in which the same thing breaks, as a run.

    ``seconds`` of real time to spend at most; None: as long as there is something to try. Raises
    ValueError if nothing is wrong, and as :func:`read` does.
    """
    must_be_outside()
    if seconds is not None:
        check_seconds("seconds", seconds)
    scenario = read(what, allow_scripts=allow_scripts)
    shrinker = Shrinker(scenario, seconds=seconds, on_progress=lambda self: on_run(self.tried))
    with turn, outside():
        shrinker.run()
        return Run(shrinker.best, again(shrinker.best))


def why(
    what: Named,
    *,
    seconds: float = WHY_S,
    on_run: Callable[[int], object] = lambda _: None,
    allow_scripts: bool = False,
) -> Cause:
    """What decided that it fails: a seed (of a random program), a file, a stored failure, or a run.

    >>> import squall
    >>> try:
    ...     squall.why(5)
    ... except ValueError as error:
    ...     print(error)
    nothing is wrong with this run

    ``seconds`` of real time to spend at most. Its text says what ``squall why`` prints. Raises ValueError if nothing
    is wrong, and as :func:`read` does.
    """
    must_be_outside()
    check_seconds("seconds", seconds)
    return cause_of(read(what, allow_scripts=allow_scripts), seconds=seconds, on_run=on_run)


@dataclass(frozen=True)
class Explored:
    """What an exploration has seen: how many ``executions``, in how many final ``states``, and
    whether those are ``all`` that can make a difference.

    ``counterexamples``: of each kind of thing that did not hold, a run that shows it. ``sends``: of what speaks in process
    groups, by what sends do (``rendezvous``, ``streams``, ``buffered``), the outcomes that some order has, each with
    who waits for whom.
    """

    executions: int
    states: int
    all: bool
    counterexamples: list[Run] = field(default_factory=list)
    sends: dict[Sends, dict[Outcome, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything held; in every order, if it is ``all``."""
        return not self.counterexamples

    def raise_if_failed(self) -> Explored:
        """This. Raises :class:`squall.Failed`."""
        for run in self.counterexamples:
            met = [
                line for ends in self.sends.values() for lines in ends.values() for line in lines
            ]
            raise Failed(run.report() or "\n".join([*map(str, run.violations), *met]), run)
        return self


def explore(
    what: Function | Named,
    *,
    workers: int = 2,
    grain: Grain = "message",
    executions: int | None = 10_000,
    seconds: float | None = None,
    one_fault: bool = False,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    join: str | None = None,
) -> Explored:
    """Run a small function, script or program in every order that can make a difference.

    >>> import squall
    >>> import torch
    >>> import torch.distributed.rpc as rpc
    >>> def add(rank):
    ...     if rank == 0:
    ...         calls = [rpc.rpc_async("worker1", torch.add, args=(n, 1)) for n in (1, 2)]
    ...         assert [call.wait() for call in calls] == [2, 3]
    >>> found = squall.explore(add, workers=2, join="worker{rank}")
    >>> found.all, found.ok
    (True, True)

    ``grain``: what is ordered, arrivals of messages ("message"), each run of a task too ("task"), or
    what tasks do between scheduling points ("fine"). ``executions`` and ``seconds`` of real time
    are the most for one exploration; with ``one_fault`` there is another for each fault that can
    happen to each message. ``what``: a function, the path of a script (``.py``), or what
    :func:`replay` takes. Raises ValueError and RuntimeError for what cannot be explored.
    """
    must_be_outside()
    if grain not in get_args(Grain):
        known = ", ".join(map(repr, get_args(Grain)))
        raise ValueError(f"grain is {grain!r}, expected one of {known}")
    if executions is not None:
        check_count("executions", executions)
    if seconds is not None:
        check_seconds("seconds", seconds)
    is_script = isinstance(what, str | os.PathLike) and Path(what).suffix == ".py"
    if isinstance(what, int | Run | Scenario) or (
        isinstance(what, str | os.PathLike) and not is_script
    ):
        scenario = read(what)
    else:
        options: dict[str, Any] = {"args": args, "kwargs": kwargs, "join": join}
        scenario = scenario_of(what, workers=workers, seed=0, **options)
    executed, states, every, found = 0, 0, True, []
    how, budget = How(grain=grain), Budget(executions, seconds)
    try:
        with turn, outside():
            is_script = scenario.script is not None and not one_fault
            groups = explore_groups(scenario, budget) if is_script else None
            if groups is not None:
                ends = {
                    sends: {end.outcome: end.lines for end in met.values()}
                    for sends, met in groups.ends.items()
                }
                shows = [] if groups.good else [Run(scenario, again(scenario))]
                orders = sum(groups.orders.values())
                return Explored(
                    groups.runs, orders, groups.whole and not groups.polled, shows, ends
                )
            for part in parts(scenario, how, budget, one_fault=one_fault):
                executed += part.explored.executions
                states += len(part.explored.states)
                every = every and part.explored.exhausted
                for _, small in part.counterexamples():
                    found.append(Run(small, again(small)))
    except GrainError as error:
        raise ValueError(f"grain is {grain!r}, and {error}: expected 'task' or 'fine'") from None
    except NotExplorableError as error:
        raise ValueError(f"this cannot be explored: {error}{_join_hint(what, join)}") from None
    return Explored(executed, states, every, found)


def _join_hint(what: object, join: str | None) -> str:
    if join is not None or not callable(what):
        return ""
    return '; with join="worker{rank}" each rank joins one before it calls the function'


@dataclass(frozen=True)
class Compared:
    """A function on both engines, and in what the runs differ, a line each."""

    port: Run
    torch: Run
    differences: list[str]

    @property
    def ok(self) -> bool:
        return not self.differences


def diff(
    what: Function | int | str | os.PathLike[str],
    *,
    workers: int = 3,
    seed: int = 7,
    faults: FaultsGiven = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    join: str | None = None,
) -> Compared | Comparison:
    """The same on squall's own engine and on PyTorch's compiled one.

    Of a function or a script, a :class:`Compared`: outcomes, results, and errors by rank and type. Of a seed,
    which stands for a random program, what ``squall diff`` tells
    (:class:`~squall.sim.diff.compare.Comparison`), with the rule that predicts each difference. Raises as :func:`squall.run` does.
    """
    must_be_outside()
    if isinstance(what, int):
        with turn, outside(), campaign_settings():
            return compare_engines(draw(what, Settings(engine="torch")))
    options: dict[str, Any] = {"args": args, "kwargs": kwargs, "join": join, "faults": faults}
    port, compiled = (
        run_scenario(scenario_of(what, workers=workers, seed=seed, engine=engine, **options))
        for engine in ("port", "torch")
    )
    return Compared(port, compiled, _differences(port, compiled))


def _differences(port: Run, compiled: Run) -> list[str]:
    found = []
    for name in ("outcome", "results", "errors"):
        one, other = _facts(port, name), _facts(compiled, name)
        if not _same(one, other):
            found.append(f"{name}: {one!r} on the port, {other!r} on torch")
    return found


def _facts(run: Run, name: str) -> Any:
    if name == "errors":
        return sorted(
            (-1 if error.rank is None else error.rank, error.type) for error in run.errors
        )
    return getattr(run, name)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)
