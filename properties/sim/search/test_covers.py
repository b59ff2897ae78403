"""Distilled covers: what they show, where they are kept, and that campaigns play them first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.properties.support.commands import ROOT, squall
from squall.sim.names import PROFILES
from squall.sim.search.campaign import Campaign, before
from squall.sim.search.covering import LONG, Collector, Covering, SeedFacts, distilled
from squall.sim.search.covers import (
    SHARE,
    Cover,
    CoverError,
    cover_for,
    load_cover,
    merged,
    own_file,
    shipped,
    stamp,
)
from squall.sim.search.draw import Settings, settings_of
from squall.sim.search.judge import judge, judge_all
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.mutants.trial import Limits
from squall.sim.search.schedules import Rescheduled

FACTS = st.lists(st.frozensets(st.integers(0, 30), max_size=8), max_size=12)


@given(FACTS, st.data())
def test_a_cover_shows_every_fact_and_each_of_its_seeds_a_new_one(
    facts: list[frozenset[int]], data: st.DataObject
) -> None:
    events = st.integers(0, 2_000)
    shown = [SeedFacts(seed, sorted(each), data.draw(events)) for seed, each in enumerate(facts)]
    seen: set[int] = set()
    for seed in distilled(shown):
        assert facts[seed] - seen
        seen |= facts[seed]
    assert seen == frozenset().union(*facts)


def test_what_shows_most_for_its_work_comes_first() -> None:
    shown = [SeedFacts(0, range(10), 5_000), SeedFacts(1, range(9), 100), SeedFacts(2, [9], 100)]
    assert distilled(shown) == [1, 2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("profile", ["", *PROFILES])
def test_the_shipped_covers_are_of_this_generator(profile: str) -> None:
    cover = shipped(profile)
    assert cover is not None and cover.profile == profile
    assert cover.generator == stamp(profile), "make covers"
    assert len(set(cover.seeds)) == len(cover.seeds) > 100


def test_a_shipped_cover_shows_more_than_as_many_random_seeds() -> None:
    cover = shipped("")
    assert cover is not None
    settings = Settings(stats=True)
    few = 40

    def facts(seeds: list[int]) -> int:
        campaign = Campaign()
        for verdict in judge_all(seeds, settings):
            campaign.add(verdict)
        return len(campaign.seen.times)

    assert facts(list(cover.seeds[:few])) > 1.2 * facts(list(range(50_000, 50_000 + few)))


def test_a_campaign_plays_a_part_of_the_cover_on_its_own_schedule() -> None:
    cover = shipped("rough")
    assert cover is not None
    played = before(range(700, 900), settings_of("rough"))
    assert played == [Rescheduled(seed, 700) for seed in cover.seeds[: 200 // SHARE]]
    assert not any(
        isinstance(each, Rescheduled) for each in before(range(9), Settings(engine="torch"))
    )


def test_a_trial_of_a_bug_plays_the_covers_of_all_its_profiles_in_turn() -> None:
    mutant = next(mutant for mutant in MUTANTS.values() if mutant.needs_faults)
    scenarios = Limits(cover=True).scenarios(mutant)
    first = [next(scenarios) for _ in range(6)]
    assert [each.profile for each in first] == [*PROFILES, *PROFILES]
    assert all(each.note.endswith("@0") for each in first)
    fresh = Limits().scenarios(mutant)
    assert [(each.seed, each.note) for each in (next(fresh), next(fresh))] == [(0, ""), (0, "")]
    assert not Limits().stored(mutant)


def test_the_cover_of_a_folder_takes_the_place_of_the_shipped_one_while_it_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path))
    settings = settings_of("mild")
    assert cover_for(settings) is shipped("mild")
    mine = Cover(profile="mild", generator=stamp("mild"), scenarios=9, facts=3, seeds=(4, 2))
    mine.save(own_file("mild"))
    assert cover_for(settings) == mine
    mine.model_copy(update={"generator": "0"}).save(own_file("mild"))
    assert cover_for(settings) is shipped("mild")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Invalid JSON"),
        ("{}", "Field required"),
        (
            '{"profile": "x", "generator": "", "scenarios": 1, "facts": 1, "seeds": []}',
            "profile: 'x', expected one of mild",
        ),
        (
            '{"profile": "", "generator": "", "scenarios": 1, "facts": 1, "seeds": [-1]}',
            "seeds.0: Input should be greater than or equal to 0",
        ),
    ],
)
def test_a_file_that_is_no_cover_is_told_by_name_and_field(text: str, problem: str) -> None:
    with pytest.raises(CoverError) as raised:
        load_cover(text, "here.json")
    assert str(raised.value).startswith("here.json: ") and problem in str(raised.value)


def test_covers_of_one_profile_are_merged() -> None:
    one = Cover(profile="", generator="a", scenarios=10, facts=5, seeds=(1, 2))
    other = one.model_copy(update={"seeds": (2, 3), "facts": 7})
    both = merged([one, other])
    assert (both.seeds, both.facts, both.scenarios) == ((1, 2, 3), 7, 20)
    with pytest.raises(CoverError, match="generator: expected the same"):
        merged([one, other.model_copy(update={"generator": "b"})])


def test_a_long_campaign_adds_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path))
    settings = settings_of("storm")._replace(stats=True)
    assert not Covering(settings, range(LONG)).collects, "it is asked for"
    covering = Covering(settings, range(LONG), cover=True)
    assert covering.collects
    known = shipped("storm")
    assert known is not None
    campaign = Campaign()
    verdicts = [judge(source, settings) for source in (known.on(0)[0], 123_456, 123_457)]
    for verdict in verdicts:
        covering.add(verdict)
        campaign.add(verdict)
    assert campaign.novel == [123_456, 123_457], "of the cover there is nothing to add"
    assert covering.keep(campaign) == "", "it was ended early"
    campaign.scenarios = 20_000
    assert "2 more seeds" in covering.keep(campaign)
    mine = cover_for(settings)
    assert mine is not None and mine.seeds == (*known.seeds, 123_456, 123_457)


def test_a_collector_knows_how_many_facts_there_are() -> None:
    collector = Collector()
    collector.add(0, (1).to_bytes(8, "little") + (2).to_bytes(8, "little"), 5)
    collector.add(1, (2).to_bytes(8, "little"), 5)
    assert (collector.facts, collector.seeds()) == (2, [0])


# -- the commands ---------------------------------------------------------------------------------


def test_a_cover_is_distilled_listed_minimised_and_merged(tmp_path: Path) -> None:
    env = {"SQUALL_STORE": str(tmp_path)}
    done = squall("fuzz", "--distil", "60", "--faults", "storm", **env)
    assert done.returncode == 0, done.stderr
    assert "cover: " in done.stderr
    file = tmp_path / "covers" / "storm.json"
    seeds = json.loads(file.read_text(encoding="utf-8"))["seeds"]
    assert 10 < len(seeds) < 60

    told = json.loads(squall("corpus", "--json", **env).stdout)
    assert {each["profile"] for each in told["covers"]} == {None, *PROFILES}
    (mine,) = [each for each in told["covers"] if not each["shipped"]]
    assert mine["file"] == str(file) and mine["current"] and mine["seeds"] == len(seeds)
    assert "stories-away" in squall("corpus", **env).stdout

    smaller = tmp_path / "smaller.json"
    done = squall("corpus", str(file), "--minimise", "-o", str(smaller), "--json", **env)
    (minimal,) = json.loads(done.stdout)["covers"]
    assert minimal["seeds"] <= len(seeds) and minimal["facts"] == mine["facts"]

    other = json.loads(file.read_text(encoding="utf-8")) | {"seeds": [77, *seeds[:1]]}
    smaller.write_text(json.dumps(other), encoding="utf-8")
    assert squall("corpus", str(smaller), "--merge", **env).returncode == 0
    assert json.loads(file.read_text(encoding="utf-8"))["seeds"] == [*seeds, 77]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fuzz", "--distil", "0"], "--distil: expected an integer"),
        (["fuzz", "--distil", "5", "--seeds", "0:9"], "--seeds: '0:9' does not go with --distil"),
        (["fuzz", "--distil", "5", "--minutes", "2"], "--minutes: '2' does not go with --distil"),
        (["fuzz", "--distil", "5", "--engine", "torch"], "--engine: 'torch' does not go with"),
        (["corpus", "--merge"], "FILE: expected one or more covers to merge"),
        (["corpus", "--merge", "--minimise"], "expected either --merge or --minimise"),
        (["corpus", "-o", "x.json"], "expected --merge or --minimise with it"),
        (["corpus", "no-such.json"], "FILE: cannot read 'no-such.json'"),
        (["replay", "1@99999999999999999999999"], "SCENARIO: the schedule 99999999999999999999999"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], message: str) -> None:
    done = squall(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_a_scenario_on_another_schedule_is_replayed_by_its_name() -> None:
    done = squall("replay", "712@3", "--faults", "rough", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["seed"] != 712
    assert "seed 712@3" in squall("replay", "712@3", "--faults", "rough").stdout


def test_the_object_has_the_documented_keys() -> None:
    documented = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    section = documented.partition("## `squall corpus`")[2].partition("\n## ")[0]
    told = json.loads(squall("corpus", "--json").stdout)
    keys = {*told, *(f"covers[].{key}" for key in told["covers"][0])}
    keys |= {f"scenarios[].{key}" for key in told["scenarios"][0]}
    assert [key for key in keys if f"| `{key}` |" not in section] == []
