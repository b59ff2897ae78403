"""A finding as its folder describes it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

HERE = Path(__file__).resolve().parent

#: worst first; the page is sorted by it
Severity = Literal["wrong-gradient", "wrong-value", "memory", "hang", "leak", "error"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

#: the commit of torch 2.13.0 (``torch.version.git_version``)
TORCH_2_13 = "cf30153c4c131c8164ee7798e5022d810682e2cb"
#: what a text must tell, and what it may
REQUIRED, OPTIONAL = ("Stock", "Cause", "Mend"), ("Port",)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Place(_Strict):
    """Where in PyTorch's sources a cause lies."""

    file: str
    function: str
    #: of the cause at ``commit``, or of the check of that function which is nearest to it, as a
    #: binary names those; none where neither was to be had
    line: int | None = Field(default=None, ge=1)
    commit: str = Field(default=TORCH_2_13, pattern="^[0-9a-f]{40}$")


class Report(_Strict):
    """A public issue or pull request that speaks of it."""

    repository: str = Field(default="pytorch/pytorch", pattern=r"^[\w.-]+/[\w.-]+$")
    number: int = Field(ge=1)
    says: str = Field(min_length=1)


class Facts(_Strict):
    """``finding.toml``."""

    title: str = Field(min_length=1, max_length=90)
    severity: Severity
    causes: tuple[Place, ...] = Field(min_length=1)
    #: empty: a search found none, which is not proof
    reports: tuple[Report, ...] = ()
    #: it takes functions whose names begin with an underscore to bring it about; those that only
    #: count what is left do not matter
    private_api: bool = False
    #: why there is no ``stock.py``: the defect needs what real processes cannot be made to do
    only_under_squall: str = ""
    #: why there is no ``scenario.json``: what it is that the simulated network does not have
    no_scenario: str = ""
    #: seconds of real time after which ``stock.py`` is stopped
    limit_s: float = Field(default=120.0, gt=0, le=600)
    #: why runs on stock may end in different lines
    stock_varies: str = ""
    #: why runs of ``scenario.json`` may have different digests and find different texts
    scenario_varies: str = ""

    @model_validator(mode="after")
    def _one_reason(self) -> Facts:
        if self.only_under_squall and (self.private_api or self.stock_varies):
            raise ValueError(
                "private_api and stock_varies are about stock.py, which there is none of"
            )
        return self


class FindingError(ValueError):
    """A folder that is not a finding; the text says what is missing or wrong, and in which file."""


@dataclass(frozen=True)
class Finding:
    """A folder that was read and checked."""

    name: str
    facts: Facts
    #: the text under each heading
    text: dict[str, str]
    folder: Path

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
    return sorted(
        found,
        key=lambda one: (
            bool(one.facts.only_under_squall),
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
    finding = Finding(name, facts, _sections(folder / "finding.md"), folder)
    if (finding.stock is None) != bool(facts.only_under_squall):
        raise FindingError(f"{folder}: either stock.py or, in finding.toml, only_under_squall")
    if (finding.scenario is None) != bool(facts.no_scenario):
        raise FindingError(f"{folder}: either scenario.json or, in finding.toml, no_scenario")
    if finding.stock is None and finding.scenario is None:
        raise FindingError(f"{folder}: neither stock.py nor scenario.json shows it")
    return finding


def _sections(file: Path) -> dict[str, str]:
    if not file.exists():
        raise FindingError(f"{file} is missing")
    before, *parts = re.split(r"^## (.+)\n", file.read_text("utf-8"), flags=re.M)
    sections = {head: text.strip() for head, text in zip(parts[::2], parts[1::2], strict=True)}
    missing = [head for head in REQUIRED if not sections.get(head)]
    others = [head for head in sections if head not in REQUIRED + OPTIONAL]
    if before.strip() or missing or others:
        raise FindingError(
            f"{file}: it has ## {', ## '.join(REQUIRED)} and perhaps ## {', ## '.join(OPTIONAL)}, "
            f"and nothing before them; missing: {missing}, not known: {others}"
        )
    return sections


def _there(file: Path) -> Path | None:
    return file if file.exists() else None
