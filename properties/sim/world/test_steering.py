"""Runs that are led another way from some step on."""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest

from squall.sim.library.run import scenario_of
from squall.sim.scenario import Scenario
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import draw
from squall.sim.world.steering import Path, Steering, Tail, Turn, more_tails, tails

#: programs with latencies, whose runs have some hundred steps
SEEDS = (3, 11)
#: each of two processes waits until the other has come
POLLS = """
import os
import torch.distributed as dist

rank = int(os.environ["RANK"])
store = dist.TCPStore("127.0.0.1", 29533, 2, is_master=rank == 0)
for turn in range(3):
    store.add(f"{turn}", 1)
    while store.add(f"{turn}", 0) < 2:
        pass
"""


def led(scenario: Scenario, path: Path = ()) -> tuple[list[object], Steering]:
    steering = Steering(path)
    return list(replay(scenario, watcher=steering).records), steering


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_led_nowhere_is_the_same(seed: int) -> None:
    scenario = draw(seed)
    records, steering = led(scenario)
    assert records == list(replay(scenario).records)
    assert len(steering.entries) == len(steering.events_at)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_steps_before_a_turn_stay_and_those_after_it_are_others(seed: int) -> None:
    scenario = draw(seed)
    base, first = led(scenario)
    step = len(first.entries) // 2
    path = (Turn(step, Tail("messages", 1)),)
    one, other = led(scenario, path), led(scenario, path)
    shared = first.events_at[step]
    assert one[0] == other[0] != base
    assert one[0][:shared] == base[:shared]
    assert one[1].entries[:step] == first.entries[:step]


def test_what_is_held_comes_first_when_it_is_let_go() -> None:
    scenario = draw(SEEDS[0])
    _, first = led(scenario)
    step = next(n for n, entry in enumerate(first.entries) if n > 50 and entry[0] == "message")
    quick = Tail("workers")
    _, held = led(scenario, (Turn(step, quick, hold=True), Turn(step + 5, quick)))
    assert held.entries[step + 5] == first.entries[step]
    assert first.entries[step] not in held.entries[step : step + 5]


def test_what_is_held_is_let_go_when_the_others_only_poll(tmp_path: FilePath) -> None:
    script = tmp_path / "polls.py"
    script.write_text(POLLS, encoding="utf-8")
    scenario = scenario_of(script, workers=2)
    _, first = led(scenario)
    assert len(first.entries) > 5
    for step in range(len(first.entries) // 2, len(first.entries)):
        run = replay(scenario, watcher=Steering((Turn(step, Tail("workers"), hold=True),)))
        assert (run.errors, run.waits, run.ended_s < 60) == ([], [], True)


def test_no_two_tails_are_alike() -> None:
    for workers in (1, 2, 3, 6):
        every = [*tails(workers), *more_tails(20)]
        assert len(set(every)) == len(every)
