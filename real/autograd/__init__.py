"""Distributed autograd: contexts, send and recv functions, and the engine."""
