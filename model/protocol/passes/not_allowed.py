"""What a run is told that is no path of a model."""

from __future__ import annotations


class NotAllowedError(Exception):
    """An event is no step of the model: what the model says, and what was seen."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}, seen {seen}")
        self.expected = expected
        self.seen = seen
