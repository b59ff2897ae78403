"""Which failures of PyTorch's engine are known: asked beside the port, as ``squall diff`` does."""

from __future__ import annotations

from dataclasses import replace

from squall.sim.diff.compare import compare_engines
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.replay import replay


def known_rules(scenario: Scenario) -> tuple[str, ...]:
    """The rules of docs/divergences.md behind a failure on the engine ``torch``, if they predict all in
    which the two engines differ there, and on the port nothing is wrong. Else none."""
    if scenario.engine != "torch" or scenario.program is None or scenario.faults.goes_wrong:
        return ()  # the engines answer faults differently: docs/divergences.md
    comparison = compare_engines(scenario)
    alone = not replay(replace(scenario, engine="port", expected=Expected())).violations
    return tuple(comparison.rules) if alone and not comparison.unknown else ()
