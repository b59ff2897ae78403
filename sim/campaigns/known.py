"""Kinds of failures that campaigns of this folder have found: on which versions each shows, and on
which it does not any more. One that comes back after it was gone is a regression.

A kind is a file under ``.squall/known``, beside the scenarios that :mod:`squall.sim.scenarios.store`
keeps.
"""

from __future__ import annotations

import json
import time
from hashlib import blake2b
from typing import Any

from pydantic import Field

from squall.sim.campaigns.plan import versions
from squall.sim.campaigns.row import Key
from squall.sim.scenarios.records import Record, Records
from squall.sim.scenarios.store import StorePlace

_FOLDER = "known"
#: versions that are kept of each kind, the last ones
_MOST = 50


class Version(Record):
    """What ran, ``at`` which time in seconds since 1970, and whether the failure showed."""

    squall: str
    torch: str
    code: str
    shows: bool
    at: float


class Known(Record):
    """A kind of failure: the property, what broke, and where. ``scenario``: the file of one that has
    shown it. ``versions``: the last ones that it was looked for on, in their order."""

    check: str
    what: str
    place: str
    scenario: str
    versions: tuple[Version, ...] = Field(default=(), strict=False)

    @property
    def key(self) -> Key:
        return self.check, self.what, self.place

    @property
    def gone(self) -> Version | None:
        """The version on which it was gone, if that is the last thing that is known of it."""
        last = self.versions[-1] if self.versions else None
        return None if last is None or last.shows else last

    def seen(self, *, shows: bool) -> Known:
        """With what the versions of today have come to. What they have said before is replaced."""
        now = Version(**versions(), shows=shows, at=time.time())
        same = now.model_dump(include={"squall", "torch", "code"})
        kept = [each for each in self.versions if not same.items() <= each.model_dump().items()]
        return self.model_copy(update={"versions": (*kept, now)[-_MOST:]})

    def to_json(self) -> list[dict[str, Any]]:
        return [each.model_dump() for each in self.versions]


def known(place: StorePlace | None = None) -> dict[Key, Known]:
    """All that can be read, by their kinds."""
    return {each.key: each for each in Records(_FOLDER, Known, place).all().values()}


def remember(each: Known, place: StorePlace | None = None) -> None:
    """Raises OSError."""
    name = blake2b(json.dumps(each.key).encode(), digest_size=8).hexdigest()
    Records(_FOLDER, Known, place).put(each, name)
