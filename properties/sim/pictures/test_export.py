"""A run for other tools: Perfetto, Graphviz, GraphML, pandas; and the page as a file."""

from __future__ import annotations

import base64
import gzip
import json
import re
import warnings
from collections import defaultdict
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import pydot
import pytest

from squall.model.events.run import Violation
from squall.properties.support.paths import PROPERTIES
from squall.properties.support.timeline_runs import confirmation, hanging, training
from squall.real import tracing
from squall.sim import pictures
from squall.sim.pictures.export import dot, graphml
from squall.sim.pictures.perfetto import perfetto, perfetto_json
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import Settings, draw
from squall.sim.world.trace import Trace

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

SCHEMA = json.loads(
    (PROPERTIES / "support" / "trace_event_format.json").read_text(encoding="utf-8")
)


@cache
def runs() -> list[pictures.Recording]:
    storms = [replay(draw(seed, Settings("storm"))) for seed in (1, 2)]
    return [training(), confirmation(), hanging(), *map(pictures.recording, storms)]


# -- Perfetto -------------------------------------------------------------------------------------


def format() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("number", range(5))
def test_the_perfetto_file_fits_the_format(number: int) -> None:
    trace = json.loads(perfetto_json(runs()[number]))
    problems = [f"{list(e.absolute_path)}: {e.message}" for e in format().iter_errors(trace)]
    assert not problems, problems[:5]
    assert len(trace["traceEvents"]) > 20


def test_the_schema_refuses_what_the_format_does_not_have() -> None:
    slice = {"ph": "X", "name": "a", "cat": "c", "pid": 1, "tid": 1, "ts": 0, "dur": 1}
    for change in (
        {"ph": "Y"},
        {"ts": -1},
        {"pid": "w"},
        {"dur": None},
        {"ph": "s", "id": 3},
        {"ph": "i"},
        {"ph": "M", "name": "colour"},
    ):
        bad = {key: value for key, value in {**slice, **change}.items() if value is not None}
        assert not format().is_valid({"traceEvents": [bad]}), change


def _ns(event: dict[str, Any]) -> tuple[int, int]:
    """When a slice begins and ends, in nanoseconds, which readers keep time in."""
    first = round(event["ts"] * 1000)
    return first, first + round(event["dur"] * 1000)


@pytest.mark.parametrize("number", range(5))
def test_slices_of_a_thread_lie_inside_each_other_or_apart(number: int) -> None:
    lanes: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in perfetto(runs()[number])["traceEvents"]:
        if event["ph"] == "X":
            lanes[event["pid"], event["tid"]].append(_ns(event))
    assert lanes
    for spans in lanes.values():
        open_until: list[int] = []
        for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= first:
                open_until.pop()
            assert not open_until or last <= open_until[-1]
            open_until.append(last)


@pytest.mark.parametrize("number", range(5))
def test_flows_leave_from_a_slice_and_end_at_one(number: int) -> None:
    run = runs()[number]
    events = perfetto(run)["traceEvents"]
    slices: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    ends: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append(_ns(event))
        elif event["ph"] in "sf":
            ends[event["id"]].append(event)
    arrived = [flow for flow in pictures.flows_of(run) if flow.arrived >= 0]
    assert sorted(ends) == sorted(flow.number for flow in arrived)
    for out, into in ends.values():
        assert (out["ph"], into["ph"]) == ("s", "f")
        assert out["ts"] < into["ts"]
        assert (out["name"], out["cat"]) == (into["name"], into["cat"])
        for end in (out, into):
            around = slices[end["pid"], end["tid"]]
            assert any(first <= round(end["ts"] * 1000) <= last for first, last in around)


def test_time_in_perfetto_is_virtual_time() -> None:
    run = runs()[0]
    times = [e["ts"] for e in perfetto(run)["traceEvents"] if e["ph"] == "s"]
    sent = [run.time_s(f.sent) * 1e6 for f in pictures.flows_of(run) if f.arrived >= 0]
    assert times == pytest.approx(sent, abs=0.001 * len(run))
    assert all(one < other for one, other in pairwise(times))


# -- graphs ---------------------------------------------------------------------------------------


