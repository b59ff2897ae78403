"""What campaigns that failed have to say of how often: kept beside the failures that they found.

    Evidence.of(settings)        # of each failure that campaigns like this one have found here

A campaign that fails leaves a file ``campaigns/NAME.json`` in the store: its settings, how many
scenarios it has judged of its seeds and of its cover, and in how many of each a failure was the
first thing to break. Of the program that showed it first it has then played some other schedules,
and counted as well: afterwards, when the bug is gone, nobody could. A campaign that is clean says
nothing of the rate, since nobody knows whether the bug was there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count, islice
from typing import Annotated

from pydantic import Field

from squall.sim.faults.file import plan_to_json
from squall.sim.names import GROUPS, MAX_SEED
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.records import Record, Records
from squall.sim.scenarios.store import StorePlace
from squall.sim.search.campaign import Campaign, Found, run_campaign
from squall.sim.search.covers import Seed, stamp
from squall.sim.search.detection_probability import Confidence, Sample
from squall.sim.search.draw import Settings
from squall.sim.search.judge import Verdict
from squall.sim.search.schedules import Rescheduled, rescheduled

#: the folder of the store
CAMPAIGNS = "campaigns"
#: kinds of scenarios that are like each other: those of a campaign's own seeds, of its cover on the
#: schedule that its first seed numbers, and of one program on other schedules
SEEDS, COVER, SCHEDULES = "seeds", "cover", "schedules"
#: of the program that failed first: schedules that are played at most, where the workers are in
#: this process and elsewhere, and failing ones that are enough
_SCHEDULES, _SCHEDULES_ELSEWHERE = 128, 16
_FAILING = 8
#: kinds of failures of one campaign of which that is asked
_ASKED = 10

Key = tuple[str | None, str | None]
_Count = Annotated[int, Field(ge=0, le=MAX_SEED)]


class Kept(Record):
    """One failure of a campaign: the property and what broke, its ``source`` (``712`` or ``712@3``),
    the name of its scenario in the store, and in how many scenarios of each kind it was found."""

    check: str | None
    what: str | None
    source: str
    scenario: str
    seeds: _Count
    cover: _Count
    #: of ``played`` other schedules of the program, ``again`` have shown it
    again: _Count = 0
    played: _Count = 0

    @property
    def key(self) -> Key:
        return self.check, self.what

    @property
    def seed(self) -> int:
        """The seed of its program."""
        found = rescheduled(self.source)
        return int(self.source) if found is None else found.seed

    @property
    def schedule(self) -> int | None:
        """The schedule of it; None for the seed's own."""
        found = rescheduled(self.source)
        return None if found is None else found.schedule


class Judged(Record):
    """One campaign that failed: ``scenarios`` seeds from ``first`` on, and ``cover`` of its cover."""

    version: Annotated[int, Field(ge=1, le=1)] = 1
    found_at: float
    settings: str
    generator: str
    profile: str | None
    first: Seed
    scenarios: _Count
    cover: _Count
    failures: Annotated[tuple[Kept, ...], Field(strict=False)]

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.scenarios)


@dataclass
class Evidence:
    """All that is kept of one failure under some settings: what was ``found``, by kind of scenario,
    and what has been played for it."""

    last: Kept
    found: dict[str, Sample] = field(default_factory=dict)
    #: every record of it, the last one first
    records: list[Kept] = field(default_factory=list)
    #: seeds that were judged while the bug was there, and schedules of covers
    judged: list[range] = field(default_factory=list)
    covers: set[int] = field(default_factory=set)
    #: how many scenarios of the cover were judged at a time, at most
    cover: int = 0

    @staticmethod
    def of(settings: Settings, place: StorePlace | None = None) -> list[Evidence]:
        """Of every failure that campaigns with these settings, and today's generator, have found;
        the last one first. What cannot be read does not count."""
        name, generator = settings_name(settings), stamp(settings.profile or "")
        known: dict[Key, Evidence] = {}
        for each in kept(place):
            if (each.settings, each.generator) != (name, generator):
                continue
            for failure in each.failures:
                known.setdefault(failure.key, Evidence(failure))._add(each, failure)
        return list(known.values())

    def _add(self, campaign: Judged, failure: Kept) -> None:
        """Count a campaign, unless a later one has played some of the same."""
        self.records.append(failure)
        again = any(_overlap(campaign.seeds, seeds) for seeds in self.judged)
        if not again and campaign.first not in self.covers:
            for kind, failed, scenarios in (
                (SEEDS, failure.seeds, campaign.scenarios),
                (COVER, failure.cover, campaign.cover),
            ):
                before = self.found.get(kind, Sample())
                self.found[kind] = Sample(before.failed + failed, before.scenarios + scenarios)
        self.judged.append(campaign.seeds)
        self.covers.add(campaign.first)
        self.cover = max(self.cover, campaign.cover)

    def after(self, campaign: Campaign, seeds: range) -> Confidence:
        """What a clean campaign says, from ``seeds.start`` on: what was judged before does not
        count, since it would be the same again."""
        played = range(seeds.start, seeds.start + campaign.scenarios)
        fresh = campaign.scenarios - _covered(played, self.judged)
        cover = 0 if seeds.start in self.covers else campaign.cover
        return Confidence(self.found, {SEEDS: fresh, COVER: cover})


