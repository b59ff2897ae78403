"""What campaigns have seen, kept for ``squall serve``: ``coverage/NAME.json`` in the store."""

from __future__ import annotations

import re
import secrets
import time
from pathlib import Path
from typing import NamedTuple

from squall.model.coverage.history import History, HistoryError, history_of, load_history
from squall.sim.scenarios.store import Place, StoreError, default_place, write_synced
from squall.sim.search.campaign import Campaign

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
    folder = default_place().coverage
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{time.time():.0f}-{secrets.token_hex(4)}.json"
    write_synced(file, history(campaign, title).text())
    return file


def kept_histories(place: Place | None = None) -> list[KeptHistory]:
    """All that can be read, the latest first. Raises StoreError."""
    folder = (place or default_place()).coverage
    found = []
    try:
        files = list(folder.iterdir()) if folder.is_dir() else []
        for file in files:
            inside = file.resolve().is_relative_to(folder.resolve())
            if file.suffix != ".json" or not _NAME.fullmatch(file.stem) or not inside:
                continue
            try:
                known = load_history(file.read_text(encoding="utf-8"))
            except (HistoryError, UnicodeDecodeError):
                continue
            found.append(KeptHistory(file.stem, float(file.stem.partition("-")[0]), known))
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from None
    return sorted(found, key=lambda each: (-each.at, each.name))
