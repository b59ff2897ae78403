"""``python -m squall.properties.planted.programs NAME=FILE...`` keeps programs of scenarios that fail."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from squall.sim.scenario import Expected, Scenario, World
from squall.sim.scenarios.file import dump_scenario, load_scenario


def bare(scenario: Scenario) -> Scenario:
    """The program alone, with its limits of time."""
    world = World(
        rpc_timeout_s=scenario.world.rpc_timeout_s,
        shut_down_early=scenario.world.shut_down_early,
        skip_handshakes=True,
    )
    return replace(scenario, seed=0, world=world, expected=Expected(), profile=None, note="")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        name, _, file = argument.partition("=")
        scenario = load_scenario(Path(file).read_text(encoding="utf-8"))
        kept = Path(__file__).with_name(f"{name}.json")
        kept.write_text(dump_scenario(bare(scenario)), encoding="utf-8")
