"""Failing scenarios made small: the same thing breaks, and little else is left."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from squall.model.events.failure_place import place_of
from squall.model.one_process.interpreter import interpret
from squall.model.program.check import check_program
from squall.model.program.file import program_from_json, program_to_json
from squall.model.shrink.cuts import cuts, fewer_workers, with_workers
from squall.model.shrink.simplifications import complexity, size
from squall.properties.support.commands import ROOT, squall
from squall.properties.support.playing import write
from squall.sim.faults.plan import Delay, Drop, Garbage, Pause, Plan, Schedule, SlowStart
from squall.sim.scenario import Expected, Scenario, Script, World
from squall.sim.scenarios.file import load_scenario
from squall.sim.scenarios.replay import digest_matches, replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.replay_with_mutant import again
from squall.sim.search.shrink.cost import Extent, cost, deviations, extent
from squall.sim.search.shrink.shrinker import NotFailingError, Shrinker

SECONDS = 60.0


def of_seed(seed: int, mutant: str | None = None) -> Scenario:
    return replace(draw(seed), expected=Expected(mutant=mutant))


def failing(mutant: str, *, least: int = 5) -> Scenario:
    """The first scenario of a campaign, of some size, that a planted bug breaks."""
    for seed in range(100):
        scenario = of_seed(seed, mutant)
        if (scenario.operations or 0) >= least and again(scenario).violations:
            return scenario
    raise AssertionError(f"nothing brings {mutant} out")


# -- smaller programs -----------------------------------------------------------------------------


def test_candidates_are_valid_and_mean_something() -> None:
    chosen = random.Random(1)
    tried: Counter[str] = Counter()
    with campaign_settings():
        for seed in range(12):
            program = draw(seed).program
            candidates = list(cuts(program))
            assert candidates
            for candidate in chosen.sample(candidates, min(12, len(candidates))):
                check_program(candidate)
                interpret(candidate)
                assert candidate != program
                if size(candidate) < size(program):
                    tried["smaller"] += 1
                else:
                    simpler = complexity(candidate) != complexity(program)
                    tried["simpler" if simpler else "neither"] += 1
    assert tried["smaller"] and tried["simpler"]
    assert tried["neither"] < 0.1 * tried.total()  # the shrinker does not even run these


def test_a_file_can_have_each_candidate() -> None:
    """Parts that a field may not be without are not cut out of it."""
    candidates = 0
    for seed in range(20):
        program = draw(seed).program
        assert program is not None
        for candidate in cuts(program):
            assert program_from_json(program_to_json(candidate)) == candidate
            candidates += 1
    assert candidates > 1_000


def test_workers_are_renumbered() -> None:
    programs = (draw(seed).program for seed in range(1_000))
    program = next(program for program in programs if program.workers > 2)
    for mapping in fewer_workers(program):
        fewer = with_workers(program, mapping)
        assert fewer.workers < program.workers
        check_program(fewer)


# -- shrinking ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutant", "most"),
    [
        ("dependency-not-counted", Extent(1, 1, 0)),
        ("delete-not-sent", Extent(2, 1, 0)),
        ("release-reaches-one-hop", Extent(3, 1, 0)),
        ("gradients-block-their-thread", Extent(3, 8, 2)),
    ],
)
def test_a_planted_bug_becomes_small(mutant: str, most: Extent) -> None:
    scenario = failing(mutant)
    shrinker = Shrinker(scenario, seconds=SECONDS)
    small = shrinker.run()
    before, after = extent(scenario), extent(small)
    assert after.workers is not None and after.operations is not None
    assert before.operations is not None and after.operations < before.operations
    assert (after.workers, after.operations, after.faults) <= most
    assert all(mine <= its for mine, its in zip(after, most, strict=True))  # type: ignore[operator]
    # The same thing breaks, it is the bug that breaks it, and the file says all of it.
    run = again(small)
    assert shrinker.target is not None
    assert (small.expected.property, small.expected.what) == shrinker.target[:2]
    assert shrinker.target[:2] in {(each.property, each.what) for each in run.violations}
    assert digest_matches(small, run)
    assert not again(replace(small, expected=Expected())).violations


def test_a_dependency_bug_shrinks_to_six_nodes() -> None:
    """An operation with four edges to it, from three others, the leaf and the sum."""
    bug = Mutant(
        name="fourth-dependency-not-counted",
        place="autograd.dist_engine:DistEngine.compute_dependencies",
        old="                dependencies[following] += 1\n",
        new="                if dependencies[following] < 3 or KINDS[type(following)] >= RECV:\n"
        "                    dependencies[following] += 1\n",
        wrong="a fourth edge to an operation is not counted",
    )
    with bug.apply():
        scenario = next(
            scenario
            for scenario in map(of_seed, range(400))
            if any(each.property == "dependencies" for each in again(scenario).violations)
        )
        small = Shrinker(
            replace(scenario, expected=Expected(property="dependencies", what="dependency count")),
            seconds=SECONDS,
        ).run()
    assert small.program is not None
    with campaign_settings():
        steps = interpret(small.program).steps.values()
    # Of two outputs of one operation on another worker, fewer nodes do in one process.
    assert sum(len(graph.nodes) for step in steps for graph in step.graphs) <= 7


def test_needless_faults_go() -> None:
    """Five faults, a latency and an order, of which none has to do with what breaks; but a message
    that nobody understands may take the place of the program's own."""
    scenario = failing("release-only-here")
    plan = Plan(
        messages=(
            Delay(seconds=0.1, probability=0.5, id=1),
            Drop(types=("RREF_FORK_REQUEST",), nth=(1,)),
        ),
        workers=(SlowStart(worker=0, delay_s=0.1), Pause(worker=0, for_s=0.2)),
        inner=(Garbage(worker=0),),
        schedule=Schedule(order="random"),
    )
    scenario = scenario.in_world(faults=plan, latency="lognormal:0.001:1.5")
    small = Shrinker(scenario, seconds=SECONDS).run()
    assert extent(small).faults <= 1 and small.faults.schedule == Schedule()
    assert not small.faults or not again(small.in_world(faults=Plan())).violations
    assert cost(small) < cost(scenario)


