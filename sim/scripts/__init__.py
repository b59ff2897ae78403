"""Unmodified scripts, all of their processes, in the simulator."""
