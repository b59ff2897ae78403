"""What ``--faults`` names: a profile that draws faults, or the file of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from squall.sim.cli.bad_input import BadInput
from squall.sim.names import PROFILES, Profile

if TYPE_CHECKING:
    from squall.sim.faults.plan import Plan


@dataclass(frozen=True)
class NamedFaults:
    """What is to go wrong, as it was named: ``profile``, or else ``plan``."""

    text: str
    profile: Profile | None
    plan: Plan

    def plan_for(self, workers: int | None) -> Plan:
        """The plan, which names none but these workers. Raises :class:`BadInput`."""
        from squall.sim.faults.file import check_plan

        try:
            check_plan(self.plan, workers=workers)
        except ValueError as error:
            raise BadInput("--faults", self.text, f"{self.text}: {error}") from None
        return self.plan


def read_faults(text: str) -> NamedFaults:
    """A profile by its name, or a plan from a file. Raises :class:`BadInput`."""
    path = Path(text)
    for profile in PROFILES:
        if profile == text:
            from squall.sim.faults.plan import NO_FAULTS

            return NamedFaults(text, profile, NO_FAULTS)
    if not path.is_file():
        known = ", ".join(PROFILES)
        raise BadInput("--faults", text, f"expected {known} or a file with a plan, got {text!r}")
    from squall.sim.faults.file import load_plan

    try:
        return NamedFaults(text, None, load_plan(path))
    except OSError as error:
        raise BadInput("--faults", text, f"cannot read {text!r}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput("--faults", text, f"{text}: {error}") from None
