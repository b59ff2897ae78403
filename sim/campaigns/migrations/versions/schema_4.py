"""The place of a failure is part of its kind. Failures of before have that which triage had found, if any."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from squall.sim.campaigns.tables import WORD

revision = "4"
down_revision = "3"


def upgrade() -> None:
    op.add_column("failure", sa.Column("place", WORD, nullable=False, server_default=sa.text("''")))
    op.execute(
        "UPDATE failure SET place = coalesce((SELECT triage.place FROM triage "
        "WHERE triage.property = failure.property AND triage.what = failure.what), '')"
    )
    op.rename_table("triage", "triage_3")
    op.create_table(
        "triage",
        sa.Column("property", WORD, nullable=False),
        sa.Column("what", WORD, nullable=False),
        sa.Column("place", WORD, nullable=False, server_default=sa.text("''")),
        sa.Column("scenario", sa.Text),
        sa.Column("events", sa.BigInteger),
        sa.Column("versions", sa.Text),
        sa.Column("known", sa.Text),
        sa.Column("bisected", sa.Text),
        sa.Column("before", sa.Text),
        sa.Column("at", sa.Double, nullable=False),
        # PostgreSQL has the name triage_pkey for the key of the table that goes
        sa.PrimaryKeyConstraint("property", "what", "place", name="triage_of_places"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO triage (property, what, place, scenario, events, versions, bisected, before, at) "
        "SELECT property, what, coalesce(place, ''), scenario, events, versions, bisected, before, at "
        "FROM triage_3"
    )
    op.drop_table("triage_3")
