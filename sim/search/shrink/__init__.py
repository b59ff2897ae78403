"""A failing scenario made small: program, faults and order together."""
