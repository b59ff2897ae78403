"""Keyed choices: each question has its own answer, and changing one leaves the others alone."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.model.generate.generator import generate
from squall.model.generate.keyed import Changes, KeyedChoices
from squall.model.one_process.flow import forecast
from squall.model.program.file import program_to_json
from squall.model.program.program import Program
from squall.sim.search.draw import PROFILES, draw, settings_of
from squall.sim.search.schedules import Rescheduled, rescheduled

NUMBERS = st.floats(0, 1, exclude_max=True)
#: programs that are looked at
SEEDS = 200


def keys_of(seed: int) -> list[str]:
    choices = KeyedChoices(seed)
    generate(choices)
    return choices.asked


def changed(seed: int, changes: Changes) -> Program:
    """Valid, or making it has raised."""
    return generate(KeyedChoices(seed, changes))


@given(st.integers(0, 10_000), st.data())
def test_no_change_makes_a_program_invalid(seed: int, data: st.DataObject) -> None:
    keys = keys_of(seed)
    groups = {key.rpartition("/")[0] for key in keys} - {""}
    changes = data.draw(
        st.dictionaries(st.sampled_from(sorted({*keys, *groups})), NUMBERS, max_size=5)
    )
    program = changed(seed, changes)
    for trainer, number, _ in program.steps:
        forecast(program, trainer, number)


@given(st.integers(0, 10_000), st.sampled_from(["", *PROFILES]), st.data())
def test_no_change_makes_a_scenario_invalid(seed: int, profile: str, data: st.DataObject) -> None:
    keys = ["program#0", "world#0", "faults#0", "failing calls#0", "run#0", "world#0/latency#0"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), NUMBERS))
    settings = settings_of(profile)
    assert draw(seed, settings, changes) == draw(seed, settings, dict(changes))


def test_a_change_of_one_choice_leaves_most_of_the_program_alone() -> None:
    """As parts of operations and leaves that stay, of programs that differ at all."""
    stream = random.Random(0)
    same = parts = 0
    for seed in range(SEEDS):
        before = program_to_json(generate(KeyedChoices(seed)))
        after = program_to_json(changed(seed, {stream.choice(keys_of(seed)): stream.random()}))
        if before != after:
            ours, theirs = _parts(before), _parts(after)
            same += (ours & theirs).total()
            parts += max(ours.total(), theirs.total())
    assert same / parts > 0.65


def _parts(program: dict[str, object]) -> Counter[str]:
    found: Counter[str] = Counter()
    leaves, trainers = program["leaves"], program["trainers"]
    assert isinstance(leaves, list) and isinstance(trainers, list)
    found.update(repr(leaf) for leaf in leaves)
    for trainer in trainers:
        found.update(repr(op) for step in trainer["steps"] for op in step["ops"])
    return found


@given(st.integers(), st.text(max_size=3), NUMBERS)
def test_a_change_answers_its_own_question_alone(seed: int, name: str, number: float) -> None:
    def ask(choices: KeyedChoices) -> list[float]:
        return [choices.number(each) for each in ("first", name, "last", name)]

    before, after = ask(KeyedChoices(seed)), ask(KeyedChoices(seed, {f"{name}#0": number}))
    at = ["first", name, "last", name].index(name)
    assert after[at] == pytest.approx(number)
    assert before[:at] + before[at + 1 :] == after[:at] + after[at + 1 :]


def test_a_change_of_a_group_draws_what_is_in_it_anew() -> None:
    def ask(changes: Changes) -> tuple[list[float], float]:
        choices = KeyedChoices(7, changes)
        inside = choices.group("part", lambda: [choices.number("a"), choices.number("b")])
        return inside, choices.number("a")

    (before, outside), (after, still) = ask({}), ask({"part#0": 0.5})
    assert outside == still
    assert all(mine != yours for mine, yours in zip(before, after, strict=True))
    assert ask({"part#0": 0.5}) != ask({"part#0": 0.25})
    assert ask({"part#0": 0.5, "part#0/b#0": 0.125})[0] == [after[0], 0.125]


def test_one_option_more_takes_its_share_and_moves_nobody() -> None:
    options = ("sync", "sync", "async", "remote")
    taken = 0
    for seed in range(4_000):
        before = KeyedChoices(seed).pick("call", options)
        after = KeyedChoices(seed).pick("call", ("new", *options))
        taken += after == "new"
        assert after in (before, "new")
    assert 700 < taken < 900


def test_an_option_that_is_there_twice_is_picked_twice_as_often() -> None:
    counts = Counter(KeyedChoices(seed).pick("call", ("a", "b", "a")) for seed in range(3_000))
    assert 1_900 < counts["a"] < 2_100


def test_a_number_outside_of_the_unit_interval_is_refused() -> None:
    with pytest.raises(ValueError, match=r"run#0: 1\.0 is no number in"):
        KeyedChoices(0, {"run#0": 1.0})


@pytest.mark.parametrize("profile", ["", *PROFILES])
def test_another_schedule_computes_the_same_in_another_world(profile: str) -> None:
    settings = settings_of(profile)
    worlds = set()
    for schedule in range(20):
        scenario = draw(Rescheduled(712, schedule), settings)
        assert scenario.work == draw(712, settings).work
        assert rescheduled(scenario.note) == (712, schedule)
        worlds.add((scenario.seed, repr(scenario.world)))
    assert len(worlds) == 20
    assert len({world for _, world in worlds}) > 3


def test_names_of_schedules_are_read_back() -> None:
    assert rescheduled("712@3") == Rescheduled(712, 3)
    others = ("712", "712@", "@3", "a@3", "1@2@3", "\u0663@1")
    assert [rescheduled(text) for text in others] == [None] * 6
    with pytest.raises(ValueError, match=r"the schedule 9+ is too large"):
        rescheduled("1@" + "9" * 30)
