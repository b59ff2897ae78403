"""The RRef protocol as a transition system of its own, and whether a run is one of its paths."""
