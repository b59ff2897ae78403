"""What a run came to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from model.reference import GradientSummary
from sim.trace import Trace

Outcome = Literal["ok", "error", "deadlock", "gradients differ", "leak", "interrupted"]


@dataclass(frozen=True)
class ProcessError:
    """An exception that a worker's own code let through."""

    worker: str
    rank: int | None
    type: str
    message: str
    #: the script's own frames, as Python prints them
    traceback: str


@dataclass
class Report:
    """The result of one run. Times in seconds, virtual or of this machine's clock."""

    outcome: Outcome
    seed: int
    digest: str
    engine: str = "port"
    workers: int = 0
    virtual_time_s: float = 0.0
    wall_time_s: float = 0.0
    #: messages sent, by type
    messages: dict[str, int] = field(default_factory=dict)
    events: int = 0
    gradients: GradientSummary | None = None
    leaked_rrefs: int = 0
    leaked_contexts: int = 0
    errors: list[ProcessError] = field(default_factory=list)
    #: at a deadlock: a line for each task that waits
    waits: list[str] = field(default_factory=list)
    #: what each process ended with, by name
    exit_codes: dict[str, int] = field(default_factory=dict)
    trace: Trace | None = None

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    def to_json(self) -> dict[str, Any]:
        """The documented keys (docs/json.md), plain values only."""
        gradients = self.gradients
        return {
            "engine": self.engine,
            "seed": self.seed,
            "digest": self.digest,
            "outcome": self.outcome,
            "gradients_equal": None if gradients is None else gradients.verdict,
            "leaked": {"rrefs": self.leaked_rrefs, "contexts": self.leaked_contexts},
            "virtual_time_s": self.virtual_time_s,
            "wall_time_s": self.wall_time_s,
            "messages": self.messages,
            "workers": self.workers,
            "events": self.events,
            "gradients": None
            if gradients is None
            else {
                "passes": gradients.passes,
                "compared": gradients.compared,
                "failed": gradients.failed,
                # a gradient of another shape deviates infinitely, which JSON cannot say
                "max_deviation": gradients.max_deviation
                if math.isfinite(gradients.max_deviation)
                else None,
                "not_comparable": gradients.not_comparable,
                "mismatches": gradients.mismatches,
            },
            "errors": [
                {
                    "worker": error.worker,
                    "rank": error.rank,
                    "type": error.type,
                    "message": error.message,
                    "traceback": error.traceback,
                }
                for error in self.errors
            ],
            "waits": self.waits,
            "exit_codes": self.exit_codes,
        }
