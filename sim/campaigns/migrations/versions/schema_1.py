"""What a campaign has come to. Files that have this schema and no version were made before there were others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from squall.sim.campaigns.tables import WORD

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table("campaign", sa.Column("said", sa.Text, nullable=False))
    op.create_table(
        "lease",
        sa.Column("part", WORD, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("stop", sa.BigInteger, nullable=False),
        sa.Column("digest", WORD, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("part", "first"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "failure",
        sa.Column("part", WORD, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("property", WORD, nullable=False),
        sa.Column("what", WORD, nullable=False),
        sa.Column("digest", WORD, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("part", "seed"),
        sqlite_with_rowid=False,
    )
