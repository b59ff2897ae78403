"""What runs on the machines of a Ray cluster: an actor, and beside it a clean process with the pool.

Scenarios run in copies of the latter: no thread of Ray is in them, and whatever they do to their
process, the actor goes on. The actor itself imports nothing of squall but this.
"""

from __future__ import annotations

from squall.sim.campaigns.host import HostProcess

#: real seconds between two looks for an answer
_LOOK_S = 1.0


class Station:
    """Passes on questions to the process ``python -m module``, and its answers."""

    def __init__(self, module: str) -> None:
        self._host = HostProcess(module)

    def exchange(self, question: bytes) -> bytes:
        """Raises HostEndedError."""
        self._host.ask(question)
        while (found := self._host.answer(_LOOK_S)) is None:
            pass
        return found

    def close(self) -> None:
        """Return once all processes are gone."""
        self._host.close()
