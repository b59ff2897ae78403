"""What Alembic runs: the migrations, on the connection that it is handed, in its transaction."""

from __future__ import annotations

from alembic import context

from squall.sim.campaigns.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=context.config.attributes["version_table"],
    transactional_ddl=True,
)
context.run_migrations()
