"""The version of a store's schema: an older one is migrated, a newer one refused."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from squall.sim.campaigns.address import UnusableError

#: the table that holds the version; others may have an alembic_version in the same database
VERSION_TABLE = "squall_schema"
#: the tables of the first schema, which had no version
_FIRST = frozenset({"campaign", "lease", "failure"})
_FOLDER = Path(__file__).parent / "migrations"


def newest() -> str:
    """The version that this squall writes."""
    head = ScriptDirectory(str(_FOLDER)).get_current_head()
    assert head is not None
    return head


def version_of(connection: Connection) -> str | None:
    """None where there is no schema yet. Raises UnusableError for tables of something else."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    version = context.get_current_revision()
    if version is not None:
        return version
    found = _FIRST & set(inspect(connection).get_table_names())
    if not found:
        return None
    columns = {each["name"] for each in inspect(connection).get_columns(min(found))}
    if found != _FIRST or columns != {"said"}:
        raise UnusableError("its tables are those of something else")
    return "1"


def migrate(connection: Connection) -> None:
    """To the newest schema, in the transaction of this connection. Raises UnusableError."""
    version = version_of(connection)
    check_known(version)
    if version == newest():
        return
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    if version is not None:
        command.stamp(config, version)
    command.upgrade(config, "head")


def check_known(version: str | None) -> None:
    """Raises UnusableError for the schema of a newer squall."""
    known = {each.revision for each in ScriptDirectory(str(_FOLDER)).walk_revisions()}
    if version is not None and version not in known:
        raise UnusableError(
            f"its schema is {version}, that of a newer squall; this one knows those up to {newest()}"
        )
