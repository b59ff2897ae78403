"""What pictures say in words: the critical path, and what ids and functions are."""

from __future__ import annotations

import re

import pytest

from squall.model.events.names import type_named
from squall.properties.support.timeline_runs import training
from squall.real.rpc import all_gather, rref_proxy
from squall.real.rpc.message_type import MessageType
from squall.sim import pictures
from squall.sim.pictures import glossary, slider
from squall.sim.pictures.critical import LATENCY, critical_path, shares, told
from squall.sim.pictures.packed import WHOLE_MOST, events, opening
from squall.sim.pictures.passes import joint_graph, nodes_of, passes
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import draw


def test_shares_are_all_of_the_critical_path() -> None:
    run = training(latency="lognormal:0.002:0.4")
    path = critical_path(run)
    assert path is not None and path.total_s > 0
    found = shares(run, path)
    assert sum(one.seconds for one in found) == pytest.approx(path.total_s)
    for part, value in path.parts_s.items():
        assert sum(one.seconds for one in found if one.part == part) == pytest.approx(value)
    links = [one for one in found if one.part == LATENCY]
    assert links and all(len(one.where) == 2 and one.where[0] != one.where[1] for one in links)
    words = told(run, path)
    first = found[0]
    assert f"{100 * first.seconds / path.total_s:.0f} % messages on their way" in words
    assert " → ".join(run.name(worker) for worker in first.where) in words
    assert "waiting for messages" in words and "% work" in words


def test_a_step_without_time_has_no_shares() -> None:
    run = training(latency="0")
    path = critical_path(run)
    assert path is not None and path.total_s == 0
    assert shares(run, path) == []
    assert told(run, path).startswith("no virtual time passed in its ")


def test_a_pass_has_as_many_nodes_in_the_list_as_in_its_picture() -> None:
    run = training(steps=3)
    for one in passes(run):
        count = nodes_of(one)
        assert count == len(joint_graph(one))
        (note,) = pictures.graph(run, number=one.number).layout.meta["notes"]
        assert f": {count} nodes on " in note


def test_ticks_of_the_slider_tell_a_time_once() -> None:
    run = training(latency="lognormal:0.002:0.4")
    one = passes(run)[0]
    joint = joint_graph(one)
    steps, _, _ = slider.stops(run, one, joint, list(joint.nodes))
    times = [step["label"].partition(" ")[2] for step in steps]
    told_times = [time for time in times if time]
    assert len(told_times) > 1 and len(set(told_times)) == len(told_times)


def test_hovering_tells_what_ids_are() -> None:
    run = training()

    def texts(figure: object) -> str:
        return " ".join(str(text) for t in figure.data for text in (t.hovertext or ()))  # type: ignore[attr-defined]

    said = texts(pictures.rrefs(replay(draw(204))))
    assert re.search(r"fork \d+:(\d+): number \1 that worker\d gave, one worker's handle", said)
    said = texts(pictures.contexts(run))
    assert "the gradients of one step" in said and "a user called backward() here" in said


@pytest.mark.parametrize(
    "function",
    [all_gather._gather_to_leader, all_gather._receive_broadcast, rref_proxy.local_invoke],
)
def test_functions_of_the_rpc_library_are_explained(function: object) -> None:
    name = getattr(function, "__name__")  # noqa: B009 - any object has none
    assert glossary.about_function(name)
    assert glossary.about_function(f"train: {name}") == glossary.about_function(name)
    assert glossary.about_function("somebody_elses") == ""


def test_a_run_with_an_error_opens_on_it() -> None:
    run = training(steps=6)
    assert len(run) > WHOLE_MOST
    wrong = len(run) * 2 // 3
    at = next(n for n in range(wrong, len(run)) if run.records[n][3].name == "pass_ended")
    time, worker, task, type, values = run.records[at]
    records = list(run.records)
    records[at] = (time, worker, task, type, (values[0], "RuntimeError: lost", *values[2:]))
    failed = pictures.recording(records, outcome="error: RuntimeError")
    first, last = opening(failed)
    assert first <= at <= last and last - first < WHOLE_MOST


def test_messages_and_events_are_told_in_words() -> None:
    for type in MessageType:
        said = type_named(type.name)
        assert said == said.lower().replace("python", "Python") and "_" not in said
        assert said != type.name.lower().replace("_", " "), f"{type.name} has no words"
    run = training()
    said = events(run)
    assert {"function started", "message delivered", "task ended"} <= set(said["names"])
    assert len(said["names"]) == len(said["types"])
    assert not any(type.name in text for type in MessageType for text in said["text"])
    assert any(
        text.startswith("number=") and "release of a context" in text for text in said["text"]
    )
