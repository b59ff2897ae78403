"""A step as a picture, and its critical path in words."""

from __future__ import annotations

from squall.model.events.group_time import GroupTime, Hop
from squall.properties.sim.scripts.test_collective_steps import FOLDER, play
from squall.sim.pictures.step_time import step_time, told


def test_bars_are_all_of_a_step() -> None:
    found = GroupTime(
        play(
            FOLDER / "even_pipeline.py", "Schedule1F1B", "4",
            ranks=2, links="latency=1ms", compute="Block=10ms,backward=20ms",
        )
    )  # fmt: skip
    step = found.steps[-1]
    figure = step_time(found, step)
    bars = {trace.name: trace for trace in figure.data if trace.type == "bar"}
    assert {"Block", "backward", "message: data moves", "waiting"} <= bars.keys()
    for rank in (0, 1):
        row = f"rank {rank}"
        shown_ms = sum(
            x for bar in bars.values() for x, y in zip(bar.x, bar.y, strict=True) if y == row
        )
        assert round(shown_ms, 6) == round(1e3 * (step.end_s[rank] - step.start_s[rank]), 6)
    assert len(bars["Block"].x) == len(bars["backward"].x) == 8
    (line,) = (trace for trace in figure.data if trace.type == "scatter")
    assert line.x[0] < line.x[-1] == max(line.x)


def test_a_path_is_told_in_order_and_by_its_shares() -> None:
    path = [
        Hop(0, 0.0, 0.06, "compute", "linear"),
        Hop(0, 0.06, 0.07, "compute", "backward"),
        Hop(1, 0.07, 0.09, "moving", "all_reduce", 0),
        Hop(2, 0.09, 0.1, "moving", "all_reduce", 1),
    ]
    shares, course = told(path)
    assert shares == (
        "100 ms: 70 % rank 0 computes (70 ms), 20 % all_reduce from rank 0 to rank 1 (20 ms), "
        "10 % all_reduce from rank 1 to rank 2 (10 ms)"
    )
    assert course == "rank 0 computes 70 ms, then all_reduce along ranks 0, 1, 2 30 ms"
    assert told([]) == ["no virtual time passed"]
