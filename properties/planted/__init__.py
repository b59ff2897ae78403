"""Planted bugs, a module for each part of the system; see docs/mutants.md."""
