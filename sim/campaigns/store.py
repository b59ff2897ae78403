"""What a campaign has come to, in a database: a lease is there whole or not."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squall.sim.campaigns.address import Address, CampaignStoreError, UnusableError, address_of
from squall.sim.campaigns.database import PATIENCE_S, Asked, Database
from squall.sim.campaigns.locks import FileLock, ShareLock
from squall.sim.campaigns.open_store import enter
from squall.sim.campaigns.store_reader import FailureKind, Reading, digests, open_store
from squall.sim.campaigns.tables import CANARY, FACT, FAILURE, LEASE, MERGED, SITUATION, Table

if TYPE_CHECKING:
    from squall.sim.campaigns.lease import Judged
    from squall.sim.campaigns.plan import Lease, Plan

__all__ = ["CampaignStore", "CampaignStoreError", "FailureKind"]

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
        #: by part, facts and situations that it has for sure: most leases bring nothing new
        self._known: defaultdict[str, set[int | str]] = defaultdict(set)

    @property
    def patience_s(self) -> float:
        """Real seconds for which a lost server is tried again."""
        return self._db.patience_s

    @patience_s.setter
    def patience_s(self, seconds: float) -> None:
        self._db.patience_s = seconds

    def has(self, lease: Lease) -> bool:
        return not list(self.left([lease]))

    def left(self, leases: Iterable[Lease]) -> Iterator[Lease]:
        """Those that it does not have, in their order; some are looked up at a time."""
        waiting = iter(leases)
        while some := list(islice(waiting, _ASKED)):
            there = self._db.run(partial(digests, keys=[lease.key for lease in some]))
            yield from (lease for lease in some if lease.key not in there)

    def take(self, done: Sequence[Judged]) -> list[Judged]:
        """Keep what came of leases, all in one transaction; on disk when this returns. Those that
        were not there before come back."""
        before: dict[tuple[str, int], str] | None = None

        def put(asked: Asked) -> None:
            nonlocal before
            there = digests(asked, [judged.lease.key for judged in done])
            if before is None:  # else a server was lost, maybe after it had taken all
                before = there
            new = [judged for judged in done if judged.lease.key not in there]
            now_s = time.time()
            for table, rows_of in _ROWS.items():
                asked.add(table, [row for each in new for row in rows_of(each, now_s)])

        if any(each.facts or each.situations for each in done):
            done = [self._without_known(each) for each in done]
        self._db.run(put)
        assert before is not None
        for each in done:
            self._known[each.lease.part.name].update(each.facts, each.situations)
        return [judged for judged in done if judged.lease.key not in before]

    def _without_known(self, judged: Judged) -> Judged:
        known = self._known[judged.lease.part.name]
        facts = tuple(each for each in judged.facts if each not in known)
        situations = tuple(each for each in judged.situations if each not in known)
        return judged._replace(facts=facts, situations=situations)

    def note(self, table: Table, row: dict[str, Any]) -> None:
        """Keep what has come of a planted bug (``CANARY``), or what is known of a kind of failure
        (``TRIAGE``), instead of what was known before."""
        row = {name: _storable(value) for name, value in row.items()}
        self._db.run(lambda asked: asked.put(table, row))

    def absorb(self, other: Path | Address) -> None:
        """Take over all that another store has; nothing of it, if the two have judged a lease
        differently."""
        with closing(open_store(other)) as source:

            def copy(asked: Asked) -> None:
                for table in MERGED:
                    rows = source.rows(table)
                    while some := list(islice(rows, _ASKED)):
                        if table is LEASE:
                            self._check_same(asked, some, source)
                        asked.add(table, some)

            self._db.run(copy)

    def _check_same(self, asked: Asked, leases: list[dict[str, Any]], source: Reading) -> None:
        """Raises CampaignStoreError if this store has other verdicts on leases of another one."""
        there = digests(asked, [(row["part"], row["first"]) for row in leases])
        for row in leases:
            part, first, digest = row["part"], row["first"], row["digest"]
            if there.get((part, first), digest) != digest:
                raise CampaignStoreError(
                    f"{source.file}: its verdicts on the seeds from {first} on, part {part}, "
                    f"are not those of {self.file}"
                )

    def close(self) -> None:
        self._opened.close()


def merge(
    places: Sequence[Path | Address], into: Path | Address, *, resume: bool
) -> tuple[CampaignStore, Plan]:
    """The store of the whole campaign, with what its shares have come to, and its plan. Raises
    CampaignStoreError, before it writes anything if the stores are not of one campaign."""
    said: dict[str, str] = {}
    for place in places:
        with closing(open_store(place)) as source:
            its, plan = source.said | {"share": "0 of 1"}, source.plan()
        for name, value in (said and its).items():
            if said.get(name) != value:
                raise CampaignStoreError(
                    f"{place}: {name} is {value!r} there and {said.get(name)!r} in {places[0]}: "
                    "not the same campaign"
                )
        said = said or its
    store = CampaignStore(into, said, resume=resume)
    try:
        for place in places:
            store.absorb(place)
    except BaseException:
        store.close()
        raise
    return store, plan


def _lock(file: Path) -> FileLock:
    try:
        return FileLock(file)
    except UnusableError as error:
        raise CampaignStoreError(f"{file}: {error}") from None


def _lease(judged: Judged, now_s: float) -> Iterator[dict[str, Any]]:
    part, seeds, number = judged.lease
    yield {
        "part": part.name,
        "first": seeds.start,
        "stop": seeds.stop,
        "number": number,
        "digest": judged.digest,
        "events": judged.events,
        "failed": len(judged.failures),
        "worker": _storable(judged.worker),
        "host": _storable(judged.host),
        "seconds": judged.seconds,
        "finished": now_s,
    }


#: what a failure's row is kept of
_OF_FAILURE = ("seed", "property", "what", "digest", "text", "place")


def _failures(judged: Judged, now_s: float) -> Iterator[dict[str, Any]]:
    part, first = judged.lease.key
    for row in judged.failures:
        said = {name: _storable(getattr(row, name)) for name in _OF_FAILURE}
        yield {"part": part, "first": first, **said}


def _facts(judged: Judged, now_s: float) -> Iterator[dict[str, Any]]:
    part, _ = judged.lease.key
    return ({"part": part, "fact": fact, "at": now_s} for fact in judged.facts)


def _situations(judged: Judged, now_s: float) -> Iterator[dict[str, Any]]:
    part, _ = judged.lease.key
    return ({"part": part, "name": name, "at": now_s} for name in judged.situations)


def _canary(judged: Judged, now_s: float) -> Iterator[dict[str, Any]]:
    from squall.sim.campaigns.parts import Canaries

    part, numbers, _ = judged.lease
    if not isinstance(part, Canaries):
        return
    (number,) = numbers
    yield {
        "part": part.name,
        "name": part.bugs[number],
        "noticed": None if judged.failures else judged.events,
        "scenarios": judged.events,
        "seconds": judged.seconds,
        "at": now_s,
    }


#: what becomes of a lease, table by table
_ROWS = {
    LEASE: _lease,
    FAILURE: _failures,
    FACT: _facts,
    SITUATION: _situations,
    CANARY: _canary,
}


def _storable(value: object) -> object:
    """PostgreSQL's texts have no zero bytes in them, and nobody's have halves of characters."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
