"""``squall.run``, and what it gives."""

from __future__ import annotations

import html
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, get_args

from squall.model.checks.registry import check as check_run
from squall.model.events.run import NOT_CHECKED, Violation
from squall.model.events.run import Run as FinishedRun
from squall.model.one_process.reference import GradientSummary
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.real.tracing import FAULT_INJECTED
from squall.real.worker import current_worker_or_none
from squall.sim.faults.draw import PROFILES, Profile
from squall.sim.faults.file import load_plan
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.library.arguments import check_call, check_seconds
from squall.sim.library.errors import problems
from squall.sim.library.function import script_of
from squall.sim.library.hypotheses import outside
from squall.sim.library.results import unpacked
from squall.sim.names import PLOTLY_FROM, Device, EngineName, PlotlyFrom
from squall.sim.scenario import Expected, Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.measured import measured
from squall.sim.scenarios.play import play
from squall.sim.scripts.raised_error import RankError, rank_error
from squall.sim.scripts.read_script import read_script
from squall.sim.search.replay_with_mutant import known_mutant, planted
from squall.sim.world.busy_loop import DEFAULT_LIMIT_S, limited
from squall.sim.world.call_lines import CallLines
from squall.sim.world.compute import MEASURED
from squall.sim.world.latency import DEFAULT_LATENCY
from squall.sim.world.watch import watching

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from squall.sim.pictures import CriticalPath
    from squall.sim.pictures.recording import Recording

PictureName = Literal["space_time", "graph", "work", "futures", "rrefs", "contexts", "waits"]
PICTURE_NAMES: tuple[PictureName, ...] = get_args(PictureName)
Function = Callable[..., object]
#: a profile, a plan, or the file of one
FaultsGiven = Plan | str | os.PathLike[str] | None

#: one run at a time: each has ``sys.modules``, ``sys.path`` and torch's settings for itself
turn = threading.Lock()


class Failed(AssertionError):  # noqa: N818 - what it is, as in unittest
    """A run in which something is wrong; ``run`` is that run."""

    def __init__(self, text: str, run: Run) -> None:
        super().__init__(text)
        self.run = run


