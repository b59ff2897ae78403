"""What ``squall fuzz`` says of a campaign, for people and for machines."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.model.coverage.behaviour import SETS
from squall.model.coverage.growth import Seen
from squall.model.events.names import in_words
from squall.model.events.run import NOT_CHECKED
from squall.sim.cli.faults import NamedFaults
from squall.sim.cli.panels import WIDTH, print_panel, summary_table, unchecked_row, verdict
from squall.sim.cli.reports.confidence import PriorFailure, print_told
from squall.sim.cli.reports.failing import print_program
from squall.sim.faults.plan import NO_FAULTS
from squall.sim.names import Device, EngineName
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.failure import Failure
from squall.sim.search.campaign import Campaign
from squall.sim.search.draw import Settings, expanded
from squall.sim.search.schedules import names_a_seed

#: failures whose programs are shown at the end of a campaign
PROGRAMS_SHOWN = 3
#: columns of the growth of coverage, and how far it looks ahead
_GROWTH_SHOWN = 5
_MORE = 1000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a campaign was asked for, checked. ``minutes`` None: it ends with the seeds. ``title``:
    what its progress is called."""

    seeds: range
    minutes: float | None
    jobs: int
    device: Device
    engine: EngineName
    faults: NamedFaults | None
    title: str = "fuzz"
    #: play the distilled cover first; or distil one of the seeds
    cover: bool = False
    distil: bool = False
    #: keep what it has seen, for squall serve
    keep_history: bool = False
    #: of trainings over process groups
    groups: bool = False

    @property
    def settings(self) -> Settings:
        """What all its scenarios have in common."""
        faults = self.faults
        profile, plan = (None, NO_FAULTS) if faults is None else (faults.profile, faults.plan)
        return Settings(profile, plan, self.engine, self.device, groups=self.groups)


def campaign_name(asked: Asked) -> str:
    """A campaign in few words."""
    faults = "no faults" if asked.faults is None else asked.faults.text
    span = f"from seed {asked.seeds.start}" if asked.minutes else ""
    span = span or f"seeds {asked.seeds.start}:{asked.seeds.stop}"
    engine = "" if asked.engine == "port" else f", engine {asked.engine}"
    engine = ", trainings" if asked.groups else engine
    return f"{span}, {faults}{engine}"


def failure_line(failure: Failure, asked: Asked) -> str:
    """What broke, and how to see it again."""
    kept = "" if not failure.file else f"\n  kept: {failure.file}"
    command = again(failure, asked)
    look = command.replace("squall replay", "squall timeline", 1)
    note = failure.scenario.note
    name = f"seed {note or failure.scenario.seed}" if names_a_seed(note) else note
    return f"{name}: {in_words(failure.text, {})}\n  again: {command}\n  look: {look}{kept}"


def again(failure: Failure, asked: Asked) -> str:
    """A command line that shows the failure again."""
    scenario = failure.scenario
    words = ["squall", "replay", scenario.note or str(scenario.seed)]
    if not names_a_seed(scenario.note):
        return shlex.join(words)
    if asked.faults is not None:
        words += ["--faults", asked.faults.text]
    if asked.device != "cpu":
        words += ["--device", asked.device]
    if asked.engine != "port":
        words += ["--engine", asked.engine]
    return shlex.join(words)


def left_out(asked: Asked) -> list[str]:
    """What of the faults the engine cannot do: items of the plan, or kinds of those drawn."""
    engine = ENGINES[asked.engine]
    faults = asked.faults
    if faults is not None and faults.profile is not None:
        return engine.kinds_left_out()
    return engine.left_out(NO_FAULTS if faults is None else faults.plan)


def tell_known(campaign: Campaign) -> None:
    """Name the rules behind each failure of a campaign on the engine ``torch``, where it is known."""
    if campaign.engine != "torch" or not campaign.failures:
        return
    from squall.sim.diff.known import known_rules
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.stock.shared import close_fork_servers

    try:
        with campaign_settings():
            for failure in campaign.failures.values():
                failure.known = known_rules(failure.scenario)
    finally:
        close_fork_servers()


def campaign_json(campaign: Campaign, asked: Asked, told: list[PriorFailure] | None = None) -> str:
    """The object of ``squall fuzz --json``; its keys are in docs/json.md."""
    good = "ok" if campaign.unchecked is None else NOT_CHECKED
    outcome = good if campaign.ok else "failed"
    return json.dumps(
        {
            "outcome": "interrupted" if campaign.interrupted else outcome,
            "checked": campaign.unchecked is None,
            "unchecked": campaign.unchecked,
            "engine": asked.engine,
            "device": asked.device,
            "jobs": asked.jobs,
            "first_seed": asked.seeds.start,
            "scenarios": campaign.scenarios,
            "corpus": campaign.corpus,
            "cover": campaign.cover,
            "failed": campaign.failed,
            "failures": [_failure_json(f, campaign, asked) for f in campaign.failures.values()],
            "hangs": campaign.hangs,
            "events": campaign.events,
            "wall_time_s": campaign.seconds,
            "scenarios_per_second": campaign.scenarios_per_second,
            "features": campaign.feature_counts(),
            "profile": None if asked.faults is None else asked.faults.text,
            "sometimes": campaign.sometimes_counts(),
            "faults": campaign.fault_counts(),
            "reached": {
                name: campaign.seen.reached.get(name) for name in campaign.sometimes_counts()
            },
            "coverage": campaign.seen.counts(),
            "left_out": left_out(asked),
            "confidence": None if told is None else [each.to_json() for each in told],
        },
        allow_nan=False,
    )


