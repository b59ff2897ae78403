"""The history of what a campaign has seen: right numbers, kept and read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from squall.model.coverage.behaviour import SETS, pairs_of, set_of
from squall.model.coverage.growth import Seen
from squall.model.coverage.history import History, history_of

#: facts of one set, by small numbers
FACTS = sorted(pairs_of([f"feature {number}" for number in range(9)]))
SCENARIOS = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from(FACTS)), st.frozensets(st.sampled_from(["a", "b", "c"]))
    ),
    max_size=40,
)


@given(SCENARIOS)
def test_it_says_what_was_seen_by_when(
    scenarios: list[tuple[frozenset[int], frozenset[str]]],
) -> None:
    seen = Seen()
    for facts, situations in scenarios:
        seen.add(sorted(facts), situations)
    times = {name: sum(name in each for _, each in scenarios) for name in ("a", "b", "c")}
    history = history_of(seen, times, {"seeds": len(scenarios)}, "a campaign")
    assert history.scenarios == len(scenarios)
    assert list(history.at) == sorted(set(history.at))
    for place, number in enumerate(history.at):
        known = frozenset().union(*(facts for facts, _ in scenarios[:number]))
        for name in SETS:
            assert history.sets[name][place] == sum(set_of(fact) == name for fact in known)
    for name, count in times.items():
        first = history.reached[name]
        assert (first is None) == (count == 0)
        if first is not None:
            assert name in scenarios[first - 1][1]
            assert not any(name in each for _, each in scenarios[: first - 1])
    assert History.model_validate_json(history.model_dump_json()) == history


def test_growth_by_default_is_told_at_round_numbers() -> None:
    seen = Seen()
    for number in range(23):
        seen.add(FACTS[: number % 9])
    numbers = [number for number, _ in seen.growth()]
    assert numbers == [1, 2, 5, 10, 20, 23]
    assert dict(seen.growth())[23] == seen.counts()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Invalid JSON"),
        ("{}", "at: Field required"),
        (
            '{"at": [1, 2], "sets": {"r": [1]}, "reached": {}, "times": {}, "parts": {}}',
            "sets: expected as many numbers",
        ),
        (
            '{"at": [1], "sets": {"x": [1]}, "reached": {}, "times": {}, "parts": {}}',
            "expected names among r, c, k",
        ),
        ('{"at": [-1], "sets": {}, "reached": {}, "times": {}, "parts": {}}', "at.0: Input should"),
    ],
)
def test_a_text_that_is_no_history_is_told_why(text: str, problem: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        History.model_validate_json(text)
    first = refusal.value.errors()[0]
    assert problem in f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
