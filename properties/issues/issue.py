"""An issue as its script and its verdict tell it, and how it is played on stock PyTorch and under squall."""

from __future__ import annotations

import io
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from squall.model.checks.registry import check
from squall.properties.findings.results import NO_LINE
from squall.properties.findings.run import output
from squall.properties.support.scripts import run_file

HERE = Path(__file__).resolve().parent
#: the lines on stock PyTorch, kept as those of findings are
STOCK = HERE / "stock.json"
#: lines of a script
MOST_LINES = 50
_HEAD = re.compile(
    r"# (?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+), (?P<ranks>\d) ranks?\n"
    r"# (?P<title>.+)\n"
    r"# Expected: (?P<expected>.+)\n"
)
_LINE = re.compile(r"^(?:BUG|OK) .+$", re.M)


class IssueError(ValueError):
    """A script or a verdict that lacks something; the text says what, and in which file."""


class Verdict(BaseModel):
    """A table of ``verdicts.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: on stock PyTorch, as ``stock.json`` has it
    verdict: Literal["reproduced", "mended", "not reproduced"]
    #: the outcome of ``squall run SCRIPT --engine torch``
    squall: str
    #: of what is mended, where; of what is not reproduced, what was tried; else whose it is, or why it is so
    note: str = Field(min_length=1)
    #: the folder of the finding that it is, or became
    finding: str = ""


@dataclass(frozen=True)
class Issue:
    """``expected``: what should happen, in a sentence."""

    name: str
    repository: str
    number: int
    ranks: int
    title: str
    expected: str
    verdict: Verdict

    @property
    def script(self) -> Path:
        return HERE / "scripts" / f"{self.name}.py"

    @property
    def url(self) -> str:
        return f"https://github.com/{self.repository}/issues/{self.number}"


def issues() -> list[Issue]:
    """All of them, by name. Raises :class:`IssueError`."""
    tables = tomllib.loads((HERE / "verdicts.toml").read_text("utf-8"))
    scripts = sorted((HERE / "scripts").glob("*.py"))
    apart = {script.stem for script in scripts} ^ tables.keys()
    if apart:
        raise IssueError(f"verdicts.toml and scripts/ differ by {', '.join(sorted(apart))}")
    return [_read(script, tables[script.stem]) for script in scripts]


def _read(script: Path, table: dict[str, str]) -> Issue:
    head = _HEAD.match(script.read_text("utf-8"))
    if head is None:
        raise IssueError(f"{script}: its first lines are the issue with its ranks, title, Expected")
    try:
        verdict = Verdict.model_validate(table)
    except ValidationError as error:
        raise IssueError(f"verdicts.toml: {script.stem}: {error}") from None
    number, ranks = int(head["number"]), int(head["ranks"])
    if script.stem != f"{head['repository'].partition('/')[2].lower()}-{number}":
        raise IssueError(f"{script}: its name is the repository and the number")
    return Issue(
        script.stem, head["repository"], number, ranks, head["title"], head["expected"], verdict
    )


def on_stock(one: Issue, *, limit_s: float) -> str:
    """The line that it prints with real processes, or ``no line: …``; ``limit_s`` seconds of real time."""
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(one.ranks)]
    code, printed = output([*run, str(one.script)], limit_s=limit_s)
    why = f"stopped after {limit_s:g} s" if code is None else f"it ended with code {code}"
    return line_of(printed) or f"{NO_LINE}: {why}"


@dataclass(frozen=True)
class Played:
    """What squall says of it: the outcome, the line if one was printed, and what it found."""

    outcome: str
    line: str
    found: list[str]


def under_squall(one: Issue, seed: int = 0) -> Played:
    out = io.StringIO()
    run = run_file(
        one.script, workers=one.ranks, engine="torch", seed=seed, stdout=out, stderr=io.StringIO()
    )
    run.violations = check(run)
    found = [text for texts in run.process_groups.found.values() for text in texts]
    return Played(run.outcome, line_of(out.getvalue()), found)


def line_of(printed: str) -> str:
    """The one line ``BUG …`` or ``OK …``; empty if there is none. Raises :class:`IssueError` for several."""
    lines = _LINE.findall(printed)
    if len(lines) > 1:
        raise IssueError(f"a script prints one line, not {len(lines)}: {lines}")
    return lines[0] if lines else ""
