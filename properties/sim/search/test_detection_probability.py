"""How likely a failure would have shown again: the numbers, what is kept for them, and proofs."""

from __future__ import annotations

import json
import math
import random
import signal
from itertools import combinations, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squall.properties.support.commands import ROOT, python, squall
from squall.sim.scenarios.records import Records
from squall.sim.search.campaign import before, run_campaign
from squall.sim.search.detection_probability import BELIEVED, Confidence, Sample
from squall.sim.search.draw import Settings
from squall.sim.search.failure_rates import COVER, SCHEDULES, SEEDS, Evidence, Judged, Kept, keep
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.schedules import Rescheduled
from squall.sim.search.verify_fix import Proof, UnknownError, proof_of

#: a bug that one scenario in a hundred shows, and its program on every schedule
MUTANT = "undefined-gradient-overwrites"
SEEDS_PLAYED = range(300)
#: the command, with a bug planted in it and in the processes that share its work
COMMAND = """
import os
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.cli.entry import main

planted = MUTANTS[os.environ["PLANT"]].apply()
planted.__enter__()
main()
"""

SAMPLES = st.integers(1, 40).flatmap(
    lambda scenarios: st.builds(Sample, st.integers(0, scenarios), st.just(scenarios))
)


# -- the numbers ----------------------------------------------------------------------------------


@given(st.integers(1, 7), st.integers(1, 6), st.data())
def test_the_chance_to_miss_is_that_of_an_order_by_chance(
    scenarios: int, clean: int, data: st.DataObject
) -> None:
    """Of all places that the failing ones could have, those are counted in which none is late."""
    failed = data.draw(st.integers(0, scenarios))
    places = list(combinations(range(scenarios + clean), failed))
    early = [each for each in places if all(at < scenarios for at in each)]
    missed = Sample(failed, scenarios).missed(clean)
    assert missed == pytest.approx(len(early) / len(places))


@given(SAMPLES, st.integers(0, 200))
def test_it_is_what_a_rate_of_any_order_of_magnitude_gives(sample: Sample, clean: int) -> None:
    """The mean of (1-p)^m for p of Beta(k, n-k+1)."""
    if not sample.failed:
        assert sample.missed(clean) == 1
        return
    a, b = sample.failed, sample.scenarios - sample.failed + 1

    def log_beta(x: float, y: float) -> float:
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    assert sample.missed(clean) == pytest.approx(math.exp(log_beta(a, b + clean) - log_beta(a, b)))


def test_the_chance_is_right_for_rates_over_four_orders_of_magnitude() -> None:
    """Bugs of all rates, found in the first n scenarios; the chance told is how many show later."""
    numbers = random.Random(5)
    scenarios, clean = 100, 150
    told: list[float] = []
    shown = 0
    for _ in range(40_000):
        rate = 10 ** numbers.uniform(-5, 0)
        failed = sum(numbers.random() < rate for _ in range(scenarios)) if rate > 1e-4 else 0
        if 1 <= failed <= 3:
            told.append(1 - Sample(failed, scenarios).missed(clean))
            shown += numbers.random() < 1 - (1 - rate) ** clean
    assert len(told) > 2_000
    assert shown / len(told) == pytest.approx(sum(told) / len(told), abs=0.03)


@given(SAMPLES)
@settings(max_examples=40)
def test_an_interval_holds_what_it_should(sample: Sample) -> None:
    """At its ends, as many or more, or as few or fewer, fail with a chance of 2.5 %."""
    failed, scenarios = sample
    least, most = sample.rate_limits()
    assert least <= failed / scenarios <= most

    def chance(rate: float, numbers: range) -> float:
        return sum(
            math.comb(scenarios, k) * rate**k * (1 - rate) ** (scenarios - k) for k in numbers
        )

    if failed < scenarios:
        assert chance(most, range(failed + 1)) == pytest.approx(0.025, rel=1e-6)
    if failed:
        assert chance(least, range(failed, scenarios + 1)) == pytest.approx(0.025, rel=1e-6)


@given(SAMPLES, SAMPLES, st.integers(0, 50))
def test_what_is_needed_is_enough_and_one_less_is_not(
    one: Sample, other: Sample, clean: int
) -> None:
    found = {SEEDS: one, SCHEDULES: other}
    before = Confidence(found, {SEEDS: clean})
    least, most = before.limits
    assert 0 <= least <= most <= 1 and 0 <= before.progress <= 1
    needed = before.needed(SEEDS)
    if needed is None:
        assert not one.failed
        return
    assert Confidence(found, {SEEDS: clean + needed}).believed
    if needed:
        assert not Confidence(found, {SEEDS: clean + needed - 1}).believed


