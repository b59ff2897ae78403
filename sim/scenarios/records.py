"""What is kept of one kind beside failures: a file of JSON for each, in a folder of the store."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from squall.sim.scenarios.store import StorePlace, default_place, write_synced


class Record(BaseModel):
    """Something that is kept."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


R = TypeVar("R", bound=BaseModel)


class Records(Generic[R]):
    """Those of a ``folder`` of the store; each has a name. A file that cannot be read does not count."""

    def __init__(self, folder: str, model: type[R], place: StorePlace | None = None) -> None:
        self.folder, self._model = (place or default_place()).folder / folder, model

    def all(self) -> dict[str, R]:
        """By their names. Links to files that are elsewhere are left out."""
        here = self.folder.resolve()
        files = [
            file for file in sorted(self.folder.glob("*.json")) if file.resolve().parent == here
        ]
        found = {file.stem: self.get(file.stem) for file in files}
        return {name: each for name, each in found.items() if each is not None}

    def get(self, name: str) -> R | None:
        try:
            return self._model.model_validate_json(self._file(name).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError):
            return None

    def put(self, each: R, name: str | None = None) -> Path:
        """Write one down, on disk when this returns; by default its name begins with the time in seconds since 1970.
        Raises OSError."""
        file = self._file(name or f"{time.time():.0f}-{secrets.token_hex(4)}")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_synced(file, each.model_dump_json() + "\n")
        return file

    def drop(self, name: str) -> None:
        """Raises OSError."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"
