"""A store of another schema is refused, and so are tables of something else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from squall.properties.sim.campaigns.test_store import PLAN, filled
from squall.properties.support.postgresql import Server
from squall.sim.campaigns.address import Address
from squall.sim.campaigns.open_store import VERSION
from squall.sim.campaigns.store import CampaignStore, CampaignStoreError
from squall.sim.campaigns.store_reader import open_store
from squall.sim.campaigns.tables import SCHEMA


def test_another_schema_is_refused(tmp_path: Path, postgresql: Server, database: str) -> None:
    file, address = tmp_path / "db", Address.read(postgresql.url(database))
    change = f"UPDATE {SCHEMA.name} SET version_num = '999'"
    filled(file).close()
    db = sqlite3.connect(file)
    db.execute(change)
    db.commit()
    db.close()
    filled(address).close()
    postgresql.execute(database, change)
    for place in (Address(file), address):
        problem = f"{place}: its schema is 999, that of another squall; this one's is {VERSION}"
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


def test_words_have_the_order_of_their_bytes(postgresql: Server, database: str) -> None:
    """Whatever the language of the server."""
    filled(Address.read(postgresql.url(database))).close()
    collations = postgresql.execute(
        database,
        "SELECT column_name, collation_name FROM information_schema.columns "
        "WHERE table_name IN ('lease', 'failure') AND data_type = 'text' "
        "AND column_name NOT IN ('text', 'worker', 'host')",
    )
    assert collations and {collation for _, collation in collations} == {"C"}