def test_numbers_that_can_be_checked_by_heart() -> None:
    assert Sample(1, 1000).missed(1000) == 0.5
    assert Confidence({SEEDS: Sample(1, 1000)}, {}).needed(SEEDS) == 999_000
    assert Confidence({SEEDS: Sample(3, 1000)}, {SEEDS: 9_000}).chance == pytest.approx(
        0.999, abs=1e-4
    )
    assert Confidence({}, {SEEDS: 10}).chance == 0


# -- what is kept ---------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path))
    return tmp_path


def found_by_a_campaign() -> Evidence:
    """What a campaign has kept of the planted bug."""
    with MUTANTS[MUTANT].apply():
        campaign = run_campaign(SEEDS_PLAYED)
        keep(campaign, SEEDS_PLAYED, Settings())
    assert campaign.failures
    return next(each for each in Evidence.of(Settings()) if each.found[SEEDS].failed)


@pytest.mark.deep("plays a thousand scenarios")
def test_a_campaign_that_fails_keeps_how_often(store: Path) -> None:
    evidence = found_by_a_campaign()
    assert evidence.found[SEEDS].scenarios == len(SEEDS_PLAYED)
    last = evidence.last
    assert last.played >= last.again > 0, "its program fails on other schedules too"
    assert Evidence.of(Settings("rough")) == []

    later = range(200, 400)
    clean = run_campaign(later, first=before(later, Settings()))
    assert clean.ok
    after = evidence.after(clean, later)
    assert after.clean[SEEDS] == 100, "the others were judged when the bug was there"
    assert after.clean[COVER] == clean.cover > 0
    assert 0 < after.chance < 1


def test_campaigns_over_the_same_seeds_count_once(store: Path) -> None:
    failure = Kept(
        check="rrefs", what="w", source="5", scenario="", seeds=2, cover=0, again=1, played=4
    )
    from squall.sim.search.covers import stamp
    from squall.sim.search.failure_rates import settings_name

    for number, (first, scenarios) in enumerate([(0, 100), (50, 100), (400, 50)]):
        judged = Judged(
            found_at=float(number),
            settings=settings_name(Settings()),
            generator=stamp(""),
            profile=None,
            first=first,
            scenarios=scenarios,
            cover=0,
            failures=(failure,),
        )
        Records("campaigns", Judged).put(judged)
    (store / "campaigns" / "broken.json").write_text("{", encoding="utf-8")
    (evidence,) = Evidence.of(Settings())
    assert evidence.found[SEEDS] == Sample(4, 150)
    assert len(evidence.records) == 3
    fresh = evidence.after(run_campaign(range(145, 155)), range(145, 155))
    assert fresh.clean[SEEDS] == 5


# -- proofs ---------------------------------------------------------------------------------------


def test_a_proof_plays_what_nobody_has_tried(store: Path) -> None:
    proof = proof_of(7, Settings(), Sample(1, 10))
    assert list(islice(proof.sources(), 4)) == [7, 10, 11, 12]
    found = {SEEDS: Sample(0, 9), SCHEDULES: Sample(2, 5)}
    proof = Proof(Rescheduled(7, 6), Settings(), found, fresh=50, tried=5)
    names = [str(source) for source in islice(proof.sources(), 6)]
    assert names == ["7@6", "7@7", "7@8", "7@9", "50", "7@10"], "7@6 is what has failed"
    with pytest.raises(UnknownError):
        proof_of(7, Settings())


def test_a_proof_fails_while_the_bug_is_there_and_succeeds_when_it_is_gone(store: Path) -> None:
    evidence = found_by_a_campaign()
    source = int(evidence.last.source.partition("@")[0])
    source_or_schedule = (
        Rescheduled(source, evidence.last.schedule)
        if evidence.last.schedule is not None
        else source
    )

    def prove() -> tuple[Proof, bool]:
        proof = proof_of(source_or_schedule, Settings())
        campaign = run_campaign(
            range(0),
            first=proof.sources(),
            enough=proof.ended,
            on_verdict=lambda verdict, *_: proof.add(verdict),
        )
        return proof, campaign.ok

    with MUTANTS[MUTANT].apply():
        proof, ok = prove()
        assert not ok and not proof.believed
        assert sum(proof.clean.values()) == 0, "the scenario that failed is played first"
    proof, ok = prove()
    assert ok and proof.believed
    assert proof.confidence.chance >= BELIEVED
    assert proof.clean[SCHEDULES] > 0


