"""What ``squall mutants`` says of planted bugs, for people and for machines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.model.events.run import NOT_CHECKED
from squall.sim.cli.panels import WIDTH, print_panel, summary_table, unchecked_row, verdict
from squall.sim.names import Profile
from squall.sim.search.mutants.mutant import DRAWN, Mutant
from squall.sim.search.mutants.result import Result, in_words, median_seconds, only_killers


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What ``squall mutants`` was asked for, checked. ``seeds`` None: all, for ``seconds``;
    ``profile`` None: the faults that each mutant needs."""

    mutants: tuple[Mutant, ...]
    #: not among them, since nothing brings them out yet
    left_out: tuple[Mutant, ...]
    seconds: float
    jobs: int
    seeds: range | None
    profile: Profile | None
    corpus: bool = True
    cover: bool = False


def alarming(results: list[Result], asked: Asked) -> list[Result]:
    """Those that survived and should not have, and those that could not be tried."""
    missed = asked.seeds is None
    return [
        result
        for result in results
        if result.problem is not None or (missed and result.mutant.expected and not result.killed)
    ]


def nothing_tried(results: list[Result]) -> str | None:
    """Why nothing was checked; None if something was."""
    if any(part.scenarios or part.killed for result in results for part in result.parts):
        return None
    return "no scenario came to its end with a planted bug"


def result_line(result: Result) -> str:
    """One line for a terminal."""
    name = result.mutant.name
    if result.problem is not None:
        return f"{name}: {result.problem}"
    campaign, corpus = result.campaign, result.corpus
    tried = f"{campaign.scenarios:,} scenarios, {campaign.seconds:.1f} s"
    stored = f"; the corpus: {corpus.by}" if corpus is not None and corpus.killed else ""
    if not campaign.killed:
        return f"{name}: survived {tried}{stored}"
    return f"{name}: killed by {campaign.by} after {tried}{stored}"


def _facts(mutant: Mutant) -> dict[str, Any]:
    return {
        "name": mutant.name,
        "place": mutant.where,
        "wrong": mutant.wrong,
        "origin": mutant.origin,
        "needs": mutant.needs,
        "expected": mutant.expected,
        "waits_for": mutant.unseen or None,
    }


def list_json(listed: tuple[Mutant, ...]) -> str:
    """The object of ``squall mutants --list --json``; its keys are in docs/json.md."""
    return json.dumps({"mutants": [_facts(mutant) for mutant in listed]})


def print_list(listed: tuple[Mutant, ...], console: Console) -> None:
    """Each with where it comes from and what is wrong."""
    for mutant in listed:
        line = Text(mutant.name, "bold")
        line.append(f"  {mutant.origin}", "dim")
        console.print(line, soft_wrap=True)
        wrong = Text(f"    {mutant.wrong}")
        waits_for = mutant.unseen
        if waits_for:
            wrong.append(f" ({waits_for})", "dim")
        console.print(wrong, soft_wrap=True)


def results_json(results: list[Result], asked: Asked) -> str:
    """The object of ``squall mutants --json``; its keys are in docs/json.md."""
    bad = alarming(results, asked)
    unchecked = nothing_tried(results)
    outcome = "failed" if bad else "ok" if unchecked is None else NOT_CHECKED
    return json.dumps(
        {
            "outcome": "interrupted" if len(results) < len(asked.mutants) else outcome,
            "checked": unchecked is None,
            "unchecked": unchecked,
            "mutants": [result.to_json() for result in results],
            "killed": sum(result.killed for result in results),
            "killed_by_campaign": sum(result.campaign.killed for result in results),
            "killed_by_corpus": sum(_by_corpus(result) for result in results),
            "total": len(asked.mutants),
            "survivors": [result.mutant.name for result in results if not result.killed],
            "median_seconds": median_seconds(results),
            "only_killers": only_killers(results),
            "left_out": [_facts(mutant) for mutant in asked.left_out],
            "seconds": asked.seconds,
            "jobs": asked.jobs,
        },
        allow_nan=False,
    )


def _by_corpus(result: Result) -> bool:
    return result.corpus is not None and result.corpus.killed


def print_results(results: list[Result], asked: Asked, console: Console) -> None:
    """A line for each, what went wrong with any, and a summary."""
    console = Console(file=console.file, width=max(WIDTH, console.width), highlight=False)
    console.print(_table(results))
    for result in results:
        if result.problem is not None:
            console.print(Text(f"{result.mutant.name}: {result.problem}", "red"), soft_wrap=True)
        elif result.mutant.origin == DRAWN and not result.killed:
            changed = f"survived: {result.mutant.where}, {result.mutant.wrong}"
            console.print(Text(changed), soft_wrap=True)
    if len(results) == 1 and results[0].first is not None:
        console.print(Text(results[0].first.text), soft_wrap=True)
    good = not alarming(results, asked)
    print_panel(console, _summary(results, asked), "squall mutants", good=good)


def _table(results: list[Result]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("mutant", no_wrap=True)
    table.add_column("killed by", no_wrap=True)
    table.add_column("corpus", no_wrap=True)
    table.add_column("scenarios", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("smallest failing scenario", no_wrap=True)
    for result in results:
        campaign = result.campaign
        by = Text(campaign.by, "green") if campaign.by else Text("survived", "bold red")
        if not campaign.killed and not result.mutant.expected:
            by = Text("survived", "yellow")
        if result.problem is not None:
            by = Text("not tried", "bold red")
        smallest = result.smallest
        size = "" if smallest is None else in_words(smallest)
        stored = (result.corpus.by or "") if result.corpus is not None else ""
        scenarios, seconds = f"{campaign.scenarios:,}", f"{campaign.seconds:.1f}"
        table.add_row(result.mutant.name, by, stored, scenarios, seconds, size)
    return table


def _summary(results: list[Result], asked: Asked) -> Table:
    killed = sum(result.campaign.killed for result in results)
    summary = summary_table()
    good = not alarming(results, asked)
    text = f"{killed:,} of {len(results):,} by the campaign"
    if any(result.corpus is not None for result in results):
        stored = sum(_by_corpus(result) for result in results)
        alone = sum(_by_corpus(result) and not result.campaign.killed for result in results)
        text += f", {stored:,} by the corpus, {alone:,} by the corpus alone"
    summary.add_row("killed", verdict(text, good=good))
    unchecked_row(summary, nothing_tried(results))
    median = median_seconds(results)
    if median is not None:
        summary.add_row("time", f"{median:.1f} s in the median, of those that the campaign killed")
    unique = {name: len(found) for name, found in only_killers(results).items() if found}
    if unique:
        listed = ", ".join(f"{name} {count}" for name, count in unique.items())
        summary.add_row("noticed by one property alone", listed)
    if asked.left_out:
        left = f"{len(asked.left_out)} that nothing brings out yet; --all tries them too"
        summary.add_row("left out", left)
    if len(results) < len(asked.mutants):
        summary.add_row("", Text("interrupted", style="yellow"))
    return summary
