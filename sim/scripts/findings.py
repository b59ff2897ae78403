"""What a script does wrong with its process groups, which ends the run unless it is to go on."""

from __future__ import annotations


class FoundError(RuntimeError):
    """Something that the run is to end with. It has been noted."""


class Findings:
    """``found``: texts by outcome (``WRONG_GROUPS`` of model/events/run.py)."""

    def __init__(self, *, go_on: bool = False) -> None:
        self._go_on = go_on
        self.found: dict[str, list[str]] = {}

    def note(self, outcome: str, text: str) -> None:
        """Raises :class:`FoundError`, unless the run is to go on."""
        self.found.setdefault(outcome, []).append(text)
        if not self._go_on:
            raise FoundError(text)
