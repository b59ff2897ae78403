"""Where the time of a step goes, on runs of scripts: pipelines against their published bubbles, and who waits for whom."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from squall.model.events.group_time import GroupTime, StepTime
from squall.properties.sim.scripts.test_collective_steps import FOLDER, play

F = 0.010
#: seconds beyond those in which a rank computes: of p ranks whose stages take F forward, F for the gradient of their
#: inputs and F for that of their weights; two stages on a rank take half of that each
PUBLISHED = {
    # Huang et al. 2019; Narayanan et al. 2021, section 2.2
    "ScheduleGPipe": lambda p: (p - 1) * 3 * F,
    "Schedule1F1B": lambda p: (p - 1) * 3 * F,
    "ScheduleInterleaved1F1B": lambda p: (p - 1) * 3 * F / 2,
    "ScheduleLoopedBFS": lambda p: (p - 1) * 3 * F / 2,
    # Qi et al. 2023, ZB-H1: (p - 1) (F + I - W), of stages half as long
    "ScheduleInterleavedZeroBubble": lambda p: (p - 1) * F / 2,
    "ScheduleZBVZeroBubble": lambda p: 0.0,
    # deepseek-ai/DualPipe: (F&B + B - 3 W) for each rank but one, where nothing of F&B overlaps
    "ScheduleDualPipeV": lambda p: (p - 1) * (3 + 2 - 3) * F / 2,
}
OF_ONE = "Block=10ms,backward=20ms"
OF_TWO = "Block=5ms,backward=10ms,backward_input=5ms,backward_weight=5ms"


def pipeline(schedule: str, ranks: int, batches: int, *meets: str) -> GroupTime:
    compute = OF_ONE if schedule in ("ScheduleGPipe", "Schedule1F1B") else OF_TWO
    script, links = FOLDER / "even_pipeline.py", "latency=0"
    return GroupTime(
        play(script, schedule, str(batches), *meets, ranks=ranks, links=links, compute=compute)
    )


@pytest.mark.parametrize(("ranks", "batches"), [(4, 8), (2, 6)])
@pytest.mark.parametrize("schedule", PUBLISHED)
def test_an_even_pipeline_has_its_published_bubble(schedule: str, ranks: int, batches: int) -> None:
    found = pipeline(schedule, ranks, batches)
    # In the first step ranks agree on shapes before they compute.
    for step in found.steps[1:]:
        assert step.seconds == pytest.approx(3 * F * batches + PUBLISHED[schedule](ranks))
    for rank in found.ranks:
        assert seconds(found, found.steps[-1], rank)["compute"] == pytest.approx(3 * F * batches)


def test_zbv_has_no_bubble_in_a_rank_but_ranks_begin_one_after_the_other() -> None:
    # From one barrier to the next the last rank's first F waits for those of all others, and the first rank's end for
    # the last rank's: 15 ms, (p - 1) forward passes of half a rank's stages, which the next step would use.
    found, ranks, batches = pipeline("ScheduleZBVZeroBubble", 4, 8, "meets"), 4, 8
    step = found.steps[-1]
    assert step.seconds == pytest.approx(3 * F * batches + (ranks - 1) * F / 2)
    begins = {}
    for each in found.segments_in(step):
        if each.state == "compute":
            begins.setdefault(each.rank, each.start_s - step.start_s[each.rank])
    assert begins == {rank: pytest.approx(rank * F / 2) for rank in range(ranks)}


def seconds(found: GroupTime, step: StepTime, rank: int) -> Counter[str]:
    """Of a rank, by state, and by state and for whom."""
    counted = Counter[str]()
    for each in found.segments_in(step):
        if each.rank == rank:
            counted[each.state] += each.seconds  # type: ignore[assignment]
            if each.by >= 0:
                counted[f"{each.state} {each.by}"] += each.seconds  # type: ignore[assignment]
    return counted


STRAGGLER = """
import time, torch, torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(512, 512))
optimizer = optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    if rank == 2:
        time.sleep(0.02)
    model(torch.ones(4, 512)).sum().backward()
    optimizer.step()
"""


def test_ranks_wait_for_a_straggler_and_the_path_goes_through_it(tmp_path: Path) -> None:
    script = tmp_path / "straggler.py"
    script.write_text(STRAGGLER, encoding="utf-8")
    found = GroupTime(play(script, ranks=4, compute="Linear=10ms"))
    step = found.steps[-1]
    ring_s = 2 * 3 * 5e-6 + 2 * 3 / 4 * (512 * 512 + 512) * 4 / 25e9
    assert len(found.steps) == 3 and step.seconds == pytest.approx(0.03 + ring_s, rel=0.001)
    for rank in (0, 1, 3):
        of_rank = seconds(found, step, rank)
        assert of_rank["compute"] == pytest.approx(0.01)
        assert of_rank["waiting 2"] == pytest.approx(0.02)
        assert of_rank["moving"] == pytest.approx(ring_s, rel=0.01)
    assert seconds(found, step, 2)["compute"] == pytest.approx(0.03)
    path = found.critical_path(step)
    assert [each.kind for each in path[:2]] == ["sleep", "Linear"]
    assert {each.rank for each in path[:2]} == {2} and {each.kind for each in path[2:]} == {
        "all_reduce"
    }
    assert sum(each.seconds for each in path) == pytest.approx(step.seconds)
    assert all(one.end_s == pytest.approx(two.start_s) for one, two in itertools.pairwise(path))


def test_segments_of_a_rank_have_no_gaps_and_a_script_without_steps_is_one() -> None:
    found = GroupTime(play(FOLDER / "collective.py", "all_reduce"))
    (step,) = found.steps
    assert step.number == 0
    for segments in found.segments.values():
        assert segments[0].start_s == 0
        for one, two in itertools.pairwise(segments):
            assert two.start_s == pytest.approx(one.end_s)


OVERLAPPED = """
import torch, torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
layers = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
model = DistributedDataParallel(layers, bucket_cap_mb=1)
optimizer = optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 512)).sum().backward()
    optimizer.step()
"""


def test_what_is_exchanged_in_a_backward_pass_costs_only_what_the_pass_does_not_hide(
    tmp_path: Path,
) -> None:
    script = tmp_path / "overlapped.py"
    script.write_text(OVERLAPPED, encoding="utf-8")
    found = GroupTime(play(script, ranks=4, compute="backward=1ms"))
    step = found.steps[-1]
    # A bucket has one layer; that of the first layer is ready when the pass ends.
    ring_s = 2 * 3 * 5e-6 + 2 * 3 / 4 * (512 * 512 + 512) * 4 / 25e9
    assert step.seconds == pytest.approx(1e-3 + ring_s, rel=0.001)
    assert seconds(found, step, 0)["compute"] == pytest.approx(1e-3)


def test_an_operation_that_is_held_waits_for_those_before_it(tmp_path: Path) -> None:
    script = tmp_path / "overlapped.py"
    script.write_text(OVERLAPPED, encoding="utf-8")
    found = GroupTime(play(script, ranks=4, compute="backward=10us", backend="nccl"))
    path = found.critical_path(found.steps[-1])
    assert sum(each.seconds for each in path) == pytest.approx(found.steps[-1].seconds)
    # On NCCL's stream one follows the other: data moves from the first one's begin to the last one's end.
    assert {each.state for each in path} == {"compute", "moving"}
    assert all(each.src >= 0 for each in path if each.state == "moving")
