"""What campaigns have seen, kept for ``squall serve``: ``coverage/NAME.json`` in the store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from squall.model.coverage.history import History, history_of
from squall.sim.scenarios.records import Records
from squall.sim.scenarios.store import StorePlace
from squall.sim.search.campaign import Campaign

_FOLDER = "coverage"
_NAME = re.compile(r"[0-9]{1,12}-[0-9a-f]{8}")


class KeptHistory(NamedTuple):
    """``at``: when the campaign ended, in seconds since 1970."""

    name: str
    at: float
    history: History


def history(campaign: Campaign, title: str) -> History:
    """What a campaign has seen, if its settings asked for ``stats``."""
    parts = {"corpus": campaign.corpus, "cover": campaign.cover, "seeds": campaign.scenarios}
    return history_of(campaign.seen, campaign.sometimes_counts(), parts, title)


def keep_history(campaign: Campaign, title: str) -> Path:
    """Write down what a campaign has seen. Raises OSError."""
    return Records(_FOLDER, History).put(history(campaign, title))


def kept_histories(place: StorePlace | None = None) -> list[KeptHistory]:
    """All that can be read, the latest first."""
    found = [
        KeptHistory(name, float(name.partition("-")[0]), known)
        for name, known in Records(_FOLDER, History, place).all().items()
        if _NAME.fullmatch(name)
    ]
    return sorted(found, key=lambda each: (-each.at, each.name))
