"""What is changed of the code that processes of the engine ``torch`` run."""

from __future__ import annotations

#: what is called besides in the process that they are copied from (:class:`squall.sim.stock.fork_server.ForkServer`); whoever
#: changes code in this process adds to it, and takes it away again
CALLED: list[str] = []
