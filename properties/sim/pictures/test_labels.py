"""What pictures say in words: the critical path, and what ids and functions are."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import squall
from squall.model.events.names import function_named, type_named
from squall.properties.sim.pictures.test_call_tree import NESTED
from squall.properties.support.commands import ROOT
from squall.properties.support.internal_words import INTERNAL
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.properties.support.timeline_runs import training
from squall.real.rpc import all_gather, rref_proxy
from squall.real.rpc.message_type import MessageType
from squall.sim import pictures
from squall.sim.pictures import glossary, slider
from squall.sim.pictures.critical import LATENCY, critical_path, shares, told
from squall.sim.pictures.page_payload import WHOLE_MOST, events, opening
from squall.sim.pictures.passes import joint_graph, nodes_of, passes
from squall.sim.pictures.recording import explained
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import Settings, draw
from squall.sim.world.call_lines import CallLines
from squall.sim.world.watch import watching


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
    assert re.search(r"fork \d+ of (worker\d) .{,600}; \1 gave the number", said)
    said = texts(pictures.contexts(run))
    assert "the gradients of one step" in said and "a user called backward() here" in said
    assert "1st context of worker0 on worker2" in said and "its context_id is 0" in said


@pytest.mark.parametrize(
    "function",
    [all_gather._gather_to_leader, all_gather._receive_broadcast, rref_proxy.local_invoke],
)
def test_functions_of_the_rpc_library_are_explained(function: object) -> None:
    name = function_named(getattr(function, "__name__"))  # noqa: B009 - any object has none
    assert not INTERNAL.search(name)
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
    sent = "release of a context, worker1 → worker2, message 28, call 6, 1st context of worker0, 8 bytes"
    assert sent in said["text"]
    assert {"main", "scaled", "the release of a context"} <= set(said["tasks"].values())


GROUP = """
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(3))
    if dist.get_rank():
        dist.send(torch.ones(2), 0)
    else:
        dist.recv(torch.zeros(2), 1)
    dist.destroy_process_group()
"""


def shown(run: pictures.Recording) -> list[str]:
    """The texts of a page that people read: of what it draws, of its head, of its table of events."""
    page = pictures.page(run, plotly="file")
    head = re.sub(
        r"<[^>]*>|digest", " ", page[page.index("<body>") : page.index('<script type="text/plain"')]
    )
    found = [head]
    for packed in re.findall(
        r'<script type="text/plain" id="(?!core)[^"]*">([^<]*)</script>', page
    ):
        found += _texts(json.loads(gzip.decompress(base64.b64decode(packed))))
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in ("bdata", "types", "template", "args"):
                yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def drawn(_: Path) -> pictures.Recording:
    scenario = draw(3, Settings("rough"))
    run = pictures.recording(replay(scenario))
    explained(run, scenario, ["3"], None)
    return run


def script(folder: Path) -> pictures.Recording:
    with watching(noted := CallLines()):
        ran = run_file(write(folder, NESTED), workers=3)
    return pictures.recording(ran, **noted.found)


def group(folder: Path) -> pictures.Recording:
    return pictures.recording(run_file(write(folder, GROUP), workers=2, engine="torch"))


@pytest.mark.parametrize("seed", range(5, 13))
def test_a_run_is_the_same_whether_lines_are_noted_or_not(seed: int) -> None:
    scenario = draw(seed, Settings())
    with watching(CallLines()):
        noted = replay(scenario)
    assert noted.digest == replay(scenario).digest


@pytest.mark.parametrize("play", [drawn, script, group])
def test_a_page_has_no_words_of_the_simulator(
    play: Callable[[Path], pictures.Recording], tmp_path: Path
) -> None:
    run = play(tmp_path)
    assert run.ok
    told = shown(run)
    assert len(told) > 200
    assert not {text for text in told if INTERNAL.search(text)}


@pytest.mark.parametrize("file", ["pipeline.py", "parameter_server.py"])
def test_pictures_and_lines_of_a_run_in_python_have_none_either(file: str) -> None:
    run = squall.run(ROOT / "examples" / file, workers=None, seed=1)
    shown = [*_texts(json.loads(run.picture("space_time").to_json())), *run.lines()]
    shown += _texts(json.loads(run.picture("work").to_json()))
    assert any("shutdown" in text for text in shown)
    assert not {text for text in shown if INTERNAL.search(text)}