def kept(place: StorePlace | None = None) -> list[Judged]:
    """Every campaign that failed and can be read, the last one first."""
    found = Records(CAMPAIGNS, Judged, place).all().values()
    return sorted(found, key=lambda each: each.found_at, reverse=True)


def settings_name(settings: Settings) -> str:
    """What tells campaigns from each other whose scenarios are not alike."""
    engine = GROUPS + settings.engine if settings.groups else settings.engine
    said = (settings.profile, engine, settings.device, plan_to_json(settings.plan))
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()


def keep(campaign: Campaign, seeds: range, settings: Settings, *, jobs: int = 1) -> None:
    """Write down how often each failure of a campaign was found. Raises OSError.

    Unless the campaign was interrupted, other schedules of their programs are played first, which
    ``campaign.found`` then says too.
    """
    failures = []
    for number, (key, found) in enumerate(campaign.found.items()):
        if found.first is None:
            continue  # stored scenarios are no sample of anything
        ask = number < _ASKED and not campaign.interrupted
        if ask:
            found.again, found.played = _on_other_schedules(key, found, settings, jobs)
        failures.append(
            Kept(
                check=key[0],
                what=key[1],
                source=str(found.first),
                scenario=campaign.failures[key].name,
                seeds=found.seeds,
                cover=found.cover,
                again=found.again,
                played=found.played,
            )
        )
    if not failures:
        return
    judged = Judged(
        found_at=time.time(),
        settings=settings_name(settings),
        generator=stamp(settings.profile or ""),
        profile=settings.profile,
        first=seeds.start,
        scenarios=campaign.scenarios,
        cover=campaign.cover,
        failures=tuple(failures),
    )
    Records(CAMPAIGNS, Judged).put(judged)


def schedules_of(seed: int, but: int | None) -> Iterator[Rescheduled]:
    """A seed's program on one schedule after the other, from 1 on, ``but`` one."""
    return (Rescheduled(seed, number) for number in count(1) if number != but)


def _on_other_schedules(key: Key, found: Found, settings: Settings, jobs: int) -> Sample:
    """How many of some other schedules of its program show a failure as well."""
    first = found.first
    assert first is not None
    seed, but = (first, None) if isinstance(first, int) else first
    most = _SCHEDULES if ENGINES[settings.engine].in_this_process else _SCHEDULES_ELSEWHERE
    failing = 0

    def add(verdict: Verdict, *_: object) -> None:
        nonlocal failing
        failing += any((each.property, each.what) == key for each in verdict.violations)

    played = run_campaign(
        range(0),
        settings._replace(stats=False, twice=False),
        first=islice(schedules_of(seed, but), most),
        enough=lambda _: failing >= _FAILING,
        jobs=jobs,
        on_verdict=add,
    )
    return Sample(failing, played.cover)


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _covered(seeds: range, by: Iterable[range]) -> int:
    """How many of ``seeds`` are in some of the others."""
    covered, reached = 0, seeds.start
    for each in sorted(by, key=lambda each: each.start):
        start, stop = max(each.start, reached), min(each.stop, seeds.stop)
        if start < stop:
            covered += stop - start
            reached = stop
    return covered
