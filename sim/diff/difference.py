"""One difference between two runs of a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from squall.sim.diff.facts import COUNTS, Place, step_of


@dataclass(frozen=True)
class Difference:
    """A fact (sim/diff/facts.py) that is not the same on both engines.

    ``ours`` and ``theirs``: what it is on the port and in torch. ``said``: how two tensors differ.
    ``one_process``: what a single process computes, where that says more. ``rule``: the known
    difference that it is, or none.
    """

    place: Place
    ours: Any
    theirs: Any
    said: str = ""
    one_process: str = ""
    rule: str | None = None

    @property
    def kind(self) -> str:
        kind: str = self.place[0]
        return "messages" if kind in COUNTS else kind

    @property
    def step(self) -> tuple[int, int] | None:
        """(trainer, step) if it is about one."""
        return step_of(self.place)

    @property
    def where(self) -> str:
        """The place in words."""
        kind, *rest = self.place
        step = self.step
        name = "" if step is None else f"trainers[{step[0]}].steps[{step[1]}]"
        if kind == "gradient":
            return f"{name} after pass {rest[2]}, leaves[{rest[3]}]"
        if kind in COUNTS:
            what = rest[0] if kind != "wrapped" else "FORWARD_AUTOGRAD_RESP"
            by = f" by worker {rest[1]}" if kind == "unanswered" else ""
            return f"{kind}, {what}{by}" + (f" of {name}" if name else "")
        if kind in ("root", "kept", "story", "failed"):
            return f"{name}, number {', '.join(map(str, rest[2:]))}"
        if kind == "beside":
            return f"{name}.{rest[2]}[{rest[3]}]"
        if name:
            return name
        if kind in ("death", "torn"):
            return f"worker {rest[0]}"
        if kind == "left":
            return f"worker {rest[0]}, {rest[1]}"
        if kind in ("leaf", "gather"):
            return f"{kind} {', '.join(map(str, rest))}"
        return "the run"

    @property
    def port(self) -> str:
        return _words(self.ours)

    @property
    def torch(self) -> str:
        return self.said or _words(self.theirs)

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


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Tensor):
        return "a value"
    text = str(value)
    return text.partition("\n")[0] if text.startswith("worker") else text
