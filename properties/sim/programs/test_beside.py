"""Chains of references come to their number, and of updates at the same time none is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from squall.model.generate.concurrent import draw_beside, for_compiled
from squall.model.generate.keyed import KeyedChoices
from squall.model.program.chain import Chain, Ending, Link, LinkKind, Origin
from squall.model.program.check import ProgramError
from squall.model.program.file import dump_program, load_program
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer, beside
from squall.model.program.stories import AS_IT_SHOULD_BE
from squall.model.program.updates import LedgerCall, Stepper, Updates
from squall.model.shrink.cuts import with_workers
from squall.properties.support.stock_group import StockGroup
from squall.sim.export.scenario import export
from squall.sim.faults.plan import Plan, Schedule
from squall.sim.programs.stories.updates import complaint
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


def program_with(**things: Any) -> Program:
    """A step of three workers with something beside it."""
    op = Op(kind="total", inputs=(Input(1),), worker=1, call="sync")
    step = Step(ops=(op,), backwards=(Backward(roots=(1,)),), **things)
    leaf = Leaf(owner=0, shape=(2,))
    return Program(workers=3, leaves=(leaf,), trainers=(Trainer(worker=0, steps=(step,)),))


def drawn(field: str, seed: int) -> Program:
    choices = KeyedChoices((field, seed))
    return program_with(**draw_beside(choices, (field,), [0, 1, 2], 1))


def told(program: Program, engine: str = "port") -> set[str]:
    """What came of all that goes on beside the step, also if nothing does."""
    scenario = Scenario(work=program, seed=5, engine=engine, world=LATENCY)  # type: ignore[arg-type]
    run = ENGINES[engine].run(scenario)
    assert run.outcomes.got is not None and not run.waits and run.crash is None
    assert len(run.outcomes.got.beside) == len(beside(program.steps[0][2]))
    return set(run.outcomes.got.beside.values()) | {AS_IT_SHOULD_BE}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("origin", get_args(Origin))
@pytest.mark.parametrize("ending", get_args(Ending))
def test_every_chain_comes_to_its_number(origin: Origin, ending: Ending) -> None:
    links = tuple(Link(kind=kind, worker=w) for w in range(3) for kind in get_args(LinkKind))
    via = (2,) if origin == "elsewhere" else ()
    chain = Chain(worker=1, origin=origin, via=via, links=links, readers=(0, 1, 2), ending=ending)
    program = program_with(chains=(chain,))
    random = World(latency="uniform:0.0001:0.01", faults=Plan(schedule=Schedule(order="random")))
    for seed in range(3):
        assert judge(Scenario(work=program, seed=seed, world=random)).violations == ()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("stepper", get_args(Stepper))
@pytest.mark.parametrize("ledger", get_args(LedgerCall))
@pytest.mark.parametrize("shared", [False, True])
def test_updates_of_all_are_there_once(stepper: Stepper, ledger: LedgerCall, shared: bool) -> None:
    updates = Updates(worker=1, owners=(0, 1, 2), trainers=(0, 1, 2, 1), steps=2, stepper=stepper,
                      shared=shared, skips=True, pause_s=0.001, ledger=ledger)  # fmt: skip
    assert judge(Scenario(work=program_with(updates=(updates,)), world=LATENCY)).violations == ()


def test_sums_tell_which_updates_have_happened() -> None:
    assert complaint("p", 0b101, must=0b001, may=0b111) is None
    assert complaint("p", 0b100, must=0b001, may=0b111) == "p: updates 100, expected 1"
    assert complaint("p", 0b1001, must=0b001, may=0b111) == "p: updates 1001, expected 1"


@pytest.mark.parametrize("field", ["chains", "updates"])
def test_drawn_on_the_compiled_engine(field: str, compiled_engine: None) -> None:
    for seed in range(12):
        assert told(for_compiled(drawn(field, seed)), "torch") == {AS_IT_SHOULD_BE}, seed


@pytest.mark.deep("starts processes of PyTorch again and again")
@pytest.mark.parametrize("field", ["chains", "updates"])
def test_drawn_on_stock_pytorch(field: str, tmp_path: Path) -> None:
    with StockGroup() as group:
        for seed in range(6):
            path = tmp_path / f"{seed}.py"
            program = for_compiled(drawn(field, seed))
            path.write_text(
                export(Scenario(work=program, seed=seed, world=LATENCY), "x"), encoding="utf-8"
            )
            done = group.run(path, workers=3)
            assert done.exit_codes == [0, 0, 0]
            # Threads print at the same time: two may do so in one line.
            said = re.findall(rf", {field}\[\d\]: {AS_IT_SHOULD_BE}", done.output)
            assert len(said) == len(beside(program.steps[0][2])), done.output


def test_campaigns_draw_all_of_it() -> None:
    seen: Counter[str] = Counter()
    for seed in range(600):
        program = draw(seed).program
        assert program is not None
        for _, _, step in program.steps:
            seen.update(update.stepper for update in step.updates)
            for chain in step.chains:
                seen.update((chain.origin, chain.ending, *(link.kind for link in chain.links)))
    assert {*get_args(Stepper), *get_args(Origin), *get_args(Ending), *get_args(LinkKind)} <= set(
        seen
    )


def test_chains_wait_for_their_values_on_the_compiled_engine() -> None:
    """A reference that its owner hands on before it is made has no value there."""
    links = (Link(worker=1), Link(kind="add", worker=1), Link(worker=1))
    program = program_with(chains=(Chain(worker=1, links=links, readers=(1, 1)),))
    (step,) = (step for _, _, step in for_compiled(program).steps)
    assert [chain.waits for chain in step.chains] == [True]
    assert told(for_compiled(program)) == {AS_IT_SHOULD_BE}


def test_files_keep_it_and_workers_are_renumbered() -> None:
    chain = Chain(worker=2, links=(Link(worker=2),), readers=(2, 1))
    program = program_with(
        chains=(chain,), updates=(Updates(worker=1, owners=(2,), trainers=(1, 2)),)
    )
    assert load_program(dump_program(program)) == program
    (step,) = (step for _, _, step in with_workers(program, {0: 0, 1: 1, 2: 1}).steps)
    assert step.chains[0] == Chain(worker=1, links=(Link(worker=1),), readers=(1, 1))
    assert step.updates[0] == Updates(worker=1, owners=(1,), trainers=(1, 1))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("things", "place"),
    [
        ({"chains": (Chain(worker=3),)}, r"chains\[0\].worker: 3 is not one of"),
        ({"chains": (Chain(worker=0, readers=(0, 7)),)}, r"chains\[0\].readers\[1\]: 7"),
        ({"chains": (Chain(worker=0, links=(Link(worker=9),)),)}, r"links\[0\].worker: 9"),
        ({"chains": (Chain(worker=0, origin="elsewhere"),)}, r"chains\[0\].via: there is one"),
        ({"chains": (Chain(worker=0, before=-1),)}, r"chains\[0\].before: -1 is negative"),
        ({"updates": (Updates(worker=0, owners=(4,)),)}, r"updates\[0\].owners\[0\]: 4"),
    ],
)
def test_what_makes_no_sense_is_refused(things: dict[str, Any], place: str) -> None:
    with pytest.raises(ProgramError, match=place):
        program_with(**things)
