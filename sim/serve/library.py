"""What ``squall serve`` shows, by name."""

from __future__ import annotations

import re
from pathlib import Path

from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.store import Store, StorePlace
from squall.sim.search.histories import KeptHistory, kept_histories

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Library:
    """The failures and runs of a store, the latest first. Reads only."""

    def __init__(self, place: StorePlace) -> None:
        self.place = StorePlace(place.folder.absolute())
        self._store = Store(self.place)

    def failures(self) -> list[Failure]:
        """What failed, of all that is kept. Raises StoreError."""
        return [kept for kept in self._all() if kept.failed]

    def runs(self) -> list[Failure]:
        """What did not fail. Raises StoreError."""
        return [kept for kept in self._all() if not kept.failed]

    def histories(self) -> list[KeptHistory]:
        """What campaigns have seen, the latest first."""
        return kept_histories(self.place)

    def history(self, name: str) -> KeptHistory | None:
        """One of them by its name."""
        return next((kept for kept in self.histories() if kept.name == name), None)

    def find(self, name: str) -> Path | None:
        """The file of a scenario of the listing; None if there is none of that name.

        Raises StoreError.
        """
        for kept in self._all():
            if kept.name == name:
                return Path(kept.file)
        return None

    def _all(self) -> list[Failure]:
        every = [*self._store.failures(), *self._store.runs()]
        found = [kept for kept in every if _NAME.fullmatch(kept.name)]
        return sorted(found, key=lambda kept: (not kept.failed, -kept.found_at, kept.name))