def _failure_json(failure: Failure, campaign: Campaign, asked: Asked) -> dict[str, Any]:
    found = campaign.found[failure.key]
    return {
        "seed": failure.scenario.seed,
        **({} if failure.violation is None else failure.violation.to_json()),
        "count": failure.count,
        "schedules": [found.again, found.played] if found.played else None,
        "known": list(failure.known),
        "also": sorted({each.property for each in failure.also}),
        "replay": again(failure, asked),
        "file": failure.file or None,
        "drawn": dict(expanded(failure.scenario)),
    }


def print_campaign(
    campaign: Campaign,
    asked: Asked,
    console: Console,
    *,
    stats: bool,
    told: list[PriorFailure] | None = None,
) -> None:
    """Failures by what broke, the features if asked for, and a summary.

    ``told``: what a clean campaign says of failures that were found before.
    """
    console = Console(file=console.file, width=min(WIDTH, console.width), highlight=False)
    for number, failure in enumerate(campaign.failures.values()):
        if number < PROGRAMS_SHOWN:
            print_program(failure.scenario, [failure.text], [failure.text], console)
        console.print(Text(failure_line(failure, asked), style="red"), soft_wrap=True)
        if failure.known:
            rules = ", ".join(failure.known)
            known = f"  known of PyTorch's engine: {rules} (docs/divergences.md)"
            console.print(Text(known, style="yellow"), soft_wrap=True)
        for other in failure.also[:3]:
            text = in_words(f"  also: {other}", {})
            console.print(Text(text, style="dim"), soft_wrap=True)
        often = f"  first to break in {failure.count:,} scenarios"
        found = campaign.found[failure.key]
        if found.played:
            often += f"; {found.again} of {found.played} other schedules of its program show it too"
        console.print(Text(often), soft_wrap=True)
        for name, value in expanded(failure.scenario, {}):
            console.print(Text(f"    {name:14} {value}", style="dim"), soft_wrap=True)
    if campaign.scenarios == 1:
        for line in campaign.last_hang:
            console.print(Text(line, style="yellow"), soft_wrap=True)
    if stats:
        console.print(_counts("features of programs", campaign.feature_counts(), campaign))
        if asked.faults:
            console.print(_counts("rare situations", campaign.sometimes_counts(), campaign))
            console.print(_faults(campaign))
        if campaign.seen.scenarios:
            console.print(_coverage(campaign.seen))
    if told:
        print_told(told, console)
    print_panel(console, _summary(campaign), "squall fuzz", good=campaign.ok)


def _summary(campaign: Campaign) -> Table:
    table = summary_table()
    scenarios = f"{campaign.scenarios:,} scenario{'' if campaign.scenarios == 1 else 's'}"
    failed = f"{campaign.failed:,} of {scenarios} failed"
    holds = f"{scenarios}, every property holds"
    if campaign.ok and campaign.unchecked is not None:
        holds = NOT_CHECKED
    table.add_row("outcome", verdict(holds if campaign.ok else failed, good=campaign.ok))
    unchecked_row(table, campaign.unchecked)
    if campaign.interrupted:
        table.add_row("", Text("interrupted", style="yellow"))
    table.add_row("hangs", f"{campaign.hangs:,}, each predicted")
    speed = f"{campaign.scenarios_per_second:,.1f} scenarios a second, "
    table.add_row("speed", f"{speed}{campaign.events:,} events, {campaign.seconds:.1f} s")
    return table


def _faults(campaign: Campaign) -> Table:
    table = Table(title="faults", title_justify="left", box=None, padding=(0, 2))
    table.add_column("kind")
    table.add_column("times", justify="right")
    for kind, count in campaign.fault_counts().items():
        table.add_row(kind, f"{count:,}", style="" if count else "bold red")
    return table


def _coverage(seen: Seen) -> Table:
    """How much behaviour was seen, how that grew, and what more scenarios would add."""
    title = f"behaviour seen after so many scenarios; to come: in {_MORE:,} more, at most"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    table.add_column("facts", no_wrap=True)
    growth = seen.growth()[-_GROWTH_SHOWN:]
    for number, _ in growth:
        table.add_column(f"{number:,}", justify="right")
    table.add_column("to come", justify="right")
    to_come = seen.to_come(_MORE)
    for name, what in SETS.items():
        left = to_come[name]
        more = f"{left:,.0f}" if left >= 1 else "< 1"
        table.add_row(what, *(f"{counts[name]:,}" for _, counts in growth), more)
    return table


def _counts(title: str, counts: dict[str, int], campaign: Campaign) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    table.add_column("what")
    table.add_column("scenarios", justify="right")
    table.add_column("", justify="right")
    played = campaign.scenarios + campaign.corpus + campaign.cover  # all are counted
    for name, count in counts.items():
        share = f"{100 * count / played:.1f} %" if played else ""
        table.add_row(name, f"{count:,}", share, style="" if count else "bold red")
    return table
