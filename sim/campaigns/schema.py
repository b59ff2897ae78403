"""The version of a store's schema: that of another squall is refused."""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select

from squall.sim.campaigns.address import UnusableError
from squall.sim.campaigns.tables import METADATA, SCHEMA

#: what this squall writes and reads. Another one whenever the tables change.
VERSION = "4"


def version_of(connection: Connection) -> str | None:
    """None where there is no schema yet. Raises UnusableError for tables of something else."""
    found = set(inspect(connection).get_table_names())
    if SCHEMA.name in found:
        version: str | None = connection.execute(select(SCHEMA.c.version_num)).scalar()
        return version
    if found & set(METADATA.tables):
        raise UnusableError("its tables are those of something else")
    return None


def create(connection: Connection) -> None:
    """The tables, where they are not there yet. Raises UnusableError."""
    version = version_of(connection)
    if version is None:
        METADATA.create_all(connection)
        connection.execute(insert(SCHEMA), {"version_num": VERSION})
    else:
        check_known(version)


def check_known(version: str) -> None:
    """Raises UnusableError for the schema of another squall."""
    if version != VERSION:
        raise UnusableError(
            f"its schema is {version}, that of another squall; this one's is {VERSION}"
        )
