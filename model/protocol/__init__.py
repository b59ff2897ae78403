"""Protocols as transition systems of their own, and whether a run is one of their paths."""
