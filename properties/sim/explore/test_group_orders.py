"""Every order of what ranks do in process groups: against all interleavings, one by one, and against the simulator."""

from __future__ import annotations

import io
import textwrap
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from squall.properties.support.group_programs import PLAYER, argument, collective, draw
from squall.properties.support.scripts import script_scenario
from squall.sim.cli.reports.group_orders import ToldOfGroups
from squall.sim.explore.group_orders import Orders, Sends, orders_of
from squall.sim.explore.group_program import ANY, GroupProgram, Thread, Wait, receive, send
from squall.sim.explore.groups import SENDS, GroupOrders, explore_groups
from squall.sim.explore.search import Budget
from squall.sim.names import BackendName
from squall.sim.scenarios.engines import ENGINES

ALL = {0: (0, 1)}


def of_one_thread(*ranks: Thread) -> GroupProgram:
    return GroupProgram(tuple((each,) for each in ranks), {0: tuple(range(len(ranks)))})


def outcomes(program: GroupProgram) -> list[set[str]]:
    """By what sends do: with "rendezvous", "streams" and "buffered"."""
    return [{*orders_of(program, sends).ends} for sends in ("rendezvous", "streams", "buffered")]


def test_two_sends_that_wait_for_each_other_end_if_they_are_buffered() -> None:
    ranks = [(send(peer), Wait(0), receive(peer), Wait(1)) for peer in (1, 0)]
    assert outcomes(of_one_thread(*ranks)) == [{"deadlock"}, {"deadlock"}, {"ok"}]


def test_on_streams_a_receive_stays_behind_the_send_of_its_pair() -> None:
    ranks = [(send(peer), receive(peer), Wait(0), Wait(1)) for peer in (1, 0)]
    assert outcomes(of_one_thread(*ranks)) == [{"ok"}, {"deadlock"}, {"ok"}]


def test_what_is_in_one_batch_is_done_together() -> None:
    ranks = [(send(peer, batch=1), receive(peer, batch=1), Wait(0), Wait(1)) for peer in (1, 0)]
    assert outcomes(of_one_thread(*ranks)) == [{"ok"}, {"ok"}, {"ok"}]


def test_batches_of_a_pipeline_whose_receives_come_late_wait_for_each_other() -> None:
    """The order that a comment of pytorch/pytorch#172668 tells of a schedule that puts receives off."""
    ranks = [(send(peer, batch=1), receive(peer, batch=2), Wait(0), Wait(1)) for peer in (1, 0)]
    assert outcomes(of_one_thread(*ranks))[1] == {"deadlock"}


def test_streams_take_messages_in_their_order_whatever_their_tags() -> None:
    sends = (send(1, tag=1), send(1, tag=2), Wait(0), Wait(1))
    receives = (receive(0, tag=2), Wait(0), receive(0, tag=1), Wait(1))
    assert outcomes(of_one_thread(sends, receives)) == [{"ok"}, {"ok"}, {"ok"}]
    sends = (send(1, tag=1), Wait(0), send(1, tag=2), Wait(1))
    assert outcomes(of_one_thread(sends, receives)) == [{"deadlock"}, {"ok"}, {"ok"}]


def test_a_receive_from_any_rank_may_take_what_another_one_waits_for() -> None:
    root = (receive(ANY), Wait(0), receive(1), Wait(1))
    program = of_one_thread(root, (send(0), Wait(0)), (send(0), Wait(0)))
    orders = orders_of(program, "rendezvous")
    assert {(end.outcome, end.choices) for end in orders.all_ends.values()} == {
        ("left", (((0, 0, 0), 1),)),
        ("ok", (((0, 0, 0), 2),)),
    }


def test_threads_of_a_rank_may_call_collectives_in_either_order() -> None:
    def rank(number: int, kinds: str) -> tuple[Thread, ...]:
        return tuple(
            (collective(kind, (0, 1), number, 0), Wait(0, thread))
            for thread, kind in enumerate(kinds.split())
        )

    both = GroupProgram((rank(0, "all_reduce barrier"), rank(1, "all_reduce barrier")), ALL)
    assert {*orders_of(both, "rendezvous").ends} == {"ok", "mismatch"}
    alike = GroupProgram((rank(0, "barrier barrier"), rank(1, "barrier barrier")), ALL)
    assert {*orders_of(alike, "rendezvous").ends} == {"ok"}


