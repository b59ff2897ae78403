"""Stores of the shares of a campaign, put together into one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from squall.sim.campaigns.address import Address, CampaignStoreError
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.reading import open_store
from squall.sim.campaigns.store import CampaignStore

_WHOLE = {"share": "0 of 1"}


def merge(
    places: Sequence[Path | Address], into: Path | Address, *, resume: bool
) -> tuple[CampaignStore, Plan]:
    """The store of the whole campaign, with what its shares have come to, and its plan. Raises
    CampaignStoreError, before it writes anything if the stores are not of one campaign."""
    said: dict[str, str] = {}
    for place in places:
        with ExitStack() as opened:
            source = open_store(place)
            opened.callback(source.close)
            its = source.said | _WHOLE
        for name, value in (said and its).items():
            if said.get(name) != value:
                raise CampaignStoreError(
                    f"{place}: {name} is {value!r} there and {said.get(name)!r} in {places[0]}: "
                    "not the same campaign"
                )
        said = said or its
    store = CampaignStore(into, said, resume=resume)
    try:
        for place in places:
            store.absorb(place)
    except BaseException:
        store.close()
        raise
    return store, Plan.read(said)
