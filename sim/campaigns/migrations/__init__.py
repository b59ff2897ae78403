"""How a store of an older schema becomes one of the newest; Alembic runs these."""