def test_dot_and_graphml_are_the_joint_graph() -> None:
    run = runs()[0]
    joint = pictures.joint_graph(pictures.passes(run)[0])
    read = nx.parse_graphml(graphml(run), force_multigraph=True)
    assert sorted(read.nodes) == sorted(f"w{worker}n{number}" for worker, number in joint)
    assert read.number_of_edges() == joint.number_of_edges()
    for worker, number in joint:
        data = read.nodes[f"w{worker}n{number}"]
        assert data["dependencies"] == joint.nodes[worker, number]["dependencies"]
        assert data["name"] == joint.nodes[worker, number]["name"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydot speaks an older dialect of its parser
        (drawn,) = pydot.graph_from_dot_data(dot(run))
    nodes = [
        node.get_name().strip('"') for part in drawn.get_subgraphs() for node in part.get_nodes()
    ]
    assert sorted(nodes) == sorted(read.nodes)
    edges = {(e.get_source().strip('"'), e.get_destination().strip('"')) for e in drawn.get_edges()}
    assert edges == {(a, b) for a, b in read.edges()}
    assert [part.get_label().strip('"') for part in drawn.get_subgraphs()] == [
        "worker0",
        "worker1",
        "worker2",
    ]


def test_a_run_without_a_pass_has_no_graph_to_write() -> None:
    for write in (dot, graphml):
        with pytest.raises(ValueError, match="there is no backward pass with a graph"):
            write(hanging())
    with pytest.raises(ValueError, match="there is no backward pass 7 with a graph"):
        dot(training(), 7)


# -- tables ---------------------------------------------------------------------------------------


def test_the_frame_has_a_row_for_each_event_and_a_column_for_each_field(tmp_path: Path) -> None:
    import pandas

    from squall.sim.pictures.events_frame import events_frame, write_csv, write_parquet

    run = runs()[3]
    frame = events_frame(run.records)
    assert len(frame) == len(run)
    assert list(frame["event"]) == [record[3].name for record in run.records]
    assert list(frame["time_s"]) == [record[0] for record in run.records]
    sent = frame[frame["event"] == "message_sent"]
    expected = [r for r in run.records if r[3] is tracing.MESSAGE_SENT]
    assert list(sent["message_type"]) == [record[4][3] for record in expected]
    assert list(sent["size_bytes"]) == [record[4][5] for record in expected]
    assert frame["size_bytes"].isna().sum() == len(run) - len(expected)
    write_parquet(frame, tmp_path / "events.parquet")
    again = pandas.read_parquet(tmp_path / "events.parquet")
    pandas.testing.assert_frame_equal(again, frame)
    write_csv(frame, tmp_path / "events.csv")
    text = pandas.read_csv(
        StringIO((tmp_path / "events.csv").read_text(encoding="utf-8")), low_memory=False
    )
    assert list(text["event"]) == list(frame["event"].astype(str))


def test_a_trace_gives_its_events_as_a_frame() -> None:
    from squall.sim.pictures.events_frame import events_frame

    trace = Trace()
    trace.records = list(runs()[0].records)
    assert len(events_frame(trace.records)) == len(trace)


def test_the_events_of_one_kind_have_its_fields_and_no_others() -> None:
    from squall.sim.pictures.events_frame import events_frame, events_of

    run = training()
    sent, every = events_of(run.records, "message_sent"), events_frame(run.records)
    assert list(sent.index) == list(every.index[every.event == "message_sent"])
    fields = ["number", "src", "dst", "message_type", "id", "size_bytes", "about"]
    assert list(sent.columns) == ["time_s", "worker", "task", *fields]
    with pytest.raises(ValueError, match="did you mean 'message_sent'"):
        events_of(run.records, "message_send")


# -- the page as a file ---------------------------------------------------------------------------


def unpacked(page: str, id: str) -> Any:
    found = re.search(rf'<script type="text/plain" id="{id}">([^<]*)</script>', page)
    assert found is not None, f"the page has no {id}"
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_equal_runs_give_equal_pages() -> None:
    assert pictures.page(training()) == pictures.page(training())


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    page = pictures.page(runs()[0])
    ours = page[: page.index("plotly.js v")] + page[page.index('"use strict";\n// One run') :]
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", ours)
    assert "@import" not in ours and "fetch(" not in ours and "XMLHttpRequest" not in ours
    assert page.count("plotly.js v") == 1, "plotly.js is there once"


def test_the_page_says_what_came_of_the_run_and_how_to_see_it_again() -> None:
    run = training()
    last = len(run) - 1
    violation = Violation("passes", "a <b>bad</b> thing", "1 & 2", "3", 1, 0.5, (4, last))
    run = pictures.recording(
        run, violations=(violation,), outcome="violated: passes", replay="squall replay 5 --x '<y>'"
    )
    page = pictures.page(run)
    assert run.digest in page and "violated: passes" in page
    assert f'<a href="#event={last}">#{last}</a>' in page
    assert "a &lt;b&gt;bad&lt;/b&gt; thing" in page and "<b>bad</b>" not in page
    assert "squall replay 5 --x &#39;&lt;y&gt;&#39;" in page
    assert f"{len(run):,}" in page
    core, events = unpacked(page, "core"), unpacked(page, "events")
    assert core["cited"] == [4, last]
    assert len(events["text"]) == len(run)
    assert [view["id"] for view in core["views"]] == [
        "space_time", "calls", "work", "graph", "rrefs", "contexts", "futures", "waits",
    ]  # fmt: skip


def test_what_a_run_says_cannot_break_out_of_its_page() -> None:
    bad = '</script><script>document.title="broken"</script>'
    run = pictures.recording(
        [
            (0.0, 0, 1, tracing.UDF_STARTED, (bad,)),
            (0.1, 0, 1, tracing.UDF_ENDED, (bad, bad)),
        ],
        title=bad,
        outcome=bad,
        replay=bad,
        waits=(bad,),
        facts={bad: bad},
        names={0: bad},
    )
    page = pictures.page(run)
    assert bad not in page
    assert bad in unpacked(page, "events")["text"][0]