class Run:
    """A finished run: what the ranks returned, what went wrong, and everything that happened.

    ``scenario`` is all that it depends on; ``inner`` is the run as squall's own checks see it.
    """

    def __init__(
        self, scenario: Scenario, inner: FinishedRun, noted: CallLines | None = None
    ) -> None:
        self.scenario = scenario
        self.inner = inner
        #: which lines have made its calls, if that was noted
        self._noted = {} if noted is None else noted.found

    @cached_property
    def _recorded(self) -> Recording:
        """The run as pictures need it."""
        from squall.sim.pictures.recording import recording

        return recording(self.inner, **self._noted)

    @cached_property
    def results(self) -> list[Any]:
        """What the function returned, by rank; None for a rank that did not come to its end.

        Each is a copy; one that cannot be pickled is a
        :class:`~squall.sim.library.results.NotPickled`.
        """
        returned = self.inner.processes.returned
        size = max([self.scenario.workers or 0, *(rank + 1 for rank in returned)])
        return [unpacked(returned[n]) if n in returned else None for n in range(size)]

    @cached_property
    def errors(self) -> list[RankError]:
        """Exceptions that left the function, the first first."""
        script = self.scenario.script
        if script is None:
            return []  # what a program's steps raise is part of what they come to
        return [rank_error(error, script.path) for error in self.inner.errors]

    @property
    def seed(self) -> int:
        return self.scenario.seed

    @property
    def outcome(self) -> str:
        """In a word: "ok", "error", "deadlock", "gradients differ", "leak", "failed", or "not
        checked" where there was no message and no gradient to judge."""
        return self.inner.outcome

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, also where nothing could be (``outcome`` "not checked")."""
        return self.outcome in ("ok", NOT_CHECKED)

    @property
    def problems(self) -> list[str]:
        """What is wrong, a line each."""
        return problems(self.inner, self.errors, strict=True)

    @property
    def gradients(self) -> GradientSummary | None:
        """How gradients compare with those of a single process; None if nobody asked."""
        return self.inner.gradients

    @property
    def violations(self) -> list[Violation]:
        """Properties that do not hold (``squall properties`` lists them)."""
        return self.inner.violations

    @property
    def digest(self) -> str:
        """32 hex digits over every event and its time: equal runs, equal digests."""
        return self.inner.digest

    @property
    def messages(self) -> dict[str, int]:
        """Messages sent, by type, the most frequent first."""
        return self.inner.messages

    @property
    def faults(self) -> dict[str, int]:
        """What went wrong because of a fault plan, by kind."""
        return self.inner.faults

    @property
    def virtual_time_s(self) -> float:
        """Virtual time at the end, in seconds."""
        return self.inner.ended_s

    @cached_property
    def events(self) -> pandas.DataFrame:
        """One row an event: its time in seconds of virtual time, worker, task, name, fields."""
        from squall.sim.pictures.events_frame import events_frame

        return events_frame(self.inner.records)

    def events_of(self, kind: str) -> pandas.DataFrame:
        """The events of one kind, with the fields of that kind and no others. ``kind``: as ``events`` names it, such
        as "message_sent". Raises ValueError for one that there is not."""
        from squall.sim.pictures.events_frame import events_of

        return events_of(self.inner.records, kind)

    def lines(self, first: int = 0, last: int | None = None) -> list[str]:
        """What happened in words, a line an event: from event ``first`` to the one before ``last``, which may
        count from the end."""
        from squall.sim.pictures.narrate import narrate

        return list(narrate(self._recorded, first=first, last=last))

    def timeline(self, *, plotly: PlotlyFrom = "inline") -> Timeline:
        """The pictures of the run as one page: shown where it is the last value of a cell, written
        by :meth:`Timeline.save`.

        ``plotly``: where the page has plotly.js from, 4.7 MB: in itself ("inline"), from cdn.plot.ly
        ("cdn"), or from a file that is written beside it ("file"). Raises ValueError for another one.
        """
        from squall.sim.pictures.page import page
        from squall.sim.pictures.recording import facts_of

        if plotly not in PLOTLY_FROM:
            known = ", ".join(map(repr, PLOTLY_FROM))
            raise ValueError(f"plotly is {plotly!r}, expected one of {known}")
        script = self.scenario.script
        title = Path(script.path).name if script is not None else "a program"
        facts = facts_of(self.scenario) | self._recorded.facts
        recorded = replace(self._recorded, title=title, facts=facts)
        return Timeline(lambda where: page(recorded, plotly=where), plotly)

    def picture(self, name: PictureName, **options: Any) -> go.Figure:
        """One picture of the run, a plotly figure: "space_time", "graph", "work", "futures", "rrefs",
        "contexts" or "waits" (docs/timeline.md).

        ``options``: those of the picture, such as ``kinds=["gradient"]`` of "space_time". Raises
        ValueError for a picture that there is not, TypeError for an option that it does not have.
        """
        from squall.sim import pictures
        from squall.sim.pictures.narrow import narrow

        if name not in PICTURE_NAMES:
            known = ", ".join(map(repr, PICTURE_NAMES))
            raise ValueError(f"name is {name!r}, expected one of {known}")
        return narrow(getattr(pictures, name)(self._recorded, **options))

    def critical_path(self, *, context: int | None = None) -> CriticalPath | None:
        """The chain of events that decided how long the step in ``context`` took, by default the
        longest; None if there is no such step."""
        from squall.sim import pictures

        return pictures.critical_path(self._recorded, context=context)

    def raise_if_failed(self) -> Run:
        """This run. Raises :class:`Failed`, an AssertionError, if something is wrong."""
        if self.problems:
            raise Failed(self.report(), self)
        return self

    def report(self) -> str:
        """What is wrong in full, tracebacks included; "" if nothing is."""
        found = self.problems
        lines = [*found, *(f"\n{error.traceback.rstrip()}" for error in self.errors[:1])]
        lines += [f"\nhint: {line}" for line in self.inner.hints if line not in found]
        return "\n".join(lines) if found else ""

    def __repr__(self) -> str:
        sent = sum(self.messages.values())
        size = self.inner.workers or self.scenario.workers
        said = f"{self.outcome}, {size} workers, seed {self.seed}, {sent:,} messages"
        if self.errors:
            said += f"; {self.errors[0]}"
        return f"<squall.Run {said}>"

    def _repr_html_(self) -> str:
        facts = {
            "outcome": self.outcome,
            "workers": self.inner.workers or self.scenario.workers,
            "seed": self.seed,
            "messages": f"{sum(self.messages.values()):,}",
            "virtual time": f"{self.virtual_time_s:.6f} s",
            "digest": self.digest,
            **{f"problem {n}": text for n, text in enumerate(self.problems[:5], start=1)},
        }
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
            for name, value in facts.items()
        )
        return f"<table>{rows}</table>"


class Timeline:
    """A page with the pictures of a run. In a notebook it shows itself."""

    def __init__(self, page: Callable[[PlotlyFrom], str], plotly: PlotlyFrom = "inline") -> None:
        self._page = page
        self._plotly = plotly

    @cached_property
    def html(self) -> str:
        """The text of the page."""
        return self._page(self._plotly)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, which opens without a network unless it has plotly.js from there, and
        plotly.js beside it if that is a file. Raises OSError."""
        from squall.sim.pictures.plotly_js import write_plotly

        where = Path(path)
        where.write_text(self.html, encoding="utf-8")
        if self._plotly == "file":
            write_plotly(where.parent)
        return where

    def _repr_html_(self) -> str:
        # There is no file beside a cell of a notebook.
        text = self._page("inline") if self._plotly == "file" else self.html
        page = html.escape(text, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:800px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<squall.Timeline, {len(self.html):,} characters; .save(path) writes it>"


def scenario_of(
    function: Function | str | os.PathLike[str],
    *,
    workers: int | None = 3,
    seed: int = 7,
    engine: EngineName = "port",
    latency: str = DEFAULT_LATENCY,
    device: Device = "cpu",
    faults: FaultsGiven = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    check: bool = True,
    join: str | None = None,
    compute: str = "",
) -> Scenario:
    """What :func:`run` would run."""
    check_call(args, kwargs, join, workers)
    if isinstance(function, str | os.PathLike):
        if kwargs or join is not None:
            raise TypeError("kwargs and join are for a function, and this is the path of a script")
        words = tuple(str(arg) for arg in args)
        script = read_script(Path(function), words, workers=workers, check=check)
    else:
        if workers is None:
            raise TypeError("workers is None, expected the number of ranks that call the function")
        script = script_of(
            function, args=args, kwargs=kwargs, workers=workers, check=check, join=join
        )
    if compute:
        script = replace(script, compute="" if compute == MEASURED else compute)
    profile = profile_of(faults)
    if profile is not None and workers is None:
        raise ValueError(f"faults {profile!r} need the number of workers")
    if profile is None:
        plan = plan_of(faults)
    else:
        from squall.sim.search.draw import draw_faults

        plan = draw_faults(profile, seed, workers or 0, DEFAULT_RPC_TIMEOUT_S)
    world = World(latency=latency, faults=plan, device=device)
    return Scenario(work=script, seed=seed, world=world, engine=engine, profile=profile)


def profile_of(faults: FaultsGiven) -> Profile | None:
    """The profile that is meant; None if it is a plan or nothing."""
    return next((known for known in PROFILES if known == faults), None)


def plan_of(faults: FaultsGiven) -> Plan:
    """The plan that is meant, which is no profile. Raises ValueError."""
    if faults is None:
        return NO_FAULTS
    if isinstance(faults, Plan):
        return faults
    if isinstance(faults, str | os.PathLike) and Path(faults).exists():
        return load_plan(Path(faults))
    raise ValueError(
        f"faults is {faults!r}, expected a plan (squall.faults.plan), the file of one, or one of "
        f"{', '.join(map(repr, PROFILES))}"
    )


def run(
    function: Function | str | os.PathLike[str],
    *,
    workers: int | None = 3,
    seed: int = 7,
    engine: EngineName = "port",
    latency: str = DEFAULT_LATENCY,
    device: Device = "cpu",
    faults: FaultsGiven = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    check: bool = True,
    join: str | None = None,
    wall_limit_s: float = DEFAULT_LIMIT_S,
    compute: str = "",
    mutant: str | None = None,
    stdout: TextIO | None = None,
) -> Run:
    """Run a function on every rank of a simulated cluster, or a script, in virtual time.

    Each rank calls ``function(rank, *args, **kwargs)`` with torchrun's variables in its
    environment, and uses ``torch.distributed.rpc`` and ``torch.distributed.autograd`` as on real
    machines. A path is a script, whose ``args`` are words and which may decide on the number of
    workers itself (``workers=None``).

    >>> import squall
    >>> import torch
    >>> import torch.distributed.rpc as rpc
    >>> def add(rank):
    ...     rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    ...     value = rpc.rpc_sync("worker0", torch.add, args=(torch.ones(2), rank))
    ...     rpc.shutdown()
    ...     return value.tolist()
    >>> run = squall.run(add, workers=2, seed=7)
    >>> run.results
    [[1.0, 1.0], [2.0, 2.0]]
    >>> run.ok
    True

    ``seed`` decides every latency and every interleaving. ``latency`` is that of each message, as
    ``squall run --latency`` has it. ``device``: the default device of the ranks, as
    ``squall run --device`` has it. ``faults``: a profile ("mild", "rough", "storm"), a plan
    (``squall.faults``) or the file of one. ``check``: compare gradients with those of a single
    process. ``join``: the name under which each rank joins an RPC group before the function and
    leaves it afterwards, such as ``"worker{rank}"``; without it the function does that itself.
    A rank that computes for ``wall_limit_s`` seconds of real time and never waits is ended, 0: never.
    ``compute``: what operators take in virtual time, as ``squall run --compute`` has it. ``mutant``: a bug of those
    that ``squall mutants --list`` names is planted in squall's own engine, to see what it does.
    What ranks print goes to ``stdout``.

    Raises ValueError or TypeError for what makes no sense, OSError for a script that cannot be read,
    RuntimeError in a rank, KeyboardInterrupt; what goes wrong in a rank is in :attr:`Run.errors`.
    """
    check_seconds("wall_limit_s", wall_limit_s)
    scenario = scenario_of(
        function,
        workers=workers,
        seed=seed,
        engine=engine,
        latency=latency,
        device=device,
        faults=faults,
        args=args,
        kwargs=kwargs,
        check=check,
        join=join,
        compute=compute,
    )
    known_mutant(mutant)
    scenario = replace(scenario, expected=Expected(mutant=mutant))
    with limited(wall_limit_s):
        if compute == MEASURED:
            must_be_outside()
            with turn, outside():
                scenario = measured(scenario)
        with watching(noted := CallLines()):
            found = run_scenario(scenario, stdout=stdout)
        return Run(scenario, found.inner, noted)


def run_scenario(
    scenario: Scenario, *, stdout: TextIO | None = None, stderr: TextIO | None = None
) -> Run:
    """Run it and check it; ``stderr`` None: as ``stdout``. Raises as :func:`run` does."""
    must_be_outside()
    ENGINES[scenario.engine].ready(lambda line: print(line, file=sys.stderr))
    with turn, outside(), planted(scenario.expected.mutant):
        inner = play(scenario, stdout=stdout, stderr=stderr or stdout)
    if inner.broken_off == "interrupted":
        raise KeyboardInterrupt  # as of any function: a suite of tests is to end, too
    inner.conditions.faulty = inner.conditions.faulty or bool(inner.of(FAULT_INJECTED))  # by hand
    inner.violations = check_run(inner)
    return Run(scenario, inner)


def must_be_outside() -> None:
    """Raises RuntimeError in a rank: a run within a run has no meaning."""
    if current_worker_or_none() is not None:
        raise RuntimeError(
            "squall was called in a rank of its own: if a module calls it as it is imported, guard "
            'that with if __name__ == "__main__":'
        )
