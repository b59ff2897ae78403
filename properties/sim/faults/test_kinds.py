"""What is said of each kind of fault, in the documentation and to the checks."""

from __future__ import annotations

import re

import pytest

from squall.model.events.fault_effects import NATURES
from squall.properties.support.paths import DOCS
from squall.sim.faults.plan import (
    GROUPS,
    Crash,
    Delay,
    Drop,
    Hold,
    Moment,
    Partition,
    Plan,
    Selector,
)
from squall.sim.faults.registry import DRAWS
from squall.sim.faults.table import table
from squall.sim.library import faults
from squall.sim.search.draw import Settings, draw

STORM = Settings("storm")


def test_the_documentation_has_what_the_kinds_say_of_themselves() -> None:
    text = (DOCS / "faults.md").read_text(encoding="utf-8")
    assert table() in text, "see python -m squall.sim.faults.table"


def test_checks_and_scripts_know_every_kind() -> None:
    kinds = {name for names in GROUPS.values() for name in names}
    assert set(NATURES) == kinds
    public = {getattr(faults, name) for name in faults.__all__}
    assert {kind for names in GROUPS.values() for kind in names.values()} <= public


def test_every_kind_is_drawn_in_some_way() -> None:
    kinds = {kind.__module__ for each in GROUPS.values() for kind in each.values()}
    assert {draw.items.__module__ for draw in DRAWS.values()} == kinds


def test_every_kind_says_what_it_does_in_words() -> None:
    drawn = [item for seed in range(40) for _, _, item in draw(seed, STORM).faults.items()]
    assert {item.kind for item in drawn} == {name for kinds in GROUPS.values() for name in kinds}
    for item in drawn:
        told = item.told({0: "ps"})
        assert told and not re.search(r"=|[A-Z]{2}_|None|worker 0|\[|  ", told), told
    names = {0: "ps", 1: "trainer"}
    for fault, told in {
        Drop(
            types=("PYTHON_RET",), src=0, dst=1, nth=(4,)
        ): "drops the 4th answer of a Python function from ps to trainer",
        Delay(
            seconds=2, direction="response", dst=0, from_s=1, probability=0.5
        ): "delays every reply to ps sent from 1 s on by 2 s, with probability 0.5",
        Hold(
            nth=(1, 3), until=Selector(src=1)
        ): "holds the 1st and 3rd message, until every message from trainer was "
        "handled, for 60 s at most",
        Crash(
            worker=1, silent=True, restart_after_s=3
        ): "ends the process of trainer at 0 s, which its peers do not "
        "notice, and starts it again 3 s later",
        Crash(
            worker=2, moment=Moment(event="udf_started", nth=2, worker=0)
        ): "ends the process of worker 2 after the 2nd 'function started' on ps",
        Partition(
            groups=((0,), (1, 2)), until_s=3
        ): "separates ps from trainer and worker 2 until 3 s (messages are lost)",
    }.items():
        assert fault.told(names) == told


def test_a_plan_for_workers_with_other_numbers() -> None:
    plan = Plan(
        messages=(Hold(src=3, until=Selector(src=3, dst=1)),),
        partitions=(Partition(groups=((0,), (1, 3))),),
        workers=(Crash(worker=3, moment=Moment(event="pass_started", worker=1)),),
    )
    assert plan.renumbered({0: 0, 3: 1}) == Plan(
        messages=(Hold(src=1, until=Selector(src=1)),),
        partitions=(Partition(groups=((0,), (1,))),),
        workers=(Crash(worker=1, moment=Moment(event="pass_started")),),
    )


@pytest.mark.parametrize("gone", ["src", "worker"])
def test_what_is_about_a_worker_that_is_gone_has_no_other_number(gone: str) -> None:
    item = Crash(worker=2) if gone == "worker" else Hold(src=2, until=Selector())
    assert item.renumbered({0: 0, 1: 1}) is None


def test_both_ends_of_a_link_cannot_become_one() -> None:
    assert Hold(src=1, dst=2, until=Selector()).renumbered({1: 0, 2: 0}) is None


def test_workers_of_two_groups_cannot_become_one() -> None:
    apart = Partition(groups=((0, 1), (2,)))
    assert apart.renumbered({0: 0, 1: 1, 2: 0}) is None
    assert apart.renumbered({0: 0, 1: 0, 2: 1}) == Partition(groups=((0,), (1,)))
