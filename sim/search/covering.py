"""What a campaign has to do with covers: it plays one first, distils one, or adds to one."""

from __future__ import annotations

from collections.abc import Sequence

from squall.sim.search.campaign import Campaign, before
from squall.sim.search.corpus import corpus_for
from squall.sim.search.covers import SHARE, Cover, cover_for, own_file, stamp
from squall.sim.search.distil import Collector
from squall.sim.search.draw import Settings
from squall.sim.search.judge import Source, Verdict

#: a campaign of so many seeds adds to the cover what it has seen that the cover has not shown
LONG = 10_000


class Covering:
    """The part of covers in a campaign of ``seeds``."""

    def __init__(
        self, settings: Settings, seeds: range, *, cover: bool = False, distil: bool = False
    ) -> None:
        self._settings = settings
        self._seeds = seeds
        self._cover = cover
        self._collector = Collector() if distil else None
        long = seeds.stop - seeds.start >= LONG and settings.engine == "port"
        self._grows = cover and not distil and long and not settings.plan

    @property
    def collects(self) -> bool:
        """Whether it needs to know what each scenario shows."""
        return self._grows or self._collector is not None

    def first(self) -> Sequence[Source]:
        """What is played before the seeds. Raises CoverError."""
        if self._collector is not None:
            return []
        if not self._cover:
            return corpus_for(self._settings)
        return before(self._seeds, self._settings)

    def add(self, verdict: Verdict) -> None:
        if self._collector is not None and verdict.ok:
            self._collector.add(verdict.seed, verdict.facts, verdict.events)

    def keep(self, campaign: Campaign) -> str:
        """Write the cover down, if there is something to write. Returns what was done, or "".

        Raises OSError.
        """
        profile = self._settings.profile or ""
        file = own_file(profile)
        if self._collector is not None:
            if campaign.interrupted:
                return "interrupted: no cover was written"
            cover = Cover(
                profile=profile,
                generator=stamp(profile),
                scenarios=campaign.scenarios,
                facts=self._collector.facts,
                seeds=tuple(self._collector.seeds()),
            )
            cover.save(file)
            return f"cover: {len(cover.seeds):,} of {cover.scenarios:,} seeds, in {file}"
        known = cover_for(self._settings) if self._grows else None
        if known is None or not known.current or campaign.scenarios < LONG:
            return ""
        room = max(0, campaign.scenarios // SHARE - len(known.seeds))
        new = [seed for seed in campaign.novel if seed not in set(known.seeds)][:room]
        if not new:
            return ""
        grown = known.model_copy(
            update={
                "seeds": (*known.seeds, *new),
                "scenarios": known.scenarios + campaign.scenarios,
                "facts": max(known.facts, len(campaign.seen.times)),
            }
        )
        grown.save(file)
        return f"cover: {len(new):,} more seeds, in {file}"