def test_what_is_needed_of_the_faults_stays() -> None:
    """A second copy of a request is what this bug needs: found, and kept alone."""
    file = ROOT / "properties" / "corpus" / "mutant_fork-request-once-only.json"
    scenario = load_scenario(file)
    noise = (Delay(types=("PYTHON_CALL",), seconds=0.01, nth=(1,)), *scenario.faults.messages)
    noisy = scenario.in_world(faults=replace(scenario.faults, messages=noise))
    small = Shrinker(noisy, seconds=SECONDS).run()
    assert len(small.faults) == len(scenario.faults)
    assert deviations(small).startswith("FIFO everywhere except: ")
    assert not re.search(r"[A-Z]{2}_|=|->", deviations(small))


def test_one_item_stands_for_many() -> None:
    """A bug that shows when every attempt of a release fails: one item instead of 21."""
    scenario = load_scenario(ROOT / "properties" / "corpus" / "mutant_retry-at-once.json")
    (item,) = scenario.faults.messages
    many = tuple(replace(item, nth=(n,)) for n in range(1, 70))
    small = Shrinker(scenario.in_world(faults=replace(scenario.faults, messages=many))).run()
    assert small.faults.messages == (item,)


def test_what_holds_cannot_be_shrunk() -> None:
    with pytest.raises(NotFailingError, match="the scenario holds"):
        Shrinker(of_seed(3)).run()


def test_an_interrupt_keeps_the_best_so_far() -> None:
    scenario = failing("release-only-here")

    def interrupt(shrinker: Shrinker) -> None:
        if cost(shrinker.best) < cost(scenario):
            raise KeyboardInterrupt

    shrinker = Shrinker(scenario, on_progress=interrupt)
    small = shrinker.run()
    assert shrinker.interrupted
    assert cost(small) < cost(scenario)
    assert again(small).violations and small.expected.digest


def test_another_interrupt_while_the_best_is_written_down_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(shrinker: Shrinker) -> None:
        if cost(shrinker.best) < cost(shrinker.first):
            raise KeyboardInterrupt

    def interrupted_at_the_end(*args: Any, **kwargs: Any) -> Any:
        if shrinker.interrupted:
            raise KeyboardInterrupt
        return replay(*args, **kwargs)

    monkeypatch.setattr("squall.sim.search.shrink.shrinker.replay", interrupted_at_the_end)
    shrinker = Shrinker(failing("release-only-here"), on_progress=interrupt)
    small = shrinker.run()
    assert cost(small) < cost(shrinker.first)
    assert again(small).violations and small.expected.digest is None


def test_time_that_is_over_ends_it() -> None:
    shrinker = Shrinker(failing("release-only-here"), seconds=1e-3)
    small = shrinker.run()
    assert shrinker.out_of_time and again(small).violations


def test_it_stays_at_its_place() -> None:
    """The scenario breaks at more than one place; the small one does at the one that was asked for."""
    scenario = failing("release-only-here")
    run = again(scenario)
    places = {place_of(run, each): each for each in run.violations}
    assert len(places) > 1
    for place, violation in places.items():
        expected = replace(scenario.expected, property=violation.property, what=violation.what)
        small = Shrinker(replace(scenario, expected=expected), seconds=3.0, place=place).run()
        assert (small.expected.property, small.expected.what) == violation[:2]
        after = again(small)
        assert place in {
            place_of(after, each) for each in after.violations if each[:2] == violation[:2]
        }
    with pytest.raises(NotFailingError):
        Shrinker(scenario, place="no event of it").run()


SCRIPT = """
    import os
    import torch.distributed.rpc as rpc

    def fail():
        raise ValueError("always")

    rank, size = int(os.environ.get("RANK", 0)), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank == 0:
        rpc.rpc_sync("worker1", fail)
    rpc.shutdown()
"""


def test_a_script_loses_workers_and_faults(tmp_path: Path) -> None:
    script = write(tmp_path, SCRIPT)
    scenario = Scenario(
        work=Script(path=str(script), text=script.read_text(encoding="utf-8"), workers=5),
        world=World(
            latency="lognormal:0.001:1.5",
            faults=Plan(messages=(Delay(seconds=0.1, nth=(1,)),)),
        ),
    )
    small = Shrinker(scenario, seconds=SECONDS).run()
    assert extent(small) == Extent(2, None, 0)
    assert small.world.latency == "0"


# -- the command ----------------------------------------------------------------------------------


def test_the_object_has_the_documented_keys(tmp_path: Path) -> None:
    file = tmp_path / "small.json"
    done = squall("shrink", "1", "--mutant", "release-only-here", "-o", str(file), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    documented = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert all(f"| `{key}` |" in documented for key in told)
    assert set(told["before"]) == set(told["after"]) == {"workers", "operations", "faults"}
    assert told["after"]["operations"] <= 8 and told["file"] == str(file)
    assert load_scenario(file).expected.mutant == "release-only-here"


@pytest.mark.deep("lifts all of them, 280 s")
def test_every_planted_bug_can_be_lifted() -> None:
    mutant = MUTANTS["release-only-here"]
    scenario = failing(mutant.name)
    plain = replace(scenario, expected=Expected())
    with mutant.apply():
        assert again(plain).violations
        with mutant.lifted():
            assert not again(plain).violations
        assert again(plain).violations
