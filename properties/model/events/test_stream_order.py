"""Races between kernels, found from what streams tell alone."""

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from squall.model.events.stream_order import Race, StreamEvent, order_graph, races

ONE, TWO = (0, 1), (0, 2)


def kernel(stream, reads=(), writes=()):
    return StreamEvent("kernel", stream, name="k", reads=reads, writes=writes)


def test_kernels_of_one_stream_are_in_order():
    assert (
        races([kernel(ONE, writes=(1,)), kernel(ONE, reads=(1,)), kernel(ONE, writes=(1,))]) == []
    )


def test_a_read_on_another_stream_is_a_race_until_an_event_is_waited_for():
    write, read = kernel(ONE, writes=(1,)), kernel(TWO, reads=(1,))
    assert races([write, read]) == [Race(1, 0, 1)]
    record, wait = StreamEvent("record", ONE, event=7), StreamEvent("wait", TWO, event=7)
    assert races([write, record, wait, read]) == []
    assert races([record, write, wait, read]) == [Race(1, 1, 3)]  # recorded too early


def test_a_write_races_with_the_reads_before_it():
    reads = [kernel(ONE, reads=(1,)), kernel(TWO, reads=(1,))]
    assert races([*reads, kernel(TWO, writes=(1,))]) == [Race(1, 0, 2)]


def test_what_is_queued_after_the_host_has_waited_comes_after():
    write, read = kernel(ONE, writes=(1,)), kernel(TWO, reads=(1,))
    assert races([write, StreamEvent("host", ONE), read]) == []
    assert races([write, StreamEvent("host", TWO), read]) == [Race(1, 0, 2)]


def test_order_is_passed_on_through_a_third_stream():
    three = (0, 3)
    events = [
        kernel(ONE, writes=(1,)),
        StreamEvent("record", ONE, event=1),
        StreamEvent("wait", three, event=1),
        StreamEvent("record", three, event=2),
        StreamEvent("wait", TWO, event=2),
        kernel(TWO, reads=(1,)),
    ]
    assert races(events) == []
    assert list(order_graph(events).edges) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


_STREAMS = st.sampled_from([(0, 0), (0, 1), (1, 0)])
_BLOCKS = st.lists(st.integers(1, 3), max_size=2, unique=True).map(tuple)
_EVENTS = st.lists(
    st.one_of(
        st.builds(kernel, _STREAMS, _BLOCKS, _BLOCKS),
        st.builds(
            StreamEvent,
            st.sampled_from(["record", "wait", "host"]),
            _STREAMS,
            event=st.integers(-1, 3),
        ),
    ),
    max_size=14,
)


@given(_EVENTS)
def test_a_program_has_a_race_where_two_accesses_have_no_path_between_them(events):
    graph = order_graph(events)
    apart = {
        (first, second)
        for second, later in enumerate(events)
        for first, earlier in enumerate(events[:second])
        if earlier.kind == later.kind == "kernel"
        and (
            {*earlier.writes} & {*later.reads, *later.writes} or {*earlier.reads} & {*later.writes}
        )
        and not nx.has_path(graph, first, second)
    }
    found = {(race.first, race.second) for race in races(events)}
    assert found <= apart
    assert bool(found) == bool(apart)
