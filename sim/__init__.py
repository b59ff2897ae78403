"""The world: virtual time, tasks, the network, and the scenarios that run in it."""

if __name__ != "squall.sim":  # a second copy of each module, with classes of its own
    raise ImportError("import squall.sim: the folder sim is a part of the package squall")
