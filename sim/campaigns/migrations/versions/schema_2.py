"""Shares of one campaign in one store: which lease of the plan each is, and whose failure one is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    op.add_column("lease", sa.Column("number", sa.BigInteger))
    op.add_column("lease", sa.Column("failed", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("failure", sa.Column("first", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE failure SET first = (SELECT max(lease.first) FROM lease "
        "WHERE lease.part = failure.part AND lease.first <= failure.seed)"
    )
    op.execute(
        "UPDATE lease SET failed = (SELECT count(*) FROM failure "
        "WHERE failure.part = lease.part AND failure.first = lease.first)"
    )
    op.create_table(
        "share",
        sa.Column("index", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("of", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("began", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("index", "of"),
    )
