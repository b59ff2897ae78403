"""Distributed autograd programs as plain data."""

from squall.model.program import check  # noqa: F401 - whoever makes a program has it checked
