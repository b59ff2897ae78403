"""The world: virtual time, tasks, the network, and the scenarios that run in it."""
