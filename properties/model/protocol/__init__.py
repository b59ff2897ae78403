"""The RRef protocol as a transition system: its states, a proof that all is well in them, and runs as its paths."""
