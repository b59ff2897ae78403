"""Whether a driver may write into a store: of which squall it is, what it holds, and which shares have begun."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping

from squall.sim.campaigns.address import UnusableError
from squall.sim.campaigns.database import Asked
from squall.sim.campaigns.locks import gate
from squall.sim.campaigns.tables import CAMPAIGN, SCHEMA, SHARE, TABLES

#: of the schema that this squall writes and reads. Another one whenever the tables change.
VERSION = "5"


def enter(
    asked: Asked, said: Mapping[str, str], share: tuple[int, int], *, shared: bool, resume: bool
) -> None:
    """Begin or go on with a campaign that says this; all of it in one transaction.

    ``shared``: other drivers may be at it, each with a share of its own. Raises UnusableError.
    """
    if shared:
        gate(asked)
        said = {name: value for name, value in said.items() if name != "share"}
    if not _is_ours(asked):
        for table in TABLES:
            asked.ask(table.made(on_server=asked.on_server))
        asked.add(SCHEMA, [{"version_num": VERSION}])
    known = said_by(asked)
    if known is None:
        asked.add(CAMPAIGN, [{"said": json.dumps(dict(said))}])
    else:
        begun = _begun(asked, share) if shared else "a campaign"
        if begun and not resume:
            raise UnusableError(f"holds {begun}; --resume goes on with it")
        for name, value in said.items():
            if known.get(name) != value:
                raise UnusableError(
                    f"{name} was {known.get(name)!r} and is {value!r} now: verdicts would differ"
                )
    signed = (*share, socket.gethostname(), os.getpid(), time.time())
    asked.put(SHARE, dict(zip(SHARE.columns, signed, strict=True)))


def said_by(asked: Asked) -> dict[str, str] | None:
    """What decides the verdicts in it; None where nothing has begun. Raises UnusableError."""
    if not _is_ours(asked):
        return None
    known = asked.ask(f"SELECT said FROM {CAMPAIGN.name}")
    said: dict[str, str] | None = json.loads(known[0][0]) if known else None
    return said


def _is_ours(asked: Asked) -> bool:
    """Whether its tables are there. Raises UnusableError for those of something else, or of another squall."""
    found = asked.tables()
    if SCHEMA.name not in found:
        if found & {table.name for table in TABLES}:
            raise UnusableError("its tables are those of something else")
        return False
    ((version,),) = asked.ask(f"SELECT version_num FROM {SCHEMA.name}")
    if version != VERSION:
        raise UnusableError(
            f"its schema is {version}, that of another squall; this one's is {VERSION}"
        )
    return True


def _begun(asked: Asked, share: tuple[int, int]) -> str:
    """What has begun there of which this share is a part, in words; "" if nothing."""
    for its in asked.ask(f"SELECT number, shares FROM {SHARE.name}"):
        if its[1] != share[1]:
            return "a campaign" if its[1] == 1 else f"a campaign of {its[1]} shares"
        if its == share:
            return "a campaign" if its[1] == 1 else f"share {its[0]} of {its[1]}"
    return ""
