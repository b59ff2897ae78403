"""A scenario is drawn once: campaign, stored file, "again" line and engines use the same one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from squall.model.coverage.sometimes import SITUATIONS, situations
from squall.model.events.run import Run, Violation
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.properties.support.commands import squall
from squall.properties.support.playing import write
from squall.real.tracing import CALL_ENDED, CALL_STARTED
from squall.sim.cli.reports.campaign import Asked
from squall.sim.cli.reports.campaign import again as again_line
from squall.sim.cli.scenario import Changes, read_scenario
from squall.sim.faults.plan import Delay, Plan, Schedule
from squall.sim.names import ENGINE_NAMES, EngineName
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.store import Store, StorePlace
from squall.sim.search.campaign import Campaign
from squall.sim.search.corpus import corpus_for
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import REPEAT_EVERY, drawn_ahead, judge
from squall.sim.stock.cluster import NativeCluster

#: those whose programs once depended on the engine
SEEDS = (13, 15)


@pytest.fixture(scope="module")
def torch_engine(compiled_engine: None) -> Iterator[None]:
    """PyTorch's compiled engine, under the settings of a campaign."""
    with campaign_settings():
        yield


def training() -> Program:
    """Worker 0 asks worker 1 for a product, and trains."""
    step = Step(
        ops=(
            Op(kind="scale", inputs=(Input(1),), worker=1, call="sync", factor=2),
            Op(kind="total", inputs=(Input(1),), worker=0),
        ),
        backwards=(Backward(roots=(1,)),),
    )
    leaves = (Leaf(owner=0, shape=(2,)),)
    return Program(workers=2, leaves=leaves, trainers=(Trainer(worker=0, steps=(step,)),))


# -- the program of a seed ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_a_seed_is_one_program_on_its_way(seed: int, engine: EngineName, tmp_path: Path) -> None:
    settings = Settings(engine=engine)
    program = draw(seed, settings).program
    (judged,) = drawn_ahead([seed], settings)  # what a campaign judges
    assert isinstance(judged, Scenario)
    assert (judged.program, judged.engine) == (program, engine)
    store = Store(StorePlace(tmp_path))
    assert store.keep(judged, found_by="fuzz").scenario == judged  # what it keeps
    asked = Asked(
        seeds=range(seed, seed + 1), minutes=None, jobs=1, device="cpu", engine=engine, faults=None
    )
    line = again_line(Failure(scenario=judged, violation=Violation("rrefs", "x", "y", "z")), asked)
    command, replayed, text, *rest = shlex.split(line)  # what it tells people to run
    assert (command, replayed) == ("squall", "replay")
    assert rest == ([] if engine == "port" else ["--engine", engine])
    assert read_scenario(text, Changes(engine=engine if rest else None)) == judged


def test_a_scenario_of_the_corpus_is_named_on_its_line() -> None:
    for scenario in corpus_for(Settings()):
        asked = Asked(
            seeds=range(1), minutes=None, jobs=1, device="cpu", engine=scenario.engine, faults=None
        )
        line = again_line(
            Failure(scenario=scenario, violation=Violation("rrefs", "x", "y", "z")), asked
        )
        assert read_scenario(line.split()[2], Changes()) == scenario


# -- scripts --------------------------------------------------------------------------------------

FAILING = """
    import torch.distributed.rpc as rpc

    rpc.init_rpc("worker0", rank=0, world_size=1)
    try:
        raise ValueError("no such luck")
    finally:
        rpc.shutdown(graceful=False)
"""


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("torch_engine")
@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_a_script_that_failed_is_kept_with_its_engine(engine: str, tmp_path: Path) -> None:
    script = write(tmp_path, FAILING)
    store = str(tmp_path / "store")
    words = ("run", str(script), "--workers", "1", "--engine", engine, "--json")
    done = squall(*words, SQUALL_STORE=store)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["engine"] == engine and "no such luck" in told["errors"][0]["message"]
    assert load_scenario(Path(told["replay"].split()[-1])).engine == engine


# -- the time that a call may take ----------------------------------------------------------------


@pytest.mark.usefixtures("torch_engine")
@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_a_call_ends_with_the_timeout_that_was_drawn(engine: EngineName) -> None:
    """The request is on its way for longer than the call may take."""
    late = Plan(messages=(Delay(types=("FORWARD_AUTOGRAD_REQ",), dst=1, seconds=9.0, nth=(1,)),))
    world = World(latency="constant:0.001", faults=late, rpc_timeout_s=2.0)
    run = ENGINES[engine].run(Scenario(work=training(), world=world, engine=engine))
    assert run.conditions.left_out == []
    assert run.outcomes.got is not None
    assert "2000 ms" in str(run.outcomes.got.steps[0, 0].error)
    assert timed_out(run) == [2.0]


