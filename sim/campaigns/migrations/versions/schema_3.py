"""Who has judged a lease, when, and in which time; behaviour seen, planted bugs, and what is known of failures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from squall.sim.campaigns.tables import WORD

revision = "3"
down_revision = "2"


def upgrade() -> None:
    for name, kind in (
        ("worker", sa.Text),
        ("host", sa.Text),
        ("seconds", sa.Double),
        ("finished", sa.Double),
    ):
        op.add_column("lease", sa.Column(name, kind))
    op.create_table(
        "fact",
        sa.Column("part", WORD, nullable=False),
        sa.Column("fact", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("part", "fact"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "situation",
        sa.Column("part", WORD, nullable=False),
        sa.Column("name", WORD, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("part", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "canary",
        sa.Column("part", WORD, nullable=False),
        sa.Column("name", WORD, nullable=False),
        sa.Column("noticed", sa.BigInteger),
        sa.Column("scenarios", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("part", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "triage",
        sa.Column("property", WORD, nullable=False),
        sa.Column("what", WORD, nullable=False),
        sa.Column("place", sa.Text),
        sa.Column("scenario", sa.Text),
        sa.Column("events", sa.BigInteger),
        sa.Column("versions", sa.Text),
        sa.Column("bisected", sa.Text),
        sa.Column("before", sa.Text),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("property", "what"),
        sqlite_with_rowid=False,
    )
