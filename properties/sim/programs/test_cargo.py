"""Cargo arrives as it was sent, wherever it is carried, and nobody sees what others write to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import pytest

from squall.model.generate.concurrent import for_compiled
from squall.model.generate.keyed import KeyedChoices
from squall.model.program.cargo import CONTAINERS, Cargo, CargoCall, CargoFailure, CargoPart, Layout
from squall.model.program.cargo_values import build, difference, facts, write
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.model.program.stories import AS_IT_SHOULD_BE
from squall.model.shrink.cuts import cuts
from squall.properties.support.stock_group import StockGroup
from squall.sim.export.scenario import export
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw
from squall.sim.search.judge import judge

LATENCY = World(latency="lognormal:0.001:0.5")


@pytest.fixture(scope="module", autouse=True)
def _settings() -> Iterator[None]:
    with campaign_settings():
        yield


def program_with(*cargoes: Cargo) -> Program:
    """A step of three workers with cargo beside it."""
    op = Op(kind="total", inputs=(Input(1),), worker=1, call="sync")
    step = Step(ops=(op,), backwards=(Backward(roots=(1,)),), cargoes=cargoes)
    leaf = Leaf(owner=0, shape=(2,))
    return Program(workers=3, leaves=(leaf,), trainers=(Trainer(worker=0, steps=(step,)),))


def drawn(seed: int) -> Program:
    choices = KeyedChoices(("cargo", seed))
    draw_one = partial(Cargo.drawn, choices, [1, 0, 2], 1)
    return program_with(*(choices.group("cargo", draw_one) for _ in range(3)))


def told(program: Program, engine: str = "port") -> list[str]:
    scenario = Scenario(work=program, seed=5, engine=engine, world=LATENCY)  # type: ignore[arg-type]
    run = ENGINES[engine].run(scenario)
    assert run.outcomes.got is not None and not run.waits and run.crash is None
    return list(run.outcomes.got.beside.values())


PARTS = (
    *(
        CargoPart(layout=layout, grad=at % 2 == 0, seed=at)
        for at, layout in enumerate(get_args(Layout))
    ),
    CargoPart(kind="view", back=9),
    CargoPart(kind="same", back=3),
    CargoPart(kind="reference", worker=2, seed=7),
    *(CargoPart(kind="plain", seed=seed) for seed in range(15)),
    *(CargoPart(kind=kind, take=3) for kind in sorted(CONTAINERS)),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("call", get_args(CargoCall))
@pytest.mark.parametrize("worker", [0, 1])
def test_everything_arrives_in_every_kind_of_call(call: CargoCall, worker: int) -> None:
    via = (2,) if call == "relay" else ()
    cargo = Cargo(worker=worker, parts=PARTS, call=call, via=via)
    written = replace(cargo, writes=True, wait_s=0.5)
    computed = replace(cargo, passes=2)
    assert told(program_with(cargo, written, computed)) == [AS_IT_SHOULD_BE] * 3


@pytest.mark.parametrize("fails", get_args(CargoFailure))
def test_a_call_that_fails_leaves_nothing(fails: CargoFailure) -> None:
    program = program_with(Cargo(worker=1, parts=PARTS, fails=fails, passes=1))
    scenario = Scenario(work=program, seed=5, world=LATENCY)
    assert judge(scenario).violations == ()


def test_drawn_cargo_on_the_port() -> None:
    for seed in range(30):
        assert set(told(drawn(seed))) == {AS_IT_SHOULD_BE}, seed


def test_drawn_cargo_on_the_compiled_engine(compiled_engine: None) -> None:
    for seed in range(12):
        assert set(told(for_compiled(drawn(seed)), "torch")) == {AS_IT_SHOULD_BE}, seed


@pytest.mark.deep("starts processes of PyTorch again and again")
def test_drawn_cargo_on_stock_pytorch(tmp_path: Path) -> None:
    """What must come is measured: scripts over TensorPipe come to the same."""
    with StockGroup() as group:
        for seed in range(8):
            path = tmp_path / f"{seed}.py"
            scenario = Scenario(work=for_compiled(drawn(seed)), seed=seed, world=LATENCY)
            path.write_text(export(scenario, "x"), encoding="utf-8")
            done = group.run(path, workers=3)
            # Threads print at the same time: two may do so in one line.
            assert done.exit_codes == [0, 0, 0]
            assert len(re.findall(rf", cargoes\[\d\]: {AS_IT_SHOULD_BE}", done.output)) == 3, (
                done.output
            )


def test_campaigns_draw_all_of_it() -> None:
    seen: Counter[str] = Counter()
    for seed in range(600):
        program = draw(seed).program
        assert program is not None
        for _, _, step in program.steps:
            for cargo in step.cargoes:
                seen[cargo.call] += 1
                seen["passes"] += cargo.passes > 0
                seen["fails"] += cargo.fails is not None
                for part in cargo.parts:
                    seen[part.layout if part.kind == "tensor" else part.kind] += 1
    wanted = {*get_args(CargoCall), *get_args(Layout), *CONTAINERS, "view", "same", "reference"}
    assert wanted <= set(seen) and seen["passes"] and seen["fails"]


def test_a_difference_names_the_first_place() -> None:
    parts = tuple({"kind": "tensor", "layout": "whole", "dtype": "int64", "seed": seed, "grad": False,
                   "back": 1, "take": 1, "worker": 0} for seed in (1, 2))  # fmt: skip
    one, other = build(parts, lambda *_: None), build(parts, lambda *_: None)
    assert difference(facts(one), facts(other)) is None
    write(other[1:])
    found = difference(facts(one), facts(other))
    assert found is not None and found.startswith(".1: Tensor torch.int64")


def test_cargo_shrinks_to_nothing_that_is_not_needed() -> None:
    program = program_with(*drawn(1).steps[0][2].cargoes, Cargo(worker=1, parts=PARTS[:19]))
    while smaller := next((each for each in cuts(program) if _has_view(each)), None):
        program = smaller
    (step,) = (step for _, _, step in program.steps)
    (cargo,) = step.cargoes
    assert cargo == Cargo(worker=cargo.worker, parts=(CargoPart(kind="view"),))


def _has_view(program: Program) -> bool:
    cargoes = [cargo for _, _, step in program.steps for cargo in step.cargoes]
    return any(part.kind == "view" for cargo in cargoes for part in cargo.parts)
