"""Pictures of runs show what the events of the runs say."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from squall.model.events.run import ProcessError, Run, Violation
from squall.properties.support.timeline_runs import (
    LATENCY_S,
    confirmation,
    hanging,
    large,
    lost,
    scaled,
    training,
)
from squall.real import tracing
from squall.real.rpc import api as rpc
from squall.real.tracing import MESSAGE_DELIVERED, MESSAGE_SENT
from squall.sim import pictures
from squall.sim.cluster import Cluster
from squall.sim.pictures.canvas import clock_of, sample
from squall.sim.pictures.faults import faults_of
from squall.sim.pictures.passes import advance, moments, start
from squall.sim.pictures.recording import explained
from squall.sim.pictures.rrefs import CONFIRMED, VALUE
from squall.sim.pictures.spans import CONFIRM, FUNCTION, NODE, REPLY, spans_of
from squall.sim.scenario import Expected, Scenario, Script
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.play import play
from squall.sim.scenarios.replay import replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw

VIEWS = (
    pictures.space_time,
    pictures.work,
    pictures.graph,
    pictures.rrefs,
    pictures.contexts,
    pictures.futures,
    pictures.waits,
)


@cache
def one_step() -> pictures.Recording:
    return training()


def named(figure: Any, start: str) -> list[Any]:
    return [trace for trace in figure.data if (trace.name or "").startswith(start)]


# -- every picture of everything ------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("profile", [None, "storm"])
def test_any_run_can_be_looked_at(seed: int, profile: str | None) -> None:
    run = pictures.recording(replay(draw(seed, Settings(profile))))
    for view in VIEWS:
        figure = view(run)
        assert figure.to_json()
        assert figure.layout.title.text
    if profile is None:
        assert run.outcome in ("ok", "hangs, as predicted")


def test_a_run_without_any_event_can_be_looked_at() -> None:
    run = pictures.recording([])
    for view in VIEWS:
        assert view(run).to_json()


def test_what_cannot_be_pictured_says_what_can() -> None:
    with pytest.raises(TypeError, match="nothing to picture in str, expected a Run, a Trace"):
        pictures.recording("seed 3")


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (lambda run: pictures.space_time(run, clock="wall"), "clock: 'wall' is unknown"),
        (lambda run: pictures.space_time(run, kinds=["mail"]), "kinds: 'mail' is unknown"),
        (lambda run: pictures.space_time(run, highlight=10**6), "there is no message 1000000"),
        (lambda run: pictures.graph(run, number=99), "there is no backward pass 99"),
        (lambda run: pictures.work(run, context=5), "no pass has ended in context 5"),
        (lambda run: pictures.wait_for(run, at=-1), "at: expected 0 to "),
        (lambda run: pictures.critical_path(run, last=10**6), "last: there is no event 1000000"),
    ],
)
def test_a_wrong_argument_is_named(draw: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        draw(one_step())


def test_equal_runs_give_equal_figures() -> None:
    again = training()
    for view in VIEWS:
        assert view(one_step()).to_json() == view(again).to_json()


# -- messages -------------------------------------------------------------------------------------


def test_there_is_an_arrow_for_each_message() -> None:
    run = one_step()
    flows = pictures.flows_of(run)
    sent = [record for record in run.records if record[3] is MESSAGE_SENT]
    arrived = [record for record in run.records if record[3] is MESSAGE_DELIVERED]
    assert len(flows) == len(sent) == len(arrived)
    took = [flow.latency_s for flow in flows if flow.src != flow.dst]
    assert took == pytest.approx([LATENCY_S] * len(took))
    figure = pictures.space_time(run, clock="order")
    drawn: set[tuple[float, float, float, float]] = set()
    for trace in figure.data:
        if trace.mode == "lines":
            ends = np.asarray(trace.x).reshape(-1, 3), np.asarray(trace.y).reshape(-1, 3)
            drawn |= set(
                zip(ends[0][:, 0], ends[0][:, 1], ends[1][:, 0], ends[1][:, 1], strict=True)
            )
    assert drawn == {(f.sent, f.arrived, f.src, f.dst) for f in flows}


def test_a_message_says_what_it_is_about() -> None:
    run = one_step()
    gradient = next(f for f in pictures.flows_of(run) if f.type == "BACKWARD_AUTOGRAD_REQ")
    (heads,) = [
        t for t in named(pictures.space_time(run), "gradient") if t.hovertext and t.marker.symbol
    ]
    said = next(text for text in heads.hovertext if f"message {gradient.number}:" in text)
    for words in ("message with gradients", "worker0", "worker1", "bytes", "1 ms", "set off by"):
        assert words in said


def test_a_dropped_message_ends_in_a_cross_on_its_way() -> None:
    run = hanging()
    (dropped,) = [flow for flow in pictures.flows_of(run) if flow.dropped >= 0]
    assert dropped.fate == "dropped: it was lost"
    (cross,) = [t for t in named(pictures.space_time(run), "dropped") if t.mode == "markers"]
    assert cross.marker.symbol == "x"
    assert dropped.src < cross.y[0] < dropped.dst  # between the lanes, on neither


def test_only_the_kinds_that_are_asked_for_are_drawn() -> None:
    figure = pictures.space_time(one_step(), kinds=["gradient"])
    assert {trace.legendgroup for trace in figure.data if trace.mode == "lines"} == {"gradient"}


def test_what_hits_messages_and_workers_is_marked() -> None:
    seen: set[str] = set()
    for seed in range(40):
        run = pictures.recording(replay(draw(seed, Settings("storm"))))
        faults = faults_of(run)
        legend = " ".join(trace.name or "" for trace in pictures.space_time(run).data)
        for fault in faults:
            assert f"fault: {fault.kind.replace('_', ' ')}" in legend
            assert fault.first <= fault.last
        seen |= {fault.kind for fault in faults if fault.last > fault.first}
        if {"crash", "pause"} <= seen:
            break
    assert {"crash", "pause"} <= seen


# -- causes ---------------------------------------------------------------------------------------


def test_causes_come_before_what_they_cause() -> None:
    run = one_step()
    before, elsewhere = pictures.causes_of(run)
    numbers = np.arange(len(run))
    assert (before < numbers).all() and (elsewhere < numbers).all()
    for flow in pictures.flows_of(run):
        assert elsewhere[flow.arrived] == flow.sent
    # Only what begins a worker's process has no cause.
    roots = np.flatnonzero((before < 0) & (elsewhere < 0))
    assert {run.records[n][3] for n in roots} == {tracing.TASK_STARTED}
    assert len(roots) == 3


def test_a_reply_depends_on_the_whole_chain_and_on_nobody_else() -> None:
    def main(rank: int) -> None:
        if rank == 0:
            rpc.rpc_sync("worker1", scaled, args=(1.0, 2.0))
        elif rank == 2:
            rpc.rpc_sync("worker3", scaled, args=(1.0, 3.0))

    with Cluster(4, latency=f"constant:{LATENCY_S}") as cluster:
        cluster.run(main, shutdown=False)
    run = pictures.recording(cluster)
    mine = [f for f in pictures.flows_of(run) if {f.src, f.dst} == {0, 1}]
    others = [f for f in pictures.flows_of(run) if {f.src, f.dst} == {2, 3}]
    reply = mine[-1]
    past, future = pictures.cone(run, reply)
    request = next(f for f in mine if f.number == reply.cause)
    assert request in past and reply not in past
    assert not future
    assert others and others[-1] not in past and others[-2] not in past
    later = pictures.cone(run, request)[1]
    assert reply in later and others[-1] not in later


def test_a_highlighted_message_stands_out_and_the_rest_steps_back() -> None:
    run = one_step()
    flow = pictures.flows_of(run)[-3]
    past, future = pictures.cone(run, flow)
    figure = pictures.space_time(run, highlight=flow.number)
    assert [trace.name for trace in figure.data[-3:]] == [
        f"its past ({len(past)})",
        f"its future ({len(future)})",
        "the message (1)",
    ]
    assert max(trace.opacity for trace in figure.data[:-3]) < 0.2


# -- work and the critical path -------------------------------------------------------------------


def test_the_critical_path_of_a_step_is_made_of_its_messages() -> None:
    run = one_step()
    ((context, first, last),) = pictures.steps_of(run)
    path = pictures.critical_path(run)
    assert path is not None and path.context == context
    assert (path.first, path.last) == (first, last)
    assert path.total_s == pytest.approx(run.time_s(last) - run.time_s(first))
    for one, other in zip(path.hops, path.hops[1:], strict=False):
        assert one.last == other.first
    # There and back over two workers, gradients the same way, and the replies to these.
    assert path.parts_s["latency"] == pytest.approx(10 * LATENCY_S)


def test_waiting_for_confirmation_is_told_from_latency() -> None:
    run = confirmation()
    (waited,) = [span for span in spans_of(run) if span.activity is CONFIRM]
    assert run.time_s(waited.last) - run.time_s(waited.first) == pytest.approx(2 * LATENCY_S)
    # To the end of the function that passed the reference on: worker 0's first task.
    task = next(r[2] for r in run.records if r[3] is tracing.CALL_STARTED and r[1] == 0)
    end = max(n for n, record in enumerate(run.records) if record[2] == task)
    path = pictures.critical_path(run, last=end)
    assert path is not None
    assert path.parts_s["waiting for confirmation"] == pytest.approx(2 * LATENCY_S)


def test_work_names_functions_nodes_and_what_is_waited_for() -> None:
    spans = spans_of(one_step())
    labels = {activity: {s.label for s in spans if s.activity is activity} for activity in (FUNCTION, NODE, REPLY)}  # fmt: skip
    assert {"passed_on", "scaled"} <= labels[FUNCTION]
    assert {"MulBackward0", "SumBackward0", "AccumulateGrad", "RecvRpcBackward"} <= labels[NODE]
    assert {"passed_on", "passed_on: scaled"} <= labels[REPLY]
    executed = [r for r in one_step().records if r[3] is tracing.NODE_EXECUTED]
    assert sum(span.activity is NODE for span in spans) == len(executed)


# -- the autograd graph ---------------------------------------------------------------------------


def test_the_slider_counts_the_engines_dependencies_down() -> None:
    run = one_step()
    (one,) = pictures.passes(run)
    joint = pictures.joint_graph(one)
    figure = pictures.graph(run)
    frames = [dict(zip(joint, frame.data[0]["text"], strict=True)) for frame in figure.frames]
    for place, data in joint.nodes(data=True):
        waits = 1 if data["role"] == "send" else data["dependencies"]
        counts = [int(frame[place]) if frame[place] else -1 for frame in frames]
        assert counts[0] == waits
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] == -1, "it has run in the end"
    assert len(figure.layout.sliders[0].steps) == len(frames) == len(moments(one)) + 1


def test_a_node_runs_once_all_its_gradients_are_there() -> None:
    with campaign_settings():
        run = pictures.recording(play(draw(11)))
    for one in pictures.passes(run):
        joint = pictures.joint_graph(one)
        progress = start(joint)
        for moment in moments(one):
            place = moment[2]
            if moment[1] == "ran" and place in progress.waits and one.root.error is None:
                assert progress.waits[place] <= 0, f"{place} ran at #{moment[0]}"
            advance(progress, joint, moment)


def test_messages_join_the_graphs_of_workers() -> None:
    (one,) = pictures.passes(one_step())
    joint = pictures.joint_graph(one)
    crossing = [(a, b) for a, b, across in joint.edges(data="crosses") if across]
    assert len(crossing) == 4
    for first, second in crossing:
        assert first[0] != second[0]
        assert (joint.nodes[first]["role"], joint.nodes[second]["role"]) == ("recv", "send")
        assert joint.nodes[first]["message"] == joint.nodes[second]["message"]


# -- lives ----------------------------------------------------------------------------------------


def test_an_rref_and_its_forks_live_in_rows_of_their_own() -> None:
    figure = pictures.rrefs(confirmation())
    labels = list(figure.layout.yaxis.ticktext)
    assert labels[0] == "RRef 0 of worker0 (scaled) at worker2"
    assert [label.rpartition(" on ")[2] for label in labels[1:]] == ["worker0", "worker1"]
    assert len(named(figure, VALUE.name)[0].y) == 1
    assert len(named(figure, CONFIRMED.name)[0].y) == 2
    assert "never ended" not in figure.layout.title.text


def test_contexts_and_passes_end_where_they_were_released() -> None:
    run = one_step()
    figure = pictures.contexts(run, clock="order")
    (open_rows,) = named(figure, "context there")
    released = [n for n, r in enumerate(run.records) if r[3] is tracing.CONTEXT_RELEASED]
    ends = sorted(
        int(base + width) for base, width in zip(open_rows.base, open_rows.x, strict=True)
    )
    assert ends == released
    assert len(named(figure, "pass, begun here")[0].y) == 1
    assert len(named(figure, "pass, begun by a gradient")[0].y) == 2


def test_a_future_shows_where_its_time_went() -> None:
    run = confirmation()
    figure = pictures.futures(run, clock="time")
    (confirming,) = named(figure, "waiting for confirmation")
    assert list(confirming.x) == pytest.approx([2 * LATENCY_S])
    (there,) = named(figure, "request on its way")
    assert set(np.round(there.x, 9)) <= {0.0, LATENCY_S}
    assert len(there.x) == len(pictures.calls_of(run))


# -- who waits ------------------------------------------------------------------------------------


def test_a_hang_leads_to_what_was_lost() -> None:
    run = hanging()
    graph = pictures.wait_for(run)
    ((waiter, held, what),) = graph.edges(data="what")
    assert graph.nodes[waiter]["label"] == "worker0"
    assert graph.nodes[held]["label"] == "the request was lost: it was lost"
    assert what == "a call on worker1"
    assert "1 wait<" in pictures.waits(run).layout.title.text


def test_before_a_timeout_one_sees_who_waited() -> None:
    def main(rank: int) -> None:
        if rank == 0:
            with lost(cluster, 1, "PYTHON_CALL"), pytest.raises(RuntimeError, match="timeout"):
                rpc.rpc_sync("worker1", scaled, args=(1.0, 2.0), timeout=1.0)

    with Cluster(2, latency=f"constant:{LATENCY_S}") as cluster:
        cluster.run(main)
    figure = pictures.waits(cluster)
    assert "before the first timeout" in figure.layout.title.text
    assert pictures.wait_for(cluster).number_of_edges() == 1
    assert not pictures.wait_for(cluster, at=len(pictures.recording(cluster)))


def test_when_all_is_done_nobody_waits() -> None:
    assert not pictures.wait_for(one_step())
    assert "nobody waits" in pictures.waits(one_step()).layout.annotations[0].text


# -- many events ----------------------------------------------------------------------------------


def test_a_picture_that_leaves_something_out_says_so() -> None:
    run = large(12, 38)
    assert len(pictures.flows_of(run)) > 3_000
    for view, words in (
        (pictures.space_time, "drawn by WebGL"),
        (pictures.work, "drawn by WebGL"),
        (pictures.futures, r"of [\d,]+ calls are drawn"),
        (pictures.contexts, r"of [\d,]+ rows are drawn"),
    ):
        figure = view(run)
        assert re.search(words, figure.layout.title.text), view.__name__
        if "WebGL" in words:
            assert any(trace.type == "scattergl" for trace in figure.data)


def test_a_sample_keeps_what_must_be_kept() -> None:
    assert sample(5, 10) == [0, 1, 2, 3, 4]
    kept = sample(1000, 100, keep=[7, 999])
    assert {7, 999} <= set(kept) and 100 <= len(kept) <= 102


def test_order_is_the_clock_where_time_says_little() -> None:
    at_once = training(latency="0")
    assert clock_of(at_once) == "order"
    assert clock_of(one_step()) == "time"
    nearly = pictures.recording(
        [(0.0, 0, 1, tracing.UDF_STARTED, ("f",))] * 100
        + [(n * 1e-6, 0, 1, tracing.UDF_ENDED, ("f", None)) for n in range(1, 4)]
    )
    assert clock_of(nearly) == "order"
    with_silence = pictures.recording(
        [(0.0, 0, 1, tracing.UDF_STARTED, ("f",))] * 3
        + [(n * 1e-4, 0, 1, tracing.UDF_ENDED, ("f", None)) for n in range(100)]
        + [(60.0, 0, 1, tracing.UDF_ENDED, ("f", None))]
    )
    assert clock_of(with_silence) == "order"
    assert clock_of(with_silence, "time") == "time"


# -- violations -----------------------------------------------------------------------------------


def test_the_events_of_a_violation_are_ringed() -> None:
    run = training()
    cited = next(n for n, r in enumerate(run.records) if r[3] is tracing.PASS_ENDED)
    broken = pictures.recording(
        run, violations=(Violation("passes", "too early", "more", "less", 0, 0.0, (cited,)),)
    )
    (ring,) = named(pictures.space_time(broken, clock="order"), "violation")
    assert list(ring.x) == [cited]
    assert "passes: too early" in ring.hovertext[0]


# -- what decided it ------------------------------------------------------------------------------


def failing() -> tuple[Scenario, pictures.Recording]:
    """A run in which a process raised an error, and its scenario."""
    run = training()
    text = 'Traceback (most recent call last):\n  File "t.py", line 3, in main\nAssertionError: wrong\n'
    error = ProcessError("worker0", 0, "AssertionError", "wrong", text)
    seen = Run(run.records, script="t.py", errors=[error])
    said = Violation("script", "a process raised AssertionError", "none", "worker0: wrong")
    scenario = Scenario(
        work=Script(path="t.py", text=""), expected=Expected(digest=run.digest, outcome="error")
    )
    return scenario, replace(run, seen=seen, violations=(said,), outcome="error")


def test_a_page_begins_with_what_decided_a_failure() -> None:
    scenario, run = failing()
    why = "`f` of w1 ran first.\nIn runs that pass it ran later.\n\nthis run   a run that passes"
    kept = Failure(scenario=scenario, why=why, marks={20: "`f` ran", 30: "`g` ran"})
    explained(run, scenario, ["0a1b2c3d"], kept)
    text = pictures.page(run, plotly="cdn")
    assert text.index("In runs that pass it ran later.") < text.index("<dt>virtual time")
    assert '<a href="#event=20">#20</a> `f` ran' in text
    assert run.opened_at == 20
    (ring,) = named(pictures.space_time(run, clock="order"), "what decided it")
    assert list(ring.x) == [20, 30]
    # The error stands there once, as squall fuzz tells it.
    assert "<b>rank 0: AssertionError: wrong at t.py:3</b>" in text
    assert "a process raised" not in text and "worker0 raised" not in text


@pytest.mark.parametrize("kept", [False, True], ids=["nothing is kept", "it failed otherwise"])
def test_a_page_says_how_to_learn_what_decided_a_failure(kept: bool) -> None:
    scenario, run = failing()
    before = replace(scenario, expected=Expected(digest="another", outcome="error"))
    failure = Failure(scenario=before, why="It is so.", marks={20: "`f` ran"}) if kept else None
    explained(run, before, ["0a1b2c3d"], failure)
    text = pictures.page(run, plotly="cdn")
    assert "squall why 0a1b2c3d" in text and "It is so." not in text and not run.marks
