"""Which failures of PyTorch's engine are known: asked beside the port, as ``squall diff`` does."""

from __future__ import annotations

from dataclasses import replace

from squall.sim.search.campaign import Campaign
from squall.sim.search.judge import judge


def tell_known(campaign: Campaign) -> None:
    """Name the rules of docs/divergences.md behind each failure of a campaign on the engine
    ``torch``, if they predict all in which the two engines differ there, and on the port nothing is
    wrong."""
    if campaign.engine != "torch" or not campaign.failures:
        return
    from squall.sim.diff.compare import compare_engines
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.stock.shared import close_zygotes

    try:
        with campaign_settings():
            for failure in campaign.failures.values():
                scenario = failure.scenario
                if scenario.faults.goes_wrong:
                    continue  # the engines answer faults differently: docs/divergences.md
                comparison = compare_engines(scenario)
                alone = judge(replace(scenario, engine="port")).ok
                if alone and not comparison.unknown:
                    failure.known = tuple(comparison.rules)
    finally:
        close_zygotes()