def timed_out(run: Run) -> list[float]:
    """After how many seconds of virtual time calls ended with a timeout."""
    started: dict[tuple[int, int], float] = {}
    found = []
    for n in run.of(CALL_STARTED, CALL_ENDED):
        time_s, worker, _, type, values = run.records[n]
        if type is CALL_STARTED:
            started[worker, values[0]] = time_s
        elif values[2] == "timeout":
            found.append(round(time_s - started[worker, values[0]], 6))
    return found


# -- what a campaign on torch can do --------------------------------------------------------------


@pytest.mark.usefixtures("torch_engine")
def test_a_run_of_torch_is_compared_with_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(work=training(), seed=1, engine="torch")
    run = play(scenario, times=2)
    assert run.judged.digests == (run.digest, run.digest) and run.judged.divergence is None
    # A defect: a coordinator that keeps counting over all runs, and records each message as longer
    # than the one before.
    message, sent = NativeCluster._message, 0

    def longer(self: NativeCluster, *of: Any) -> Any:
        nonlocal sent
        sent += 1
        made = message(self, *of)
        made.native_size_bytes += sent
        return made

    monkeypatch.setattr(NativeCluster, "_message", longer)
    verdict = judge(scenario, Settings(engine="torch", twice=True))
    assert [each.property for each in verdict.violations] == ["determinism"]


@pytest.mark.usefixtures("torch_engine")
def test_features_are_counted_on_torch() -> None:
    seed = next(seed for seed in range(1, 100) if draw(seed).workers == 2)
    on_torch, on_port = (
        judge(seed, Settings(engine=engine, stats=True)) for engine in ("torch", "port")
    )
    assert on_torch.features == on_port.features != ()


def test_situations_are_asked_for_where_they_can_be_told() -> None:
    assert situations("port") == tuple(SITUATIONS)
    assert set(Campaign("torch").sometimes_counts()) == set(situations("torch")) < set(SITUATIONS)
    assert "a pass that failed" not in situations("torch")


@pytest.mark.usefixtures("torch_engine")
def test_what_happens_around_a_process_of_torch_is_told() -> None:
    late = Plan(messages=(Delay(types=("FORWARD_AUTOGRAD_REQ",), dst=1, seconds=9.0, nth=(1,)),))
    world = World(latency="constant:0.001", faults=late, rpc_timeout_s=2.0)
    scenario = Scenario(work=training(), world=world, engine="torch")
    reached = set(judge(scenario, Settings(engine="torch", stats=True)).sometimes)
    assert {"a response after its timeout", "a timeout of a call that was handled"} <= reached
    assert reached <= set(situations("torch"))


def test_the_help_says_how_often_a_run_is_repeated() -> None:
    told = " ".join(squall("fuzz", "--help", COLUMNS="200").stdout.replace("│", " ").split())
    assert f"one scenario in {REPEAT_EVERY} is run twice" in told


# -- the order of tasks ---------------------------------------------------------------------------


def places(data: Any, name: str, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a name occurs in JSON."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == name:
                yield (*at, key)
            yield from places(value, name, (*at, key))
    elif isinstance(data, list):
        for value in data:
            yield from places(value, name, at)


def test_the_order_stands_in_the_plan_alone() -> None:
    assert "order" not in {field.name for kind in (Scenario, World) for field in fields(kind)}
    seed = next(seed for seed in range(100) if draw(seed).faults.schedule.order == "random")
    text = dump_scenario(draw(seed))
    assert list(places(json.loads(text), "order")) == [("world", "faults", "schedule", "order")]
    assert load_scenario(text).faults.schedule == Schedule(order="random")


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("torch_engine")
@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_the_order_of_the_plan_decides(engine: EngineName) -> None:
    """Messages that arrive at one moment: who comes first is the order's to say."""
    scenario = replace(
        next(s for s in map(draw, range(1, 200)) if s.workers == 3 and s.operations), engine=engine
    )
    first, again, other = (
        ENGINES[engine].run(
            scenario.in_world(latency="0", faults=Plan(schedule=Schedule(order=order)))
        )
        for order in ("random", "random", "fifo")
    )
    assert first.digest == again.digest != other.digest
