"""What ``squall serve`` lets another process do: run scenarios and draw what came of them.

A process of its own, since a run takes the whole of one (its signals, its random state), and
since a page that somebody closes should not keep a server busy.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from squall.sim.names import PlotlyFrom
from squall.sim.pictures.labels import line
from squall.sim.pictures.page import page
from squall.sim.pictures.recording import explained, facts_of, recording
from squall.sim.scenario import Scenario
from squall.sim.scenarios.keeping import kept_failure
from squall.sim.scenarios.own import read_scenario_file
from squall.sim.scenarios.replay import first_difference
from squall.sim.search.replay_with_mutant import again
from squall.sim.world.call_lines import CallLines
from squall.sim.world.watch import watching

#: events that are shown before the place where two runs part, and after it
_BEFORE, _AFTER = 4, 6
#: real seconds that a run may take
RUN_S = 120.0


class ScriptRefused(ValueError):  # noqa: N818 - nothing is wrong with it
    """A scenario has a script, which squall did not write down itself and nobody has allowed."""

    def __init__(self, file: str) -> None:
        super().__init__(
            f"{file} has a Python script, which squall did not write down itself and which may do "
            "whatever you may: squall serve --allow-scripts runs it, if you trust it"
        )


def to_run(file: Path, scripts: bool) -> Scenario:
    """The scenario of a file; ``scripts``: with whatever script it has.

    Raises :class:`ScriptRefused`, and what :func:`read_scenario_file` raises.
    """
    read = read_scenario_file(file)
    if not (scripts or read.own):
        raise ScriptRefused(file.name)
    return read.scenario


def draw(scenario: Path, name: str, plotly: PlotlyFrom, scripts: bool) -> str:
    """The page of a scenario; ``plotly`` as for :func:`page`, ``scripts`` as for :func:`to_run`."""
    saved = to_run(scenario, scripts)
    words = shlex.join(["squall", "replay", str(scenario)])
    with watching(noted := CallLines()):
        ran = again(saved, seconds=RUN_S)
    recorded = recording(ran, title=name, replay=words, facts=facts_of(saved), **noted.found)
    explained(recorded, saved, [str(scenario)], kept_failure(saved, str(scenario)))
    return page(recorded, plotly=plotly)


def compare(one: Path, other: Path, scripts: bool) -> str:
    """Where two scenarios' runs part, and the events around that place, as JSON.

    ``scripts`` as for :func:`to_run`.
    """
    runs = [recording(again(to_run(path, scripts), seconds=RUN_S)) for path in (one, other)]
    found = first_difference(*(run.records for run in runs))
    number = None if found is None else found.number
    rows: list[dict[str, Any]] = []
    if number is not None:
        last = min(number + _AFTER, max(len(run) for run in runs))
        for at in range(max(0, number - _BEFORE), last):
            sides = [line(run, at) if at < len(run) else None for run in runs]
            rows.append({"number": at, "same": at < number, "sides": sides})
    return json.dumps({"number": number, "events": [len(run) for run in runs], "rows": rows})


def answer(connection: Connection, work: Callable[..., str], *args: Any) -> None:
    """What the other process does: send whether ``work`` succeeded, and what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends this process
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    try:
        connection.send((True, work(*args)))
    except Exception as error:
        connection.send((False, traceback.format_exception_only(error)[-1].strip()))
