"""How what was seen grows, and what is to come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from squall.model.coverage.behaviour import SETS, pairs_of, set_of
from squall.model.coverage.growth import Seen

A, B, C = (next(iter(pairs_of(pair))) for pair in (("a", "b"), ("a", "c"), ("b", "c")))


def test_new_facts_are_told_once() -> None:
    seen = Seen()
    assert seen.add([A, B]) == [A, B]
    assert seen.add([B, C]) == [C]
    assert seen.counts() == dict.fromkeys(SETS, 0) | {"p": 3}


def test_it_grows_at_round_numbers() -> None:
    seen = Seen()
    for number in range(12):
        seen.add([A] if number < 6 else [A, B])
    assert [(number, counts["p"]) for number, counts in seen.growth()] == [
        (1, 1), (2, 1), (5, 1), (10, 2), (12, 2),
    ]  # fmt: skip


def test_nothing_was_seen() -> None:
    assert Seen().growth() == [] and sum(Seen().to_come(1000).values()) == 0


def test_what_one_scenario_alone_has_shown_says_what_is_to_come() -> None:
    seen = Seen()
    for number in range(100):
        seen.add([A, B] if number == 50 else [A])
    assert seen.to_come(10)["p"] == 0.1


@given(st.lists(st.sets(st.sampled_from([A, B, C])), max_size=30))
def test_it_never_shrinks_and_ends_with_everything(scenarios: list[set[int]]) -> None:
    seen = Seen()
    for facts in scenarios:
        seen.add(facts)
    grown = [counts["p"] for _, counts in seen.growth()]
    assert grown == sorted(grown)
    assert not scenarios or grown[-1] == len(set().union(*scenarios))
    assert all(set_of(fact) == "p" for fact in seen.times)
