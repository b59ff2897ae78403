"""Trainings over process groups, drawn from seeds."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from squall.sim.campaigns.parts.part import Part
from squall.sim.campaigns.row import Row
from squall.sim.names import GROUPS, EngineName
from squall.sim.search.draw import Settings


@dataclass(frozen=True)
class Trainings(Part):
    engine: EngineName = "torch"

    kind: ClassVar[str] = "groups"
    unit: ClassVar[str] = "trainings"

    @property
    def settings(self) -> Settings:
        return super().settings._replace(groups=True)

    def name_of(self, number: int) -> str:
        return f"{GROUPS}{number}"

    def again(self, row: Row) -> str | None:
        words = ["squall", "replay", self.name_of(row.seed)]
        return shlex.join([*words, "--faults", self.profile] if self.profile else words)