def ends(orders: Orders, *, with_choices: bool) -> set[Any]:
    """A mismatch ends a run before all is chosen."""
    found: set[Any] = {end.outcome for end in orders.all_ends.values()}
    if with_choices:
        found |= {key for key in orders.all_ends if key[0] != "mismatch"}
    return found


@pytest.mark.parametrize("sends", SENDS)
@pytest.mark.parametrize("two_threads", [False, True])
def test_all_interleavings_come_to_the_same(sends: Sends, two_threads: bool) -> None:
    compared = 0
    for seed in range(50):
        program = draw(seed, operations=3, two_threads=two_threads)
        each = orders_of(program, sends, every_step=True, most=1500)
        if each.whole:
            compared += 1
            reduced = orders_of(program, sends)
            ways = [ends(orders, with_choices=not two_threads) for orders in (reduced, each)]
            assert (seed, ways[0]) == (seed, ways[1])
    assert compared > 40


def test_how_many_programs_depend_on_buffers() -> None:
    found = Counter(
        tuple("ok" if {*orders_of(draw(seed), sends).ends} == {"ok"} else "not" for sends in SENDS)
        for seed in range(300)
    )
    assert found == {
        # buffered, rendezvous, streams
        ("ok", "ok", "ok"): 195,
        ("not", "not", "not"): 61,
        ("ok", "not", "not"): 34,
        ("ok", "not", "ok"): 4,
        ("ok", "ok", "not"): 3,
        ("not", "ok", "ok"): 3,
    }


OUTCOMES = {"ok": "ok", "not checked": "ok", "error": "left", "failed": "left"}


BACKENDS: dict[Sends, BackendName] = {"rendezvous": "gloo", "streams": "nccl", "buffered": "mpi"}


def agree(folder: Path, seeds: range, sends: Sends, *, two_threads: bool) -> Counter[str]:
    """Whether what the simulator comes to is one of what the model says, or the one."""
    script = folder / "player.py"
    script.write_text(PLAYER, encoding="utf-8")
    found: Counter[str] = Counter()
    for seed in seeds:
        program = draw(seed, two_threads=two_threads)
        if sends == "streams" and program.receives_from_any:
            continue
        expected = {*orders_of(program, sends).ends}
        scenario = script_scenario(
            script, argument(program), workers=len(program.ranks), seed=seed, order="random"
        )
        assert scenario.script is not None
        scenario = replace(scenario, work=replace(scenario.script, backend=BACKENDS[sends]))
        run = ENGINES["port"].run(scenario, stdout=io.StringIO(), stderr=io.StringIO())
        if any(
            "are called in another order" in text
            for text in run.process_groups.found.get("mismatch", ())
        ):
            continue  # they are equal but for the lines of their threads, which the model does not compare
        outcome = OUTCOMES.get(run.outcome, run.outcome)
        assert (seed, outcome, outcome in expected) == (seed, outcome, True), expected
        found[outcome] += 1
    return found


@pytest.mark.parametrize("sends", SENDS)
@pytest.mark.parametrize("two_threads", [False, True])
def test_the_simulator_comes_to_what_the_model_says(
    tmp_path: Path, sends: Sends, two_threads: bool
) -> None:
    assert len(agree(tmp_path, range(12), sends, two_threads=two_threads)) > 1


@pytest.mark.deep("a minute")
@pytest.mark.parametrize("sends", SENDS)
@pytest.mark.parametrize("two_threads", [False, True])
def test_the_simulator_comes_to_what_the_model_says_of_many(
    tmp_path: Path, sends: Sends, two_threads: bool
) -> None:
    found = agree(tmp_path, range(100, 400), sends, two_threads=two_threads)
    assert {*found} >= {"ok", "deadlock", "mismatch"}


# -- scripts ------------------------------------------------------------------------------


def explored(folder: Path, source: str, workers: int) -> GroupOrders:
    script = folder / "script.py"
    head = "import torch\nimport torch.distributed as dist\n\n"
    head += 'dist.init_process_group("gloo")\nrank = dist.get_rank()\nx = torch.ones(2)\n'
    script.write_text(head + textwrap.dedent(source), encoding="utf-8")
    orders = explore_groups(script_scenario(script, workers=workers), Budget(100))
    assert orders is not None
    return orders


