"""What is kept, and what is refused, is the same in a file and in a database of a server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.properties.support.postgresql import Server
from squall.sim.campaigns.address import Address
from squall.sim.campaigns.lease import Judged, Row, judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.plan import MOST, Plan
from squall.sim.campaigns.store import CampaignStore, CampaignStoreError, merge
from squall.sim.campaigns.store_reader import open_store

#: names that a dictionary orders in another way than their bytes are
NAMES = ("B", "a", "_", "Z-1", "z1", "é")
PLAN = Plan(tuple(Part(name, range(at, at + 7)) for at, name in enumerate(NAMES)), size=3)


def made_up(plan: Plan) -> Iterator[Judged]:
    """What could have come of each lease: every third seed has failed."""
    for lease in plan.leases():
        yield judged(lease, [row(seed) for seed in lease.seeds])


def row(seed: int) -> Row:
    if seed % 3:
        return Row(seed, digest=f"{seed:x}", events=seed)
    what = NAMES[seed // 3 % len(NAMES)]
    return Row(seed, "rrefs", what, "", seed, f"'\0' \ud800 %s :x {seed}")


def filled(place: Path | Address, plan: Plan = PLAN) -> CampaignStore:
    store = CampaignStore(place, plan.said(), resume=False)
    done = list(made_up(plan))
    assert store.take(done[:1]) == done[:1]
    assert store.take(done) == done[1:]
    assert store.take(done) == []
    return store


def told(store: CampaignStore) -> tuple[object, ...]:
    counts = (store.counts(), store.judged())
    return ("".join(store.lines()), store.verdicts(), store.kinds(), *counts)


def test_a_database_says_what_a_file_says(
    tmp_path: Path, postgresql: Server, database: str
) -> None:
    file = filled(tmp_path / "db")
    server = filled(Address.read(postgresql.url(database)))
    assert told(server) == told(file)
    text, _, kinds, (seeds, failed, _), by_part = told(file)
    assert isinstance(text, str)
    assert [line.split('"')[3] for line in text.splitlines()[:18:3]] == [
        "B",
        "Z-1",
        "_",
        "a",
        "z1",
        "\\u00e9",
    ]
    assert (seeds, failed) == (42, text.count('["failure"')) == (42, 14)
    assert by_part == dict.fromkeys(NAMES, 7)
    assert isinstance(kinds, list)
    assert sorted(kind.what for kind in kinds) == sorted(
        {row(seed).what for seed in range(0, 12, 3)}
    )
    assert kinds[0].text.startswith("'\\0' \\ud800 %s :x ")
    file.close()
    server.close()


def test_each_share_of_a_database_says_what_its_own_file_says(
    tmp_path: Path, postgresql: Server, database: str
) -> None:
    address = Address.read(postgresql.url(database))
    shares = [Plan(PLAN.parts, PLAN.size, index, 2) for index in range(2)]
    stores = [filled(address, share) for share in shares]
    files = [tmp_path / str(index) for index in range(2)]
    for store, file, share in zip(stores, files, shares, strict=True):
        alone = filled(file, share)
        assert told(store) == told(alone)
        alone.close()
        assert list(store.left(PLAN.leases())) == []
        store.close()
    whole = filled(tmp_path / "whole")
    everything = open_store(address)
    assert "".join(everything.lines()) == "".join(whole.lines())
    assert everything.said == {name: v for name, v in PLAN.said().items() if name != "share"}
    everything.close()
    merged, plan = merge(files, tmp_path / "merged", resume=False)
    assert plan == PLAN
    assert told(merged) == told(whole)
    merged.close()
    whole.close()


def test_files_are_merged_into_a_database(
    tmp_path: Path, postgresql: Server, database: str
) -> None:
    filled(tmp_path / "file").close()
    merged, _ = merge([tmp_path / "file"], Address.read(postgresql.url(database)), resume=False)
    file = open_store(tmp_path / "file")
    assert merged.verdicts() == file.verdicts()
    file.close()
    merged.close()
    back, _ = merge([Address.read(postgresql.url(database))], tmp_path / "back", resume=False)
    assert "".join(back.lines()) == "".join(merged.lines())
    back.close()


def test_nothing_of_a_store_with_other_verdicts_is_taken(tmp_path: Path) -> None:
    filled(tmp_path / "theirs").close()
    store = CampaignStore(tmp_path / "ours", PLAN.said(), resume=False)
    last = max(made_up(PLAN), key=lambda each: each.lease.key)
    store.take([last._replace(digest="another")])
    with pytest.raises(
        CampaignStoreError, match="theirs: its verdicts on the seeds from 11 on, part é"
    ):
        store.absorb(tmp_path / "theirs")
    assert store.counts()[0] == len(last.lease.seeds)
    store.close()


def test_the_largest_numbers(tmp_path: Path, postgresql: Server, database: str) -> None:
    plan = Plan((Part("plain", range(MOST - 2, MOST)),), size=1)
    for place in (tmp_path / "db", Address.read(postgresql.url(database))):
        store = CampaignStore(place, plan.said(), resume=False)
        done = [judged(lease, [Row(lease.seeds.start, "a", "b")]) for lease in plan.leases()]
        assert store.take(done) == done
        assert [kind.seed for kind in store.kinds()] == [MOST - 2]
        assert list(store.left(plan.leases())) == []
        store.close()


def refused(place: Address, plan: Plan, *, resume: bool = False) -> str:
    with pytest.raises(CampaignStoreError) as refusal:
        CampaignStore(place, plan.said(), resume=resume)
    return str(refusal.value).removeprefix(f"{place}: ")


def test_who_may_write_into_a_database(postgresql: Server, database: str) -> None:
    address = Address.read(postgresql.url(database))
    first, second = (Plan(PLAN.parts, PLAN.size, index, 2) for index in range(2))
    third = Plan(PLAN.parts, PLAN.size, 2, 3)
    one = CampaignStore(address, first.said(), resume=False)
    other = CampaignStore(address, second.said(), resume=False)
    for resume in (False, True):
        assert refused(address, first, resume=resume) == (
            "another campaign is writing into share 0 of 2"
        )
        for plan in (PLAN, third):
            said = refused(address, plan, resume=resume)
            assert said == "another campaign is writing into it, as 2 shares"
    one.close()
    assert refused(address, third).endswith("as 2 shares")
    assert refused(address, first) == "holds share 0 of 2; --resume goes on with it"
    CampaignStore(address, first.said(), resume=True).close()
    other.close()
    assert refused(address, third) == "holds a campaign of 2 shares; --resume goes on with it"
    assert refused(address, PLAN) == "holds a campaign of 2 shares; --resume goes on with it"
    whole = CampaignStore(address, PLAN.said(), resume=True)
    assert refused(address, first) == "another campaign is writing into it, as one"
    assert refused(address, PLAN) == "another campaign is writing into it"
    whole.close()
    changed = Plan((Part("B", range(3)),), PLAN.size)
    assert refused(address, changed, resume=True).startswith("parts was ")
    CampaignStore(address, third.said(), resume=True).close()


def test_campaigns_in_schemas_of_one_database(postgresql: Server, database: str) -> None:
    stores = []
    for name in ("night", "day"):
        postgresql.execute(database, f"CREATE SCHEMA {name}")
        url = f"{postgresql.url(database)}?options=-csearch_path%3D{name}"
        stores.append(filled(Address.read(url)))
    assert told(stores[0]) == told(stores[1])
    for store in stores:
        store.close()


def test_addresses() -> None:
    for text, said in (
        ("night.sqlite", "night.sqlite"),
        ("sqlite:///night.sqlite", "night.sqlite"),
        ("sqlite:////var/night.sqlite", "/var/night.sqlite"),
        ("postgresql://a@b/c", "postgresql://a@b/c"),
        ("postgres://a@b/c", "postgresql://a@b/c"),
        ("postgresql://a:b@c:5/d?connect_timeout=3", "postgresql://a:***@c:5/d?connect_timeout=3"),
        ("postgresql+psycopg://a:b@c/d", "postgresql://a:***@c/d"),
        (
            "postgresql://a@c/d?password=b&sslpassword=e",
            "postgresql://a@c/d?password=***&sslpassword=***",
        ),
    ):
        address = Address.read(text)
        assert str(address).replace("%2A", "*") == said
        assert "b@" not in repr(address).replace("a@b", "")
    for text, problem in (
        ("mysql://a:secret@b/c", "expected a file or postgresql://…, got mysql://…"),
        (
            "postgresql://a:secret@b",
            "expected the name of a database at the end of postgresql://a:***@b",
        ),
        ("postgresql://a:secret@b:port/c", "expected a file or postgresql://USER@HOST/DATABASE"),
        ("://", "expected a file or postgresql://USER@HOST/DATABASE"),
    ):
        with pytest.raises(ValueError) as refusal:
            Address.read(text)
        assert str(refusal.value) == problem


def test_left_keeps_the_order_and_asks_for_some_at_a_time(tmp_path: Path) -> None:
    plan = Plan((Part("a", range(5000)), Part("b", range(2500))), size=1)
    store = CampaignStore(tmp_path / "db", plan.said(), resume=False)
    leases = list(plan.leases())
    odd = [lease for lease in leases if lease.seeds.start % 2]
    store.take([judged(lease, [Row(lease.seeds.start)]) for lease in odd])
    assert list(store.left(leases)) == [lease for lease in leases if not lease.seeds.start % 2]
    counted = itertools.count()
    some = store.left(lease for lease in leases if next(counted) < 10**6)
    next(some)
    assert next(counted) < 1000
    store.close()


def test_a_plan_in_other_words(tmp_path: Path) -> None:
    said = PLAN.said() | {"parts": "whatever was there"}
    CampaignStore(tmp_path / "db", said, resume=False).close()
    with pytest.raises(CampaignStoreError, match="db: its plan is in the words of another version"):
        merge([tmp_path / "db"], tmp_path / "all", resume=False)
    assert not (tmp_path / "all").exists()
