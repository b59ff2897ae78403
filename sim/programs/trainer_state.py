"""What a trainer of a program has for all of its steps."""

from __future__ import annotations

from typing import Any

from squall.model.one_process.outcome import Outcome
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.sim.programs.host import Host


class TrainerState:
    """One trainer, on its worker: its number, its references, its optimizer."""

    def __init__(self, host: Host, number: int, outcome: Outcome) -> None:
        self.host = host
        self.program = host.program
        self.number = number
        self.trainer = host.program.trainers[number]
        self.outcome = outcome
        #: references to leaves, and to the hosts of other workers
        self.leaf_refs: dict[int, Any] = {}
        self.host_refs: dict[int, Any] = {}
        self.optimizer: DistributedOptimizer | None = None
        #: references kept until the end, by (trainer, step, operation)
        self.kept: dict[tuple[int, int, int], Any] = {}
