"""Distributed autograd: the engine, its contexts, and what joins the graphs of two workers."""
