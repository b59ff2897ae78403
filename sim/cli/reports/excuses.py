"""How often checks give up in campaigns, and the page that tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from squall.model.checks.excuses import EXCUSES
from squall.sim.diff.rules import RULES
from squall.sim.search.campaign import run_campaign
from squall.sim.search.draw import Settings

#: the campaigns in which they are counted, by name
CAMPAIGNS = {"plain": Settings(), "rough": Settings("rough"), "storm": Settings("storm")}


class Use(NamedTuple):
    """An excuse, and how often checks used it, by campaign; nothing where none was run."""

    name: str
    reason: str
    times: dict[str, int]


def uses(seeds: range | None, *, jobs: int = 1) -> Iterator[Use]:
    """All excuses, counted in a campaign of each kind over ``seeds``; None counts nothing."""
    counted: dict[str, Counter[str]] = {}
    if seeds is not None:
        for name, settings in CAMPAIGNS.items():
            campaign = run_campaign(seeds, settings, jobs=jobs)
            counted[name] = campaign.excused
            if campaign.interrupted:
                raise KeyboardInterrupt
    for excuse in EXCUSES:
        times = {name: count[excuse.name] for name, count in counted.items()}
        yield Use(excuse.name, excuse.reason, times)


def rule_names() -> list[str]:
    """The names of the rules by which ``squall diff`` accepts a difference between the engines."""
    return list(dict.fromkeys(rule.name for rule in RULES))


def page(listed: list[Use], seeds: range) -> str:
    """The page in Markdown: ``docs/excuses.md``."""
    span = f"{seeds.start}:{seeds.stop}"
    lines = [
        "# Where checks give up",
        "",
        "A check that leaves something out says why, and is counted. These are all reasons there",
        f"are, with how often each was used by the scenarios {span} of three campaigns:",
        "",
        *(f"    squall fuzz --seeds {span}{_profile(name)}" for name in CAMPAIGNS),
        "",
        f"`squall properties --excuses --seeds {span} --save docs/excuses.md` writes this page.",
        "",
        "| excuse | " + " | ".join(CAMPAIGNS) + " | reason |",
        "|---|" + "---:|" * len(CAMPAIGNS) + "---|",
    ]
    for use in listed:
        counts = " | ".join(f"{use.times[name]:,}" for name in CAMPAIGNS)
        lines.append(f"| {use.name} | {counts} | {use.reason} |")
    lines += [
        "",
        "The last of them, from `lost fork` on, are what the RRef protocol cannot promise: a",
        "leftover is accepted only where the events show that very cause",
        "(`model/checks/exceptions.py`).",
        "",
        "The rules by which `squall diff` accepts a difference between the engines each predict one",
        "value; they are listed in [divergences.md](divergences.md).",
        "",
    ]
    return "\n".join(lines)


def _profile(name: str) -> str:
    profile = CAMPAIGNS[name].profile
    return f" --faults {profile}" if profile else ""