def test_a_script_tells_its_lines(tmp_path: Path) -> None:
    orders = explored(tmp_path, "dist.send(x, 1 - rank)\ndist.recv(x, 1 - rank)\n", 2)
    assert (orders.good, orders.runs, orders.all_end("buffered")) == (False, 1, True)
    assert orders.ends["rendezvous"]["deadlock"].lines == (
        "rank 0 waits for rank 1: send to rank 1 with tag 0 at script.py:7",
        "rank 1 waits for rank 0: send to rank 0 with tag 0 at script.py:7",
    )


def test_a_script_that_goes_on_by_who_has_come_first_is_run_for_each(tmp_path: Path) -> None:
    source = """
    if rank == 0:
        first = dist.recv(x)
        if first == 2:
            dist.recv(x, 2)  # which sends once
        else:
            dist.recv(x, 2)
    else:
        dist.send(x, 0)
    """
    orders = explored(tmp_path, source, 3)
    assert orders.runs == 3  # before anything is known of them, and one for each rank
    assert {*orders.ends["rendezvous"]} == {"ok", "left"}
    assert orders.ends["rendezvous"]["left"].choices == (((0, 0, 0), 2),)


def test_a_script_that_fails_if_another_one_comes_first_is_found(tmp_path: Path) -> None:
    source = """
    if rank == 0:
        first = dist.recv(x)
        dist.recv(x)
        assert first == 1
    else:
        dist.send(x, 0)
    """
    orders = explored(tmp_path, source, 3)
    assert {*orders.ends["rendezvous"]} == {"ok", "error"}
    assert orders.ends["rendezvous"]["error"].choices[0] == ((0, 0, 0), 2)
    assert not orders.good


def test_a_script_on_nccl_is_judged_by_its_streams(tmp_path: Path) -> None:
    source = """
    other, y = 1 - rank, torch.empty(2)
    works = [dist.isend(x, other), dist.irecv(y, other)]
    for work in works:
        work.wait()
    """
    orders = explored(tmp_path, source, 2)
    assert (orders.good, orders.backends) == (True, ("gloo",))
    assert [orders.all_end(sends) for sends in SENDS] == [True, True, False]
    assert not replace(orders, backends=("nccl",)).good


def test_whoever_asks_whether_an_operation_is_over_is_told(tmp_path: Path) -> None:
    orders = explored(
        tmp_path, "work = dist.barrier(async_op=True)\nwork.is_completed()\nwork.wait()\n", 2
    )
    assert orders.polled == ("script.py:8",)


def test_whoever_takes_a_future_may_wait_for_it_unseen(tmp_path: Path) -> None:
    source = "dist.isend(x, 1 - rank).get_future().wait()\ndist.recv(x, 1 - rank)\n"
    assert explored(tmp_path, source, 2).polled == ("script.py:7",)


def test_a_script_that_fails_by_itself_has_an_error(tmp_path: Path) -> None:
    orders = explored(tmp_path, 'dist.barrier()\nraise ValueError("no")\n', 2)
    for ends in orders.ends.values():
        assert [(each, end.lines) for each, end in ends.items()] == [("error", ("rank 0: no",))]


def test_a_script_without_process_groups_has_other_orders(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n", encoding="utf-8")
    assert explore_groups(script_scenario(script, workers=2), Budget(100)) is None


SCHEDULES = {
    "ScheduleGPipe": range(1, 9),
    "Schedule1F1B": range(4, 9),
    "ScheduleInterleaved1F1B": range(1, 9),
    "ScheduleLoopedBFS": range(1, 9),
    "ScheduleInterleavedZeroBubble": range(1, 9),
    "ScheduleZBVZeroBubble": range(1, 9),
    "ScheduleDualPipeV": range(8, 9),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_of_pipelines_end_whatever_sends_do(name: str) -> None:
    """With four ranks; those of two and three are in docs/proven.md."""
    for parts in SCHEDULES[name]:
        script = Path(__file__).with_name("pipeline_schedule.py")
        orders = explore_groups(script_scenario(script, name, str(parts), workers=4), Budget(1))
        assert orders is not None
        assert orders.whole
        assert [orders.all_end(sends) for sends in SENDS] == [True, True, True]


def test_of_what_was_interrupted_nothing_is_told() -> None:
    ranks = [(send(peer), Wait(0), receive(peer), Wait(1)) for peer in (1, 0)]
    orders = GroupOrders(of_one_thread(*ranks), (), whole=False, interrupted=True)
    printed = io.StringIO()
    ToldOfGroups("train.py", orders).print(Console(file=printed, width=100))
    assert printed.getvalue().count("unknown,") == len(SENDS)