def test_a_proof_goes_on_where_it_was_unless_the_code_has_changed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = proof_of(7, Settings(), Sample(1, 10))
    assert not proof.resume()
    proof.clean[SEEDS] = 40
    proof.keep()
    again = proof_of(7, Settings(), Sample(1, 10))
    assert again.resume() and again.clean == proof.clean
    assert list(islice(again.sources(), 2)) == [7, 50]
    assert not proof_of(7, Settings(), Sample(2, 10)).resume(), "another proof"
    monkeypatch.setattr("squall.sim.search.verify_fix.code_stamp", lambda: "other")
    assert not proof_of(7, Settings(), Sample(1, 10)).resume()
    proof.forget()
    assert list((store / "proofs").iterdir()) == []


# -- the command ----------------------------------------------------------------------------------


def test_the_command_finds_a_bug_and_proves_that_it_is_mended(store: Path) -> None:
    words = ("fuzz", "--seeds", "100:200", "--json")
    failed = python("-c", COMMAND, *words, PLANT=MUTANT)
    assert failed.returncode == 1, failed.stderr
    report = json.loads(failed.stdout)
    assert report["confidence"] is None
    seed = Path(report["failures"][0]["file"]).stem
    (judged,) = [
        json.loads(file.read_text(encoding="utf-8")) for file in (store / "campaigns").iterdir()
    ]
    for told, kept in zip(report["failures"], judged["failures"], strict=True):
        assert told["schedules"] == [kept["again"], kept["played"]] and kept["played"]
    (source,) = [each["source"] for each in judged["failures"] if each["scenario"] == seed]

    still = python("-c", COMMAND, "fuzz", "--until-proven", source, PLANT=MUTANT)
    assert still.returncode == 1
    assert f"seed {source}: " in still.stderr

    clean = squall("fuzz", "--seeds", "200:300", "--json")
    assert clean.returncode == 0, clean.stderr
    told = json.loads(clean.stdout)["confidence"]
    assert {each["scenario"] for each in told} == {each["scenario"] for each in judged["failures"]}
    assert all(0 <= each["least"] <= each["chance"] <= each["most"] <= 1 for each in told)
    documented = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert all(f"| `confidence[].{key}` |" in documented for key in told[0])
    assert "would have shown again with a chance of" in squall("fuzz", "--seeds", "200:210").stdout

    other = squall("fuzz", "--until-proven", source, "--faults", "mild")
    assert other.returncode == 2 and "it was found with no faults)" in other.stderr
    proven = squall("fuzz", "--until-proven", source, "--jobs", "2")
    assert proven.returncode == 0, proven.stderr
    (what,) = [each["what"] for each in judged["failures"] if each["scenario"] == seed]
    assert f"seed {source} (" in proven.stdout and what in proven.stdout
    again = squall("fuzz", "--until-proven", source, "--json")
    assert "goes on where it was" in again.stderr
    (mine,) = json.loads(again.stdout)["confidence"]
    assert mine["believed"] and mine["chance"] >= BELIEVED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--until-proven", "x"], "--until-proven: expected a seed or SEED@SCHEDULE, got 'x'"),
        (["--until-proven", "7"], "expected --found K:N with it"),
        (["--until-proven", "7@99999999999999999999999"], "--until-proven: the schedule 9999"),
        (["--until-proven", "7", "--seeds", "1:4"], "--seeds: '1:4' does not go with"),
        (["--until-proven", "7", "--minutes", "4"], "--minutes: '4' does not go with"),
        (["--until-proven", "7", "--distil", "4"], "--distil: '4' does not go with"),
        (["--found", "1:3"], "--found: expected --until-proven with it"),
        (["--until-proven", "7", "--found", "3:1"], "with 1 <= K <= N"),
        (["--until-proven", "7", "--found", "0:1"], "with 1 <= K <= N"),
        (["--until-proven", "7", "--found", "1"], "expected two integers K:N"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], message: str, store: Path) -> None:
    done = squall("fuzz", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_a_proof_that_is_interrupted_loses_nothing(store: Path) -> None:
    words = ("fuzz", "--until-proven", "7", "--found", "1:1000", "--json")
    ended = python("-c", INTERRUPTED, *words)
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    report = json.loads(ended.stdout)
    assert report["outcome"] == "interrupted"
    (told,) = report["confidence"]
    assert told["clean"]["seeds"] >= 20 and not told["believed"]
    (file,) = (store / "proofs").iterdir()
    assert json.loads(file.read_text(encoding="utf-8"))["clean"] == told["clean"]


#: the command, which is interrupted when so many scenarios have been played
INTERRUPTED = f"""
import os, signal
from squall.sim.search import verify_fix
from squall.sim.cli.entry import main

class Proof(verify_fix.Proof):
    def add(self, verdict):
        super().add(verdict)
        if self.clean["{SEEDS}"] == 20:
            os.kill(os.getpid(), signal.{signal.SIGINT.name})

verify_fix.Proof = Proof
main()
"""
