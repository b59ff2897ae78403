"""Whether a driver may write into a store: what it holds, and which shares have begun."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from squall.sim.campaigns.address import UnusableError
from squall.sim.campaigns.locks import gate
from squall.sim.campaigns.schema import create
from squall.sim.campaigns.tables import CAMPAIGN, SHARE


def enter(
    connection: Connection,
    said: Mapping[str, str],
    share: tuple[int, int],
    *,
    shared: bool,
    resume: bool,
) -> None:
    """Begin or go on with a campaign that says this; all of it in one transaction.

    ``shared``: other drivers may be at it, each with a share of its own. Raises UnusableError.
    """
    if shared:
        gate(connection)
        said = {name: value for name, value in said.items() if name != "share"}
    create(connection)
    known = said_by(connection)
    if known is None:
        connection.execute(insert(CAMPAIGN), {"said": json.dumps(dict(said))})
    else:
        begun = _begun(connection, share) if shared else "a campaign"
        if begun and not resume:
            raise UnusableError(f"holds {begun}; --resume goes on with it")
        check_same(known, said)
    index, of = share
    connection.execute(delete(SHARE).where(SHARE.c.index == index, SHARE.c.of == of))
    host, pid = socket.gethostname(), os.getpid()
    signed = {"index": index, "of": of, "host": host, "pid": pid, "began": time.time()}
    connection.execute(insert(SHARE), signed)


def said_by(connection: Connection) -> dict[str, str] | None:
    """What decides the verdicts in it; None where nothing has begun."""
    known = connection.execute(select(CAMPAIGN.c.said)).scalar()
    said: dict[str, str] | None = None if known is None else json.loads(known)
    return said


def check_same(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises UnusableError for the first thing that decides verdicts and is different now."""
    for name, value in now.items():
        if before.get(name) != value:
            raise UnusableError(
                f"{name} was {before.get(name)!r} and is {value!r} now: verdicts would differ"
            )


def _begun(connection: Connection, share: tuple[int, int]) -> str:
    """What has begun there of which this share is a part, in words; "" if nothing."""
    index, of = share
    for its_index, its_of in connection.execute(select(SHARE.c.index, SHARE.c.of)):
        if its_of != of:
            return "a campaign" if its_of == 1 else f"a campaign of {its_of} shares"
        if its_index == index:
            return "a campaign" if of == 1 else f"share {index} of {of}"
    return ""
