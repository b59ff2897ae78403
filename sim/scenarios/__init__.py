"""Everything a run depends on, as one value: run, saved, replayed, kept."""
