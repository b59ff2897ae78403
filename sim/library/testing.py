"""``squall.test``: a function that each rank calls, as a test for pytest or unittest."""

from __future__ import annotations

import functools
import inspect
import pickle
import shlex
import sys
import unittest
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, overload

from squall.sim.library.arguments import check_call, check_count, check_latency, check_seconds
from squall.sim.library.campaign import SHRINK_S, Around, Finding, finding, judged, search
from squall.sim.library.function import script_of
from squall.sim.library.hypotheses import inside
from squall.sim.library.last_failures import forget, remember, remembered
from squall.sim.library.options import OPTIONS
from squall.sim.library.rank import MARK
from squall.sim.library.run import Failed, FaultsGiven, plan_of, profile_of
from squall.sim.names import ENGINE_NAMES, EngineName
from squall.sim.scenario import Expected, Scenario, Script
from squall.sim.scenarios.file import load_scenario

F = TypeVar("F", bound=Callable[..., Any])

#: examples that Hypothesis tries by default: so many share the seeds of a test
_EXAMPLES = 100


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a test asks for; see :func:`test`."""

    workers: int
    seeds: int
    around: Around
    check: bool
    join: str | None
    shrink_s: float

    def script(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Script:
        return script_of(
            function,
            kwargs=arguments,
            workers=self.workers,
            check=self.check,
            join=self.join,
        )


@overload
def test(function: F, /) -> F: ...


@overload
def test(
    *,
    workers: int = 3,
    seeds: int = 100,
    faults: FaultsGiven = None,
    engine: EngineName = "port",
    latency: str | None = None,
    join: str | None = None,
    check: bool = True,
    strict: bool = False,
    shrink_s: float = SHRINK_S,
) -> Callable[[F], F]: ...


def test(
    function: Any = None,
    /,
    *,
    workers: int = 3,
    seeds: int = 100,
    faults: FaultsGiven = None,
    engine: EngineName = "port",
    latency: str | None = None,
    join: str | None = None,
    check: bool = True,
    strict: bool = False,
    shrink_s: float = SHRINK_S,
) -> Any:
    """Make a test of a function that each of ``workers`` ranks calls with its rank.

    >>> import squall
    >>> import torch
    >>> import torch.distributed.rpc as rpc
    >>> @squall.test(workers=2, seeds=5, join="worker{rank}")
    ... def test_a_sum(rank):
    ...     assert rpc.rpc_sync("worker0", torch.add, args=(torch.ones(1), rank)) == 1 + rank
    >>> test_a_sum()

    It runs once for each of ``seeds`` seeds, which decide latencies and the order of all that happens,
    and under ``faults``, a profile ("mild", "rough", "storm"), what goes wrong as well. The test
    fails if a rank raises, if ranks wait for ever, if a gradient is not that of a single process, or
    if a property of the protocols does not hold; the first failure is made small, which takes
    ``shrink_s`` seconds at most (and as many what decided it), and remembered: the next time it is tried first. Where a fault has
    happened a call may fail, so errors of its kind (RuntimeError, TimeoutError, ConnectionError) and the
    properties do not count, unless ``strict``; failed assertions always do.

    Other parameters of the function than its rank are pytest's: fixtures, parametrized values; or
    Hypothesis's, with ``@given`` above or below this decorator. Of a test class each rank has
    an instance of its own, set up as the test's. ``latency``, ``join`` and ``check``: as in
    :func:`squall.run`; without ``latency`` it is drawn.
    """
    if function is not None:
        return test()(function)
    if engine not in ENGINE_NAMES:
        raise ValueError(f"engine is {engine!r}, expected {' or '.join(map(repr, ENGINE_NAMES))}")
    check_count("seeds", seeds)
    check_count("workers", workers)
    check_seconds("shrink_s", shrink_s)
    check_call((), None, join, workers)
    check_latency(latency)
    profile = profile_of(faults)
    plan = plan_of(None if profile is not None else faults)
    asked = Request(
        workers=workers,
        seeds=seeds,
        around=Around(engine=engine, profile=profile, plan=plan, latency=latency, strict=strict),
        check=check,
        join=join,
        shrink_s=shrink_s,
    )
    return functools.partial(_decorated, asked=asked)


# Pytest collects what is named so.
test.__test__ = False  # type: ignore[attr-defined]


def _decorated(function: Callable[..., Any], asked: Request) -> Callable[..., None]:
    given = getattr(function, "hypothesis", None)
    inner: Callable[..., Any] = function if given is None else given.inner_test
    parameters = list(inspect.signature(function).parameters.values())
    first = parameters[0].name if parameters else ""
    of_class = first == "self"
    kept, others = (parameters[:1], parameters[1:]) if of_class else ([], parameters)
    if not others:
        raise TypeError(f"{function.__qualname__} has no parameter for its rank")
    rank, others = others[0], others[1:]

    @functools.wraps(inner)
    def example(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        kwargs.pop(rank.name)
        _example(inner, kwargs, asked)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        positional = args[1:] if of_class else args
        arguments = {
            **dict(zip([each.name for each in others], positional, strict=False)),
            **kwargs,
        }
        if given is None:
            _campaign(inner, arguments, asked)
            return
        # Hypothesis calls this with the data of each example, in the place of the function.
        given.inner_test = example
        try:
            function(*args[: len(kept)], **{rank.name: None}, **arguments)
        except Failed as failed:
            notes = getattr(failed, "__notes__", ())  # of Hypothesis: the data
            raise _small(failed, asked).failed(["", *notes]) from None

    signature = inspect.signature(function)
    wrapper.__signature__ = signature.replace(parameters=[*kept, *others])  # type: ignore[attr-defined]
    setattr(wrapper, MARK, inner)
    return wrapper


def _campaign(function: Callable[..., Any], arguments: Mapping[str, Any], asked: Request) -> None:
    """Run all seeds. Raises :class:`Failed`."""
    __tracebackhide__ = True
    script = asked.script(function, arguments)
    around = asked.around
    if OPTIONS.engine is not None:
        around = replace(around, engine=OPTIONS.engine)
    if OPTIONS.replay is not None:
        _replay(script, around, OPTIONS.replay, asked)
        return
    seeds = OPTIONS.seeds or asked.seeds
    before = _before(script, around)
    # Hypothesis runs an example that fails over and over, to make its data small.
    shrink_s = 0.0 if inside() else asked.shrink_s

    def scenarios() -> Iterator[Scenario]:
        yield from before
        for seed in range(seeds):
            yield around.scenario(script, seed)

    tried, found, _ = search(
        scenarios(),
        strict=around.strict,
        shrink_s=shrink_s,
        found_by="pytest",
        on_run=lambda done: OPTIONS.on_run(done, seeds + len(before)),
        on_last=lambda run: sys.stdout.write(run.inner.processes.printed),
    )
    if found is not None:
        remember(found.small.scenario)
        if found.interrupted:
            raise KeyboardInterrupt  # a suite of tests is to end, too
        raise found.failed()
    forget(script)
    OPTIONS.on_end(f"{tried:,} {'run' if tried == 1 else 'runs'}")


def _before(script: Script, around: Around) -> list[Scenario]:
    """What failed the last time, with the function as it is now."""
    last = remembered(script)
    if last is None or last.workers != script.workers:
        return []
    return [replace(last, work=script, engine=around.engine, expected=Expected())]


def _replay(script: Script, around: Around, what: str, asked: Request) -> None:
    """Run one scenario alone. Raises :class:`Failed`, OSError or ValueError for a file that cannot be
    read, and SkipTest for one that is of another test."""
    __tracebackhide__ = True
    if what.isdigit():
        scenario = around.scenario(script, int(what))
    else:
        saved = remembered(script) if what == "last" else load_scenario(Path(what))
        if saved is None:
            raise unittest.SkipTest("it has not failed the last time")
        if saved.script is None or Path(saved.script.path).name != Path(script.path).name:
            raise unittest.SkipTest(f"{what} is of another test")
        scenario = replace(saved, work=script, engine=around.engine, expected=Expected())
    run, wrong = judged(scenario, strict=around.strict)
    sys.stdout.write(run.inner.processes.printed)
    if wrong:
        found = finding(run, strict=around.strict, shrink_s=0.0, found_by="pytest")
        raise found.failed()
    OPTIONS.on_end(f"holds: {shlex.quote(what)}")


# -- with Hypothesis ------------------------------------------------------------------------------


def _example(function: Callable[..., Any], arguments: Mapping[str, Any], asked: Request) -> None:
    """One example of Hypothesis's. Raises :class:`Failed`.

    The seeds are drawn from the data, so that the same data do the same again: Hypothesis makes the
    data small, and squall what is left to choose, once that has been done.
    """
    __tracebackhide__ = True
    script = asked.script(function, arguments)
    around = asked.around
    if OPTIONS.engine is not None:
        around = replace(around, engine=OPTIONS.engine)
    seeds = OPTIONS.seeds or asked.seeds
    digest = blake2b(script.text.encode() + pickle.dumps(sorted(arguments)), digest_size=8)
    first = int.from_bytes(digest.digest(), "big")
    each = [(first + number) % seeds for number in range(max(1, seeds // _EXAMPLES))]
    known = _failed_with.get(script.path)
    worlds = [] if known is None else [replace(known, work=script)]
    for scenario in [*worlds, *(around.scenario(script, seed) for seed in each)]:
        run, wrong = judged(scenario, strict=around.strict)
        if wrong:
            # Smaller data are tried in the same world: others would hide how they fail.
            _failed_with[script.path] = scenario
            raise Failed("\n".join(wrong), run)


#: by the path of a test's script, in which world its last example has failed
_failed_with: dict[str, Scenario] = {}


def _small(failed: Failed, asked: Request) -> Finding:
    script = failed.run.scenario.script
    assert script is not None
    _failed_with.pop(script.path, None)
    return finding(
        failed.run, strict=asked.around.strict, shrink_s=asked.shrink_s, found_by="pytest"
    )
