"""A store of an older schema is migrated, one of a newer schema is refused."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Engine

from squall.properties.sim.campaigns.test_store import PLAN, filled, made_up
from squall.properties.support.postgresql import Server
from squall.sim.campaigns.address import Address
from squall.sim.campaigns.locks import FileLock
from squall.sim.campaigns.reading import open_store
from squall.sim.campaigns.schema import VERSION_TABLE, newest
from squall.sim.campaigns.store import CampaignStore, CampaignStoreError
from squall.sim.campaigns.tables import METADATA, TRIAGE
from squall.sim.world.contained import Contained

#: what wrote stores before they had a version
FIRST = """
CREATE TABLE IF NOT EXISTS campaign (said TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lease (
    part TEXT, first INTEGER, stop INTEGER NOT NULL, digest TEXT NOT NULL, events INTEGER NOT NULL,
    PRIMARY KEY (part, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failure (
    part TEXT, seed INTEGER, property TEXT NOT NULL, what TEXT NOT NULL, digest TEXT NOT NULL,
    text TEXT NOT NULL, PRIMARY KEY (part, seed)) WITHOUT ROWID;
"""


#: what was known of failures in the third schema
THIRD = """
CREATE TABLE triage (
    property TEXT NOT NULL, what TEXT NOT NULL, place TEXT, scenario TEXT, events BIGINT, versions TEXT,
    bisected TEXT, "before" TEXT, at DOUBLE PRECISION NOT NULL, PRIMARY KEY (property, what))
"""


def of_the_first_schema(file: Path) -> None:
    db = sqlite3.connect(file)
    db.executescript(FIRST)
    db.execute("INSERT INTO campaign VALUES (?)", [json.dumps(PLAN.said())])
    for lease, digest, events, failures, *_ in made_up(PLAN):
        name, seeds = lease.part.name, lease.seeds
        db.execute(
            "INSERT INTO lease VALUES (?, ?, ?, ?, ?)",
            [name, seeds.start, seeds.stop, digest, events],
        )
        for row in failures:
            plain = row._replace(text=f"seed {row.seed}")
            db.execute(
                "INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?)", [name, *plain[:4], plain.text]
            )
    db.commit()
    db.close()


def version(file: Path) -> str | None:
    db = sqlite3.connect(file)
    try:
        found = db.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
        return None if found is None else str(found[0])
    except sqlite3.OperationalError:
        return None
    finally:
        db.close()


def test_a_file_of_the_first_schema_is_migrated(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    of_the_first_schema(old)
    now = filled(new)
    reading = open_store(old)
    assert version(old) == newest()
    assert "".join(reading.lines()) == "".join(now.lines())
    assert (reading.counts(), reading.judged()) == (now.counts(), now.judged())
    texts = [kind.text for kind in reading.kinds()]
    assert texts == [f"seed {kind.seed}" for kind in now.kinds()]
    reading.close()
    resumed = CampaignStore(old, PLAN.said(), resume=True)
    assert list(resumed.left(PLAN.leases())) == []
    assert resumed.verdicts() == now.verdicts()
    resumed.close()
    now.close()


def test_places_that_were_known_become_those_of_failures(
    tmp_path: Path, postgresql: Server, database: str
) -> None:
    """From the third schema, which had a place only for a kind."""
    for address in (Address(tmp_path / "db"), Address.read(postgresql.url(database))):
        store = filled(address)
        lines = list(store.lines())
        what = store.kinds()[0].what
        store.note(TRIAGE, {"property": "rrefs", "what": what, "place": "AN_EVENT", "at": 1.0})
        store.close()
        engine = create_engine(address.url or f"sqlite:///{address.file}")
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '3'")
            connection.exec_driver_sql("ALTER TABLE failure DROP COLUMN place")
            connection.exec_driver_sql("CREATE TABLE kept AS SELECT * FROM triage")
            connection.exec_driver_sql("DROP TABLE triage")
            connection.exec_driver_sql(THIRD)
            columns = "property, what, place, at"
            connection.exec_driver_sql(f"INSERT INTO triage ({columns}) SELECT {columns} FROM kept")
            connection.exec_driver_sql("DROP TABLE kept")
        engine.dispose()
        reading = open_store(address)
        assert {kind.what: kind.place for kind in reading.kinds()} == {
            each: "AN_EVENT" if each == what else ""
            for each in (kind.what for kind in reading.kinds())
        }
        (row,) = reading.rows(TRIAGE)
        assert (row["what"], row["place"], row["known"]) == (what, "AN_EVENT", None)
        assert list(reading.lines()) == lines
        reading.close()


def test_a_driver_migrates_as_well(tmp_path: Path) -> None:
    of_the_first_schema(tmp_path / "db")
    store = CampaignStore(tmp_path / "db", PLAN.said(), resume=True)
    assert version(tmp_path / "db") == newest()
    assert store.counts()[0] == 42
    store.close()


def test_nothing_is_migrated_under_the_driver_that_writes(tmp_path: Path) -> None:
    file = tmp_path / "db"
    of_the_first_schema(file)
    driver = Contained(_hold, file)
    assert driver.connection.recv() == "held"
    with pytest.raises(CampaignStoreError, match="db: another campaign is writing into it"):
        open_store(file)
    driver.end()
    assert version(file) is None
    open_store(file).close()
    assert version(file) == newest()


def _hold(connection: object, file: Path) -> None:
    lock = FileLock(file)
    connection.send("held")  # type: ignore[attr-defined]
    signal.pause()
    lock.close()


@pytest.mark.parametrize("statement", ["UPDATE failure", "UPDATE lease", "COMMIT"])
def test_a_migration_that_is_killed_has_changed_nothing(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "db"
    of_the_first_schema(file)
    before = _dump(file)
    ended = Contained(_migrate_and_die, file, statement)
    assert ended.wait() == -signal.SIGKILL
    assert _dump(file) == before
    open_store(file).close()
    assert version(file) == newest()


def _migrate_and_die(connection: object, file: Path, statement: str) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def executed(db: object, cursor: object, said: str, *_: object) -> None:
        if said.startswith(statement):
            die()

    event.listen(Engine, "after_cursor_execute", executed)
    if statement == "COMMIT":
        event.listen(Engine, "commit", die)
    open_store(file)


def _dump(file: Path) -> list[str]:
    db = sqlite3.connect(file)
    try:
        return list(db.iterdump())
    finally:
        db.close()


def test_a_newer_schema_is_refused(tmp_path: Path, postgresql: Server, database: str) -> None:
    file, address = tmp_path / "db", Address.read(postgresql.url(database))
    change = f"UPDATE {VERSION_TABLE} SET version_num = '999'"
    filled(file).close()
    db = sqlite3.connect(file)
    db.execute(change)
    db.commit()
    db.close()
    filled(address).close()
    postgresql.execute(database, change)
    for place in (Address(file), address):
        problem = f"{place}: its schema is 999, that of a newer squall; this one knows those up to {newest()}"
        for resume in (False, True):
            with pytest.raises(CampaignStoreError) as refusal:
                CampaignStore(place, PLAN.said(), resume=resume)
            assert str(refusal.value) == problem
        with pytest.raises(CampaignStoreError) as refusal:
            open_store(place)
        assert str(refusal.value) == problem


def test_tables_of_something_else_are_left_alone(
    tmp_path: Path, postgresql: Server, database: str
) -> None:
    db = sqlite3.connect(tmp_path / "db")
    db.execute("CREATE TABLE lease (tenant TEXT)")
    db.close()
    postgresql.execute(database, "CREATE TABLE campaign (customer TEXT)")
    for place in (Address(tmp_path / "db"), Address.read(postgresql.url(database))):
        with pytest.raises(CampaignStoreError, match="its tables are those of something else"):
            CampaignStore(place, PLAN.said(), resume=False)
    assert postgresql.execute(database, "SELECT * FROM campaign") == []


def test_migrations_come_to_what_the_tables_say(
    tmp_path: Path, postgresql: Server, database: str
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    of_the_first_schema(old)
    open_store(old).close()
    filled(new).close()
    address = Address.read(postgresql.url(database))
    filled(address).close()
    assert address.url is not None
    for url in (f"sqlite:///{old}", f"sqlite:///{new}", address.url):
        with create_engine(url).connect() as connection:
            options = {"version_table": VERSION_TABLE, "compare_server_default": True}
            # the first schema had INTEGER, which to SQLite is the same as BIGINT
            options["compare_type"] = not str(url).endswith("old")
            context = MigrationContext.configure(connection, opts=options)
            assert compare_metadata(context, METADATA) == []
    collations = postgresql.execute(
        database,
        "SELECT column_name, collation_name FROM information_schema.columns "
        "WHERE table_name IN ('lease', 'failure') AND data_type = 'text' "
        "AND column_name NOT IN ('text', 'worker', 'host')",
    )
    assert collations and {collation for _, collation in collations} == {"C"}
