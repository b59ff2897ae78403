"""A process in which no bug was ever planted: it says whether a scenario fails without one too.

A bug may leave something behind in its process, in a table of a module for instance, even when it
is taken out again. So that process cannot answer the question.
"""

from __future__ import annotations

from functools import partial
from multiprocessing.connection import Connection

from squall.sim.names import Device
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.judge import judge
from squall.sim.world.sandbox import Contained


class CleanProcess:
    """A copy of this process, to be made before the bug is planted. A context manager."""

    def __init__(self, device: Device = "cpu") -> None:
        self._copy = Contained(partial(_answer, device))

    def __enter__(self) -> CleanProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._copy.end()

    def holds(self, scenario: Scenario) -> bool:
        """Whether everything holds in a scenario without the bug; False if the process dies in
        it."""
        try:
            self._copy.connection.send(scenario)
            answer: bool = self._copy.connection.recv()
        except (EOFError, ConnectionError):
            return False
        return answer


def _answer(device: Device, connection: Connection) -> None:
    with campaign_settings(device):
        while True:
            connection.send(judge(connection.recv()).ok)
