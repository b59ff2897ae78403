"""Distributed autograd programs as plain data."""
