"""A finding as its folder describes it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

HERE = Path(__file__).resolve().parent

#: worst first; the table is sorted by it
Severity = Literal["wrong-gradient", "wrong-value", "memory", "hang", "leak", "error", "difference"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

#: what PyTorch's own words say: they promise something else; they describe it; it is meant to be so
Words = Literal["promised", "documented", "by design"]

#: the headings of a README: what it must tell, and what it may
REQUIRED = ("On stock PyTorch", "Cause", "What would mend it")
OPTIONAL = ("Reports", "In the port")
#: what a README says where there is no such file
NO_STOCK = "*There is no script for stock PyTorch:* "
NO_SCENARIO = "*There is no scenario for squall:* "
#: a line, or a file, of a source at a commit
_PLACE = re.compile(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/blob/[0-9a-f]{40}/[^)]+\)")


class Facts(BaseModel):
    """``finding.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    severity: Severity
    #: what PyTorch's own words say of it, and the sentence, behind the name of what it stands at
    words: Words | None = None
    sentence: str = ""
    #: the finding that has the same cause
    same_cause_as: str = ""
    #: it takes functions whose names begin with an underscore to bring it about; those that only
    #: count what is left do not matter
    private_api: bool = False
    #: seconds of real time after which ``stock.py`` is stopped
    limit_s: float = Field(default=120.0, gt=0, le=600)
    #: runs of ``scenario.json`` may have different digests and find different texts
    scenario_varies: bool = False


class FindingError(ValueError):
    """A folder that is not a finding; the text says what is missing or wrong, and in which file."""


@dataclass(frozen=True)
class Finding:
    """A folder that was read and checked."""

    name: str
    #: the heading of its README
    title: str
    facts: Facts
    folder: Path

    @property
    def page(self) -> Path:
        """The text about it."""
        return self.folder / "README.md"

    @property
    def stock(self) -> Path | None:
        """The stand-alone script, if there is one."""
        return _there(self.folder / "stock.py")

    @property
    def control(self) -> Path | None:
        """The same computation in one process, if there is one."""
        return _there(self.folder / "control.py")

    @property
    def scenario(self) -> Path | None:
        """The same under squall, if there is one."""
        return _there(self.folder / "scenario.json")


def findings(here: Path = HERE) -> list[Finding]:
    """All of them: by severity, within one by name, those that need private names last.

    Raises:
        FindingError: a folder lacks something, or something in it is wrong
    """
    found = [read(file.parent) for file in sorted(here.glob("*/finding.toml"))]
    names = {one.name for one in found}
    for one in found:
        if one.facts.same_cause_as and one.facts.same_cause_as not in names:
            raise FindingError(f"{one.folder}: same_cause_as: no {one.facts.same_cause_as!r}")
    return sorted(
        found,
        key=lambda one: (
            one.stock is None,
            one.facts.private_api,
            SEVERITIES.index(one.facts.severity),
            one.name,
        ),
    )


def read(folder: Path) -> Finding:
    """One folder.

    Raises:
        FindingError: it lacks something, or something in it is wrong
    """
    name = folder.name
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise FindingError(f"{folder}: a folder's name is lower case words joined by hyphens")
    try:
        facts = Facts.model_validate(tomllib.loads((folder / "finding.toml").read_text("utf-8")))
    except (ValidationError, tomllib.TOMLDecodeError) as error:
        raise FindingError(f"{folder / 'finding.toml'}: {error}") from None
    text = _text(folder / "README.md")
    if (facts.words is None) != (not facts.sentence):
        raise FindingError(f"{folder / 'finding.toml'}: words and sentence stand together")
    finding = Finding(name, text.partition("\n")[0].removeprefix("# "), facts, folder)
    for file, why in (("stock.py", NO_STOCK), ("scenario.json", NO_SCENARIO)):
        if (folder / file).exists() == (why in text):
            raise FindingError(f"{folder}: either {file} or, in README.md, {why}...")
    if finding.stock is None and finding.scenario is None:
        raise FindingError(f"{folder}: neither stock.py nor scenario.json shows it")
    return finding


def _text(file: Path) -> str:
    """A README that has a title, its headings and the place of the cause."""
    if not file.exists():
        raise FindingError(f"{file} is missing")
    text = file.read_text("utf-8")
    before, parts = sections(text)
    missing = [head for head in REQUIRED if not parts.get(head)]
    others = [head for head in parts if head not in REQUIRED + OPTIONAL]
    if missing or others:
        raise FindingError(
            f"{file}: it has ## {', ## '.join(REQUIRED)} and perhaps ## {', ## '.join(OPTIONAL)}; "
            f"missing: {missing}, not known: {others}"
        )
    if not before.startswith("# "):
        raise FindingError(f"{file}: its first line is a title, # ...")
    if not _PLACE.search(parts["Cause"]):
        raise FindingError(f"{file}: ## Cause links to a file on GitHub at a commit (40 digits)")
    return text


def sections(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first ``##`` of a page, and each part by its heading."""
    before, *parts = re.split(r"^## (.+)\n", text, flags=re.M)
    return before, {head: part.strip() for head, part in zip(parts[::2], parts[1::2], strict=True)}


def _there(file: Path) -> Path | None:
    return file if file.exists() else None
