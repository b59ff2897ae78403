"""The system under test: distributed autograd, RRefs and RPC, on real torch tensors.

Nothing here knows that it is simulated. Whatever waits, sleeps, starts a task, takes a lock,
reads a clock or draws a random number asks its :class:`~squall.real.runtime.Runtime`.
"""
