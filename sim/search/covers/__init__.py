"""Distilled covers: seeds whose programs together show what many more seeds show, rarest first.

A campaign plays the cover of its profile before its own seeds, on schedules of its own
(:mod:`squall.sim.search.schedules`). A cover names seeds, so it says something only of the
generator that it was made with, of which it keeps a stamp; with a later one its seeds are as good as
any. ``squall fuzz --distil N`` makes one under ``.squall/covers``, which then takes the place of the
one that is shipped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from squall.model.program.file import dump_program
from squall.sim.names import MAX_SEED, PROFILES
from squall.sim.scenarios.store import default_place, write_synced
from squall.sim.search.schedules import Rescheduled

if TYPE_CHECKING:
    from squall.sim.search.draw import Settings

#: seeds whose programs stamp a generator
_STAMPED = range(24)
#: a campaign plays at most one scenario of a cover for so many seeds of its own
SHARE = 10

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class CoverError(ValueError):
    """A file that holds no cover: its name, and what is wrong."""


class Cover(BaseModel):
    """``seeds`` of a profile of faults ("": none), from ``scenarios`` many, which showed ``facts``."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    version: Annotated[int, Field(ge=1, le=1)] = 1
    profile: str
    generator: str
    scenarios: Annotated[int, Field(ge=0)]
    facts: Annotated[int, Field(ge=0)]
    seeds: Annotated[tuple[Seed, ...], Field(strict=False)]

    @property
    def current(self) -> bool:
        """Whether the generator of today drew it."""
        return self.generator == stamp(self.profile)

    def on(self, schedule: int, most: int | None = None) -> list[Rescheduled]:
        """The first ``most`` of its scenarios on a schedule."""
        return [Rescheduled(seed, schedule) for seed in self.seeds[:most]]

    def save(self, file: Path) -> None:
        """Raises OSError."""
        file.parent.mkdir(parents=True, exist_ok=True)
        write_synced(file, self.text())

    def text(self) -> str:
        return json.dumps(self.model_dump()) + "\n"


@cache
def stamp(profile: str) -> str:
    """What tells one generator from another: by what a few seeds draw under a profile."""
    from squall.sim.search.draw import draw, settings_of

    seen = blake2b(digest_size=8)
    for seed in _STAMPED:
        work = draw(seed, settings_of(profile)).program
        assert work is not None
        seen.update(dump_program(work).encode())
    return seen.hexdigest()


def load_cover(text: str, name: str) -> Cover:
    """Raises CoverError, which names what is wrong."""
    try:
        cover = Cover.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "cover"
        raise CoverError(f"{name}: {place}: {first['msg']}") from None
    if cover.profile and cover.profile not in PROFILES:
        known = ", ".join(PROFILES)
        raise CoverError(f"{name}: profile: {cover.profile!r}, expected one of {known}, or ''")
    return cover


@cache
def shipped(profile: str) -> Cover | None:
    """The cover that comes with squall."""
    file = files(__name__) / _file_name(profile)
    return load_cover(file.read_text("utf-8"), file.name) if file.is_file() else None


def own_file(profile: str) -> Path:
    """Where a cover of one's own is."""
    return default_place().folder / "covers" / _file_name(profile)


def own(profile: str) -> Cover | None:
    """The cover of this folder, if there is one. Raises CoverError."""
    file = own_file(profile)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CoverError(f"{file}: {error}") from None
    return load_cover(text, str(file))


def cover_for(settings: Settings) -> Cover | None:
    """What a campaign plays first: the cover of this folder, if this generator drew it, else the
    shipped one. None on the compiled engine: what it shows is not what the port shows."""
    if settings.engine != "port":
        return None
    profile = settings.profile or ""
    mine = own(profile)
    return mine if mine is not None and mine.current else shipped(profile)


def merged(covers: Iterable[Cover]) -> Cover:
    """One cover of one profile with the seeds of all. Raises CoverError if they do not fit."""
    first, *others = covers
    seeds = dict.fromkeys(first.seeds)
    for other in others:
        for name in ("profile", "generator"):
            mine, yours = getattr(first, name), getattr(other, name)
            if mine != yours:
                raise CoverError(
                    f"{name}: expected the same in all covers, got {mine!r}, {yours!r}"
                )
        seeds |= dict.fromkeys(other.seeds)
    everything = (first, *others)
    return first.model_copy(
        update={
            "seeds": tuple(seeds),
            "scenarios": sum(cover.scenarios for cover in everything),
            "facts": max(cover.facts for cover in everything),
        }
    )


def _file_name(profile: str) -> str:
    return f"{profile or 'plain'}.json"
