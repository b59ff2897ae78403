"""``campaign.toml``: the parts of a campaign, and the share of its scenarios that each has."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from squall.model.program.strict_json import complaint
from squall.sim.campaigns.plan import MOST, Part, Plan
from squall.sim.names import PROFILES

#: parts by name, but for their seeds
PARTS: dict[str, Part] = {
    "plain": Part("plain", range(0)),
    **{profile: Part(profile, range(0), profile) for profile in PROFILES},
    "torch": Part("torch", range(0), engine="torch"),
}
#: how far shares may be from adding up to 1, which decimal fractions may not do exactly
_ROUNDING = 1e-9


class CampaignFileError(Exception):
    """The file is no campaign: which field, and what would be right."""


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    scenarios: Annotated[int, Field(ge=1, le=MOST)]
    first_seed: Annotated[int, Field(ge=0, le=MOST)] = 0
    parts: dict[str, Annotated[float, Field(gt=0, le=1)]]


def load_plan(file: Path) -> Plan:
    """The plan that a file describes. Raises CampaignFileError."""
    try:
        said = _File.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise CampaignFileError(f"{file}: {error.strerror}") from None
    except ValidationError as error:
        problem = complaint(error, "part").removeprefix(".")
        raise CampaignFileError(f"{file}: {problem}") from None
    except (ValueError, RecursionError) as error:
        raise CampaignFileError(f"{file}: {_one_line(error)}") from None
    try:
        return Plan(_parts(said))
    except CampaignFileError as error:
        raise CampaignFileError(f"{file}: {error}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _parts(said: _File) -> tuple[Part, ...]:
    for name in said.parts:
        if name not in PARTS:
            raise CampaignFileError(
                f"parts: there is no part {name!r}, expected some of {', '.join(PARTS)}"
            )
    total = math.fsum(said.parts.values())
    if abs(total - 1) > _ROUNDING:
        raise CampaignFileError(f"parts: the shares add up to {total:g}, expected 1")
    found = []
    share, before = 0.0, 0
    for name, part in PARTS.items():
        if name not in said.parts:
            continue
        share += said.parts[name]
        after = round(share * said.scenarios)
        if after == before:
            raise CampaignFileError(
                f"parts.{name}: {said.parts[name]:g} of {said.scenarios} scenarios is none"
            )
        seeds = range(said.first_seed, said.first_seed + after - before)
        if seeds.stop > MOST:
            raise CampaignFileError(f"parts.{name}: its seeds end at {seeds.stop}, expected {MOST}")
        found.append(Part(name, seeds, part.profile, part.engine))
        before = after
    return tuple(found)
