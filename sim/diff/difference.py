"""One difference between two runs of a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """Something that is not the same on both engines, or not what one process computes.

    ``kind``: outcome, gradient, story, kept, messages, left, hang or death. ``where``: the step,
    story or message type. ``rule``: the known difference that it is, or none.
    """

    kind: str
    where: str
    port: str
    torch: str
    one_process: str = ""
    #: (trainer, step) if it is about one
    step: tuple[int, int] | None = None
    #: the whole text of torch's error, of which ``torch`` is the first line
    detail: str = ""
    rule: str | None = None

    def __str__(self) -> str:
        reference = f", one process: {self.one_process}" if self.one_process else ""
        return f"{self.kind} of {self.where}: port: {self.port}, torch: {self.torch}{reference}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "where": self.where,
            "port": self.port,
            "torch": self.torch,
            "one_process": self.one_process,
            "rule": self.rule,
        }
