"""How often checks give up in campaigns, and the page that tells."""

from __future__ import annotations

from typing import NamedTuple

from squall.model.checks.excuses import EXCUSES
from squall.sim.cli.faults import NamedFaults
from squall.sim.cli.reports.campaign import Asked
from squall.sim.cli.reports.playing import play
from squall.sim.diff.quirks import QUIRKS
from squall.sim.diff.rules import RULES
from squall.sim.faults.plan import NO_FAULTS
from squall.sim.names import Profile
from squall.sim.search.campaign import Campaign

#: the campaigns in which they are counted, by name: their profile of faults
CAMPAIGNS: dict[str, Profile | None] = {"plain": None, "rough": "rough", "storm": "storm"}
#: around the counts in docs/divergences.md
BEGIN, END = "<!-- excuses: begin -->\n", "<!-- excuses: end -->\n"


class Use(NamedTuple):
    """An excuse, and how often checks used it, by campaign; nothing where none was run."""

    name: str
    reason: str
    times: dict[str, int]


class Uses(NamedTuple):
    """All excuses with their counts; ``campaigns``: those in which they were counted, by name."""

    listed: list[Use]
    campaigns: dict[str, Campaign]

    @property
    def interrupted(self) -> bool:
        return any(campaign.interrupted for campaign in self.campaigns.values())

    @property
    def ok(self) -> bool:
        return all(campaign.ok for campaign in self.campaigns.values())


def uses(seeds: range | None, *, jobs: int = 1) -> Uses:
    """All excuses, counted in a campaign of each kind over ``seeds``; None counts nothing."""
    campaigns = {} if seeds is None else _play_all(seeds, jobs)
    listed = [
        Use(
            excuse.name,
            excuse.reason,
            {name: campaign.excused[excuse.name] for name, campaign in campaigns.items()},
        )
        for excuse in EXCUSES
    ]
    return Uses(listed, campaigns)


def _play_all(seeds: range, jobs: int) -> dict[str, Campaign]:
    """The campaigns that were played: fewer if somebody interrupted."""
    campaigns: dict[str, Campaign] = {}
    for name, profile in CAMPAIGNS.items():
        asked = Asked(
            seeds=seeds,
            minutes=None,
            jobs=jobs,
            device="cpu",
            engine="port",
            faults=None if profile is None else NamedFaults(profile, profile, NO_FAULTS),
            title=name,
        )
        campaigns[name] = play(asked, asked.settings)
        if campaigns[name].interrupted:
            break
    return campaigns


def rule_names() -> list[str]:
    """The names of the quirks and rules by which ``squall diff`` accepts a difference between the engines."""
    names = [*(quirk.name for quirk in QUIRKS), *(rule.name for rule in RULES)]
    return list(dict.fromkeys(names))


def page(listed: list[Use], seeds: range, text: str = "") -> str:
    """What docs/divergences.md says of them, in Markdown; ``text``: a page that has such a part, which is
    replaced."""
    span = f"{seeds.start}:{seeds.stop}"
    lines = [
        *(f"    squall fuzz --seeds {span}{_profile(name)}" for name in CAMPAIGNS),
        "",
        f"`squall properties --excuses --seeds {span} --page docs/divergences.md` writes this table.",
        "",
        "| excuse | " + " | ".join(CAMPAIGNS) + " | reason |",
        "|---|" + "---:|" * len(CAMPAIGNS) + "---|",
    ]
    for use in listed:
        counts = " | ".join(f"{use.times[name]:,}" for name in CAMPAIGNS)
        lines.append(f"| {use.name} | {counts} | {use.reason} |")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2] if rest else ""
    return before + BEGIN + "\n".join(["", *lines, "", END]) + after


def _profile(name: str) -> str:
    profile = CAMPAIGNS[name]
    return f" --faults {profile}" if profile else ""
