"""A scenario for each planted bug that no small world shows; see sim/search/mutants/own_program.py."""
