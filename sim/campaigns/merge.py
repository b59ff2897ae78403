"""Files of the shares of a campaign, put together into one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.store import CampaignStore, CampaignStoreError, said_in

_WHOLE = {"share": "0 of 1"}


def merge(files: Sequence[Path], into: Path, *, resume: bool) -> tuple[CampaignStore, Plan]:
    """The store of the whole campaign, with what its shares have come to, and its plan. Raises CampaignStoreError, before it writes anything if the files are not of one
    campaign."""
    said = said_in(files[0]) | _WHOLE
    for file in files[1:]:
        for name, value in (said_in(file) | _WHOLE).items():
            if said.get(name) != value:
                raise CampaignStoreError(
                    f"{file}: {name} is {value!r} there and {said.get(name)!r} in {files[0]}: not the "
                    "same campaign"
                )
    store = CampaignStore(into, said, resume=resume)
    try:
        for file in files:
            store.absorb(file)
    except BaseException:
        store.close()
        raise
    return store, Plan.read(said)
