"""The system under test: distributed autograd, RRefs and RPC, on real torch tensors.

Nothing here knows that it is simulated. Whatever waits, sleeps, starts a task, takes a lock,
reads a clock or draws a random number asks its :class:`~squall.real.runtime.Runtime`.
"""

if __name__ != "squall.real":  # a second copy of each module, with classes of its own
    raise ImportError("import squall.real: the folder real is a part of the package squall")
