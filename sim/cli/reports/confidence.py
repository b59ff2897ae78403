"""What a clean campaign says of failures that were found before: how likely they are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from squall.sim.search.campaign import Campaign
from squall.sim.search.detection_probability import BELIEVED, Confidence
from squall.sim.search.draw import Settings
from squall.sim.search.failure_rates import COVER, SCHEDULES, SEEDS, Evidence, Kept

#: failures that are printed, the last found first
_SHOWN = 5
_WORDS = {
    SEEDS: "seeds",
    COVER: "scenarios of the cover",
    SCHEDULES: "other schedules of its program",
}


@dataclass(frozen=True)
class PriorFailure:
    """A failure that was found before, and what clean scenarios say of it. ``what`` None: only a
    seed was named."""

    source: str
    confidence: Confidence
    failure: Kept | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; the keys are in docs/json.md."""
        confidence, failure = self.confidence, self.failure
        least, most = confidence.limits
        return {
            "seed": self.source,
            "property": None if failure is None else failure.check,
            "what": None if failure is None else failure.what,
            "scenario": None if failure is None else failure.scenario,
            "found": {kind: list(sample) for kind, sample in confidence.found.items()},
            "clean": dict(confidence.clean),
            "chance": confidence.chance,
            "least": least,
            "most": most,
            "believed": confidence.believed,
            "needed": self.needed,
        }

    @property
    def needed(self) -> dict[str, int]:
        """How many more clean scenarios make it believed, by the kinds that have shown it."""
        every = {kind: self.confidence.needed(kind) for kind in self.confidence.found}
        return {kind: number for kind, number in every.items() if number is not None}

    def line(self) -> str:
        """One sentence or two."""
        confidence, failure = self.confidence, self.failure
        what = "" if failure is None else f" ({failure.check}: {failure.what})"
        samples = [
            f"{sample.failed:,} of {sample.scenarios:,} {_WORDS[kind]}"
            for kind, sample in confidence.found.items()
            if sample.scenarios
        ]
        least, most = confidence.limits
        said = (
            f"seed {self.source}{what}: would have shown again with a chance of "
            f"{percent(confidence.chance)} (95 % interval: {percent(least)} to {percent(most)}); "
            f"found in {', '.join(samples)}"
        )
        if confidence.believed:
            return said
        if not any(confidence.clean.values()):
            said += "; all of these scenarios were judged when it was there, which says nothing new"
        for kind in (kind for kind in confidence.clean if kind in self.needed):
            said += f"; {self.needed[kind]:,} more clean {_WORDS[kind]} make it {percent(BELIEVED)}"
            break
        return said


def told_of(campaign: Campaign, seeds: range, settings: Settings) -> list[PriorFailure] | None:
    """What a campaign says of each failure that was found before; None unless it is clean."""
    if not campaign.ok or campaign.unchecked is not None:
        return None
    every = Evidence.of(settings)
    return [
        PriorFailure(each.last.source, each.after(campaign, seeds), each.last) for each in every
    ]


def print_told(told: list[PriorFailure], console: Console) -> None:
    """A line for each failure; the last found first."""
    console.print(Text("failures that were found before, and not in this campaign"))
    for each in told[:_SHOWN]:
        style = "green" if each.confidence.believed else "yellow"
        console.print(Text(f"  {each.line()}", style=style), soft_wrap=True)
    if len(told) > _SHOWN:
        console.print(Text(f"  and {len(told) - _SHOWN:,} more: see --json", style="dim"))


def percent(chance: float) -> str:
    """Down to what the digits say: 99.9 % is at least that."""
    digits = 1
    while digits < 4 and chance < 1 and chance > 1 - 10.0 ** -(digits + 1):
        digits += 1
    scale = 10**digits
    return f"{int(chance * 100 * scale + 1e-9) / scale:g} %"
