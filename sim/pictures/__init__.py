"""A run as pictures: the same plotly figures in notebooks, in pages and in tests.

    from squall.sim import pictures
    run = pictures.recording(report)       # or a Run, a Trace, a Cluster, a ProgramRun
    pictures.space_time(run).show()

Every picture takes whatever :func:`recording` takes and returns a plotly Figure:

    space_time(run)    a lane per worker, an arrow per message
    work(run)          what each task did and waited for; the critical path
    graph(run)         the joint autograd graph of one pass, with a slider through the pass
    rrefs(run)         the owner and the forks of each RRef, through their states
    contexts(run)      autograd contexts and the passes in them, on each worker
    futures(run)       each call: on its way, at work, on its way back
    waits(run)         who waits for whom at the end
    odds(found)        how likely a failure still is, from each point of a run on: what
                       measure(scenario) found

and of a campaign, :func:`squall.model.coverage.history.history_of` what it has seen:

    coverage(history)  how much behaviour it has seen, and when it reached what is rare

and of an exploration:

    choices(tree)      what could go next at each point, and what was left out

``clock`` of a picture is ``time`` (seconds of virtual time), ``order`` (the number of the event)
or ``auto``. :func:`page` puts all of them into one file that needs no network.
"""

from __future__ import annotations

from squall.sim.pictures.causality import causes_of, cone
from squall.sim.pictures.choices import choices
from squall.sim.pictures.contexts import contexts
from squall.sim.pictures.coverage import coverage
from squall.sim.pictures.critical import CriticalPath, critical_path, steps_of
from squall.sim.pictures.flows import calls_of, flows_of, tasks_of
from squall.sim.pictures.futures import futures
from squall.sim.pictures.graph import graph
from squall.sim.pictures.odds import Odds, measure, odds
from squall.sim.pictures.page import page
from squall.sim.pictures.passes import joint_graph, passes
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.rrefs import rrefs
from squall.sim.pictures.space_time import space_time
from squall.sim.pictures.wait_graph import wait_for
from squall.sim.pictures.waits import waits
from squall.sim.pictures.work import work

__all__ = [
    "CriticalPath",
    "Odds",
    "Recording",
    "calls_of",
    "causes_of",
    "choices",
    "cone",
    "contexts",
    "coverage",
    "critical_path",
    "flows_of",
    "futures",
    "graph",
    "joint_graph",
    "measure",
    "odds",
    "page",
    "passes",
    "recording",
    "rrefs",
    "space_time",
    "steps_of",
    "tasks_of",
    "wait_for",
    "waits",
    "work",
]
