"""Whether a fix is one: scenarios are played until the failure would have shown again.

First the scenario that failed; then its program on schedules that nobody has tried, and fresh seeds,
until one fails or the chance that the failure would have shown is 99.9 %
(:mod:`squall.sim.search.detection_probability`). What was played is kept, so that a proof that is interrupted
goes on where it was, as long as the code is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count, islice
from typing import Annotated

import torch
from pydantic import Field

from squall.real.own_files import PACKAGE
from squall.sim.scenarios.records import Record, Records
from squall.sim.search.campaign import Campaign
from squall.sim.search.covers import cover_for
from squall.sim.search.detection_probability import Confidence, Sample
from squall.sim.search.draw import Settings
from squall.sim.search.failure_rates import (
    COVER,
    SCHEDULES,
    SEEDS,
    Evidence,
    Kept,
    schedules_of,
    settings_name,
)
from squall.sim.search.judge import Source, Verdict
from squall.sim.search.schedules import Rescheduled

#: the folder of the store
_FOLDER = "proofs"
#: unless only seeds have shown it, one scenario in so many is of a fresh seed all the same
_FRESH = 4


class UnknownError(LookupError):
    """Nothing is known of how often a seed's failure was found."""


class _Played(Record):
    """What was played for a proof, and of which code."""

    code: str
    clean: dict[str, Annotated[int, Field(ge=0)]]


@dataclass
class Proof:
    """That what ``source`` has shown is gone.

    ``found``: how often it was found, by kind of scenario. ``fresh``: the first seed that was not
    judged while it was there. ``tried``: schedules of the program that were, from 1 on.
    ``cover``: seeds of the cover, if that has shown it. ``kept``: what a campaign has written down.
    """

    source: int | Rescheduled
    settings: Settings
    found: dict[str, Sample]
    fresh: int
    tried: int = 0
    cover: tuple[int, ...] = ()
    kept: Kept | None = None
    clean: dict[str, int] = field(default_factory=dict)
    #: whether the scenario that failed has been played
    replayed: bool = False
    _played: Iterator[str] = field(default_factory=lambda: iter(()), repr=False)

    def __post_init__(self) -> None:
        self.clean = dict.fromkeys(self._kinds, 0) | self.clean

    @property
    def seed(self) -> int:
        return self.source if isinstance(self.source, int) else self.source.seed

    @property
    def confidence(self) -> Confidence:
        return Confidence(self.found, self.clean)

    @property
    def believed(self) -> bool:
        return self.replayed and self.confidence.believed

    def sources(self) -> Iterator[Source]:
        """What is to be played, without an end."""
        but = None if isinstance(self.source, int) else self.source.schedule
        of: dict[str, Iterator[Source]] = {
            SEEDS: count(self.fresh),
            SCHEDULES: islice(schedules_of(self.seed, but), self.tried, None),
            COVER: (Rescheduled(seed, at) for at in count(self.fresh) for seed in self.cover),
        }
        left = {kind: islice(each, self.clean.get(kind, 0), None) for kind, each in of.items()}
        yield self.source
        for kind in self._turns():
            yield next(left[kind])

    def add(self, verdict: Verdict) -> None:
        """Count what was played, in the order of :meth:`sources`."""
        if not self.replayed:
            self.replayed = True
            self._played = self._turns()
            return
        kind = next(self._played)
        if verdict.ok:
            self.clean[kind] += 1

    @property
    def _kinds(self) -> tuple[str, ...]:
        """What is played: one scenario in :data:`_FRESH` is of the last kind."""
        for kind in (SCHEDULES, COVER):
            if self.found.get(kind, Sample()).failed and (kind != COVER or self.cover):
                return kind, SEEDS
        return (SEEDS,)

    def _turns(self) -> Iterator[str]:
        first, last = self._kinds[0], self._kinds[-1]
        return (first if number % _FRESH else last for number in count(1))

    def ended(self, campaign: Campaign) -> bool:
        """Whether there is nothing more to play: it is believed, or something has failed."""
        return bool(campaign.failed) or self.believed

    # -- on disk ----------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        """What it is called where it is kept."""
        said = json.dumps(
            (str(self.source), settings_name(self.settings), self.found, self.fresh, self.tried)
        )
        return blake2b(said.encode(), digest_size=8).hexdigest()

    def resume(self) -> bool:
        """Go on with what was played before, if the code is the same. Whether there was any."""
        played = Records(_FOLDER, _Played).get(self._name)
        if played is None or played.code != code_stamp():
            return False
        self.clean |= played.clean
        return True

    def keep(self) -> None:
        """Write down what was played. Raises OSError."""
        Records(_FOLDER, _Played).put(_Played(code=code_stamp(), clean=self.clean), self._name)

    def forget(self) -> None:
        """It has failed: what was played says nothing of the next fix. Raises OSError."""
        Records(_FOLDER, _Played).drop(self._name)


def proof_of(source: int | Rescheduled, settings: Settings, given: Sample | None = None) -> Proof:
    """A proof from what is kept of a failure, or from how often somebody says it was found.

    Raises UnknownError if there is neither.
    """
    seed = source if isinstance(source, int) else source.seed
    for evidence in Evidence.of(settings):
        records = [each for each in evidence.records if each.seed == seed]
        exact = [each for each in records if each.source == str(source)]
        if not records:
            continue
        last = (exact or records)[0]
        found = dict(evidence.found) if given is None else {SEEDS: given}
        found[SCHEDULES] = Sample(last.again, last.played)
        fresh = max(each.stop for each in evidence.judged)
        cover = cover_for(settings)
        seeds = () if cover is None else cover.seeds[: evidence.cover]
        proof = Proof(source, settings, found, fresh, last.played, seeds, last)
        if any(found.get(kind, Sample()).failed for kind in proof.clean):
            return proof
    if given is None:
        raise UnknownError
    return Proof(source, settings, {SEEDS: given}, max(seed + 1, given.scenarios))


def code_stamp(version: str | None = None) -> str:
    """What tells one state of the code from another: squall's sources, and PyTorch's version, for
    which ``version`` may stand."""
    seen = blake2b((torch.__version__ if version is None else version).encode(), digest_size=8)
    for room in ("real", "model", "sim"):
        for file in sorted((PACKAGE / room).resolve().rglob("*")):
            if file.suffix in (".py", ".cpp", ".h"):
                seen.update(str(file.name).encode())
                seen.update(file.read_bytes())
    return seen.hexdigest()
