"""Which failures of a campaign on PyTorch's engine are known."""

from __future__ import annotations

from squall.sim.search.campaign import Campaign


def tell_known(campaign: Campaign) -> None:
    """Name the rules behind each failure of a campaign on the engine ``torch``, where it is known."""
    if campaign.engine != "torch" or not campaign.failures:
        return
    from squall.sim.diff.known import known_rules
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.stock.shared import close_zygotes

    try:
        with campaign_settings():
            for failure in campaign.failures.values():
                failure.known = known_rules(failure.scenario)
    finally:
        close_zygotes()
