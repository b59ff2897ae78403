"""What a campaign has come to, in a database: a lease is there whole or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from squall.sim.campaigns.address import Address, CampaignStoreError, UnusableError, address_of
from squall.sim.campaigns.database import PATIENCE_S, Database
from squall.sim.campaigns.lease import Judged, Row
from squall.sim.campaigns.leases import Key, digests
from squall.sim.campaigns.locks import FileLock, ShareLock
from squall.sim.campaigns.opening import enter
from squall.sim.campaigns.plan import Lease
from squall.sim.campaigns.reading import Kind, Reading, open_store
from squall.sim.campaigns.tables import FAILURE, LEASE, added
from squall.sim.campaigns.transfer import absorb

__all__ = ["CampaignStore", "CampaignStoreError", "Kind"]

#: leases that the store is asked for at a time
_ASKED = 500


class CampaignStore(Reading):
    """The store of whoever plays a campaign, or a share of it; nobody else plays the same.

    ``said``: what decides the verdicts of the campaign, which a resumed one must say as well. A
    file holds one share, a database of a server those of many drivers, of which each sees its own.
    ``tell`` gets a line when a server is lost, and one when it is there again.

    Its methods raise CampaignStoreError. What was taken stays, whatever ends the process.
    """

    def __init__(
        self,
        place: Address | Path,
        said: dict[str, str],
        *,
        resume: bool,
        tell: Callable[[str], object] = lambda line: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        address = address_of(place)
        index, of = map(int, said["share"].split(" of "))
        shared = address.file is None
        with ExitStack() as opened:
            if address.file is not None:
                opened.callback(_lock(address.file).close)
            on_connect = ShareLock(index, of).take if shared else lambda connection: None
            database = Database(
                address, create=True, on_connect=on_connect, tell=tell, patience_s=patience_s
            )
            opened.callback(database.close)
            begin = partial(enter, said=said, share=(index, of), shared=shared, resume=resume)
            database.run(begin, again=False)
            self._opened = opened.pop_all()
        super().__init__(database, said, (index, of) if shared else (0, 1))

    def has(self, lease: Lease) -> bool:
        return not list(self.left([lease]))

    def left(self, leases: Iterable[Lease]) -> Iterator[Lease]:
        """Those that it does not have, in their order; some are looked up at a time."""
        waiting = iter(leases)
        while some := list(islice(waiting, _ASKED)):
            there = self._db.run(partial(digests, keys=[*map(_key, some)]))
            yield from (lease for lease in some if _key(lease) not in there)

    def take(self, done: Sequence[Judged]) -> list[Judged]:
        """Keep what came of leases, in one transaction; on disk when this returns. Those that were
        not there before come back."""
        found = {each.lease.key: each for each in done}
        leases = [_lease_columns(each) for each in found.values()]
        tried = False

        def put(connection: Connection) -> list[Judged]:
            nonlocal tried
            before, tried = tried, True
            new = [found[key] for key in added(connection, LEASE, leases)]
            failures = [
                {"part": part, "first": first, **_texts(row)}
                for each in new
                for (part, first) in [each.lease.key]
                for row in each.failures
            ]
            if failures:
                connection.execute(insert(FAILURE), failures)
            if before and len(new) < len(found):
                # a server may have been lost after it had taken leases, and before it said so
                there = digests(connection, found)
                new = [each for key, each in found.items() if there.get(key) == each.digest]
            return new

        return self._db.run(put)

    def absorb(self, other: Path | Address) -> None:
        """Take over all that another store has; nothing of it, if the two have judged a lease
        differently."""
        source = open_store(other)
        try:
            absorb(self._db, source)
        finally:
            source.close()

    def close(self) -> None:
        self._opened.close()


def _lock(file: Path) -> FileLock:
    try:
        return FileLock(file)
    except UnusableError as error:
        raise CampaignStoreError(f"{file}: {error}") from None


def _key(lease: Lease) -> Key:
    return lease.part.name, lease.seeds.start


def _lease_columns(judged: Judged) -> dict[str, Any]:
    part, first = judged.lease.key
    return {
        "part": part,
        "first": first,
        "stop": judged.lease.seeds.stop,
        "number": judged.lease.number,
        "digest": judged.digest,
        "events": judged.events,
        "failed": len(judged.failures),
    }


def _texts(row: Row) -> dict[str, Any]:
    """The columns of a failure. PostgreSQL's texts have no zero bytes in them, and nobody's have
    halves of characters."""
    said = row._asdict()
    del said["events"]
    return {name: _storable(value) for name, value in said.items()}


def _storable(value: object) -> object:
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
