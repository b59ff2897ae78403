"""What a run came to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from squall.model.events.waiting import Waiting, explain, wait_graph
from squall.model.events.waiting import to_json as graph_json
from squall.model.one_process.reference import GradientSummary
from squall.sim.world.trace import Trace

if TYPE_CHECKING:
    import pandas

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
    #: what went wrong because of a fault plan, by kind
    faults: dict[str, int] = field(default_factory=dict)
    gradients: GradientSummary | None = None
    leaked_rrefs: int = 0
    leaked_contexts: int = 0
    errors: list[ProcessError] = field(default_factory=list)
    #: of the fault plan: what the engine cannot do
    left_out: list[str] = field(default_factory=list)
    #: at a deadlock: a line for each task that waits
    waits: list[str] = field(default_factory=list)
    #: the same for the wait-for graph (model/events/waiting.py)
    waiting: list[Waiting] = field(default_factory=list)
    #: what each process ended with, by name
    exit_codes: dict[str, int] = field(default_factory=dict)
    #: names of workers, by id
    names: dict[int, str] = field(default_factory=dict)
    trace: Trace | None = None

    def events_frame(self) -> pandas.DataFrame:
        """The events as a pandas frame, see :func:`squall.sim.pictures.events_frame.events_frame`.

        Raises ValueError for a report without its trace.
        """
        from squall.sim.pictures.events_frame import events_frame

        if self.trace is None:
            raise ValueError("this report was made without a trace, there are no events in it")
        return events_frame(self.trace.records)

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    def why(self) -> list[str]:
        """At a deadlock: the wait-for graph in words."""
        return [] if self.trace is None else explain(wait_graph(self.trace.records, self.waiting))

    def wait_graph_json(self) -> dict[str, Any] | None:
        """At a deadlock: the wait-for graph, nodes and edges as plain values."""
        if self.trace is None or not self.waiting:
            return None
        return graph_json(wait_graph(self.trace.records, self.waiting))

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
            "faults": self.faults,
            "left_out": self.left_out,
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
            "wait_graph": self.wait_graph_json(),
            "exit_codes": self.exit_codes,
        }
