"""Failures that were found, kept under ``.squall/`` so that no kill can lose one.

    kept = Store().keep(saved, found_by="fuzz")     # on disk when this returns
    print(kept.replay)

There are files only: ``scenarios/NAME.json`` is the scenario, ``failures/NAME.json`` who found it
and when. Each is written and synced under another name and then renamed, the scenario first. So
whatever ends the process, and however many of them write, each file is whole; and whoever prints
a failure after :meth:`Store.keep` prints one that is there. A scenario without its other file,
one that somebody has copied there for instance, is listed with what it says itself.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import secrets
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from squall.sim.scenario import Scenario

#: the environment variable that names another folder
FOLDER_VARIABLE = "SQUALL_STORE"
FOLDER = ".squall"


class StoreError(RuntimeError):
    """The store cannot be used: where it is, and why."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A scenario that is kept: a failure, or a run that somebody wants to look at again.

    ``name`` is that of the scenario, eight hex digits over what decides the run. ``found_at`` is in
    seconds since 1970. ``property`` and ``what`` are of the first violation, None if
    there is none; ``text`` is all of it. ``workers`` and ``operations`` are None where a script decides;
    ``faults`` counts those of the plan. ``file`` holds the scenario.
    """

    name: str
    found_at: float
    found_by: str = ""
    seed: int = 0
    profile: str | None = None
    property: str | None = None
    what: str | None = None
    text: str = ""
    digest: str | None = None
    workers: int | None = None
    operations: int | None = None
    faults: int = 0
    file: str = ""

    @classmethod
    def of(cls, saved: Scenario, file: Path, *, found_at: float, found_by: str, text: str) -> Kept:
        """What is to be known of a scenario, of which ``saved.expected`` says what failed."""
        expected = saved.expected
        return cls(
            name=file.stem,
            found_at=found_at,
            found_by=found_by,
            seed=saved.seed,
            profile=saved.profile,
            property=expected.property,
            what=expected.what,
            text=text,
            digest=expected.digest,
            workers=saved.workers,
            operations=saved.operations,
            faults=len(saved.faults),
            file=str(file),
        )

    @builtins.property  # a field has that name too
    def failed(self) -> bool:
        return bool(self.property or self.what)

    @builtins.property
    def replay(self) -> str:
        """A command line that shows it again."""
        return shlex.join(["squall", "replay", self.file])

    @builtins.property
    def timeline(self) -> str:
        """A command line that makes a page of it."""
        return shlex.join(["squall", "timeline", self.file])

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "replay": self.replay}


_KEPT: TypeAdapter[Kept] = TypeAdapter(Kept)


@dataclass(frozen=True)
class Place:
    """Where a store is."""

    folder: Path

    @property
    def scenarios(self) -> Path:
        """The scenarios of failures, by their names."""
        return self.folder / "scenarios"

    @property
    def failures(self) -> Path:
        """Who found each of them, and when, by the same names."""
        return self.folder / "failures"

    @property
    def runs(self) -> Path:
        """The scenarios of runs that somebody wants to look at again."""
        return self.folder / "runs"


def default_place() -> Place:
    """``.squall`` in the working directory, or what the environment names."""
    return Place(Path(os.environ.get(FOLDER_VARIABLE) or FOLDER))


class Store:
    """What one folder keeps. Several processes may write at a time; reading changes nothing."""

    def __init__(self, place: Place | None = None) -> None:
        self.place = place or default_place()

    def keep(self, saved: Scenario, *, found_by: str, text: str = "") -> Kept:
        """Write a failure down; one that has come out the same before stays as it is.

        ``saved.expected`` says what failed, ``text`` in full. Everything is on disk when this
        returns. Raises StoreError.
        """
        # Not before it is needed: this brings torch with it.
        from squall.sim.scenarios.file import dump_scenario, name_of

        file = self.place.scenarios / f"{name_of(saved)}.json"
        kept = Kept.of(saved, file, found_at=time.time(), found_by=found_by, text=text)
        try:
            self.place.scenarios.mkdir(parents=True, exist_ok=True)
            self.place.failures.mkdir(exist_ok=True)
            known = self._recorded(file) if file.exists() else None
            if known is not None and known.digest == kept.digest:
                return known
            write_synced(file, dump_scenario(saved))
            record = _KEPT.dump_json(kept, indent=1, exclude={"file"})
            write_synced(self.place.failures / file.name, record.decode() + "\n")
        except OSError as error:
            raise StoreError(f"{self.place.folder}: {error.strerror or error}") from None
        return kept

    def failures(self) -> list[Kept]:
        """All of them, in the order in which they were found. Raises StoreError."""
        return self._listed(self.place.scenarios)

    def runs(self) -> list[Kept]:
        """The other runs that are kept, in the order in which they were. Raises StoreError."""
        return self._listed(self.place.runs)

    def find(self, name: str) -> Kept | None:
        """The failure of that name, or whose name alone begins so. Raises StoreError."""
        found = [kept for kept in self.failures() if kept.name.startswith(name)]
        exact = [kept for kept in found if kept.name == name]
        return exact[0] if exact else found[0] if len(found) == 1 and len(name) >= 4 else None

    def scenario(self, kept: Kept) -> Scenario:
        """The scenario of a failure. Raises OSError or ValueError if its file was touched."""
        from squall.sim.scenarios.file import load_scenario

        return load_scenario(Path(kept.file))

    def _listed(self, folder: Path) -> list[Kept]:
        if not folder.is_dir():
            return []
        try:
            files = [path for path in folder.iterdir() if self._is_ours(path)]
        except OSError as error:
            raise StoreError(f"{folder}: {error.strerror or error}") from None
        found = []
        for file in files:
            kept = self._recorded(file) if folder == self.place.scenarios else None
            found.append(kept or _described(file))
        return sorted(found, key=lambda kept: (kept.found_at, kept.name))

    def _is_ours(self, path: Path) -> bool:
        """Whether it is a file with a scenario, and not a link to one that is elsewhere."""
        inside = path.resolve().is_relative_to(self.place.folder.resolve())
        return path.suffix == ".json" and inside and path.is_file()

    def _recorded(self, file: Path) -> Kept | None:
        """What was written down with a scenario, if it was."""
        try:
            kept = _KEPT.validate_json((self.place.failures / file.name).read_bytes())
        except (OSError, ValidationError):
            return None
        return replace(kept, name=file.stem, file=str(file))


def _described(file: Path) -> Kept:
    """What a scenario says of itself, if it can be read."""
    from squall.sim.scenarios.file import load_scenario

    try:
        at = file.stat().st_mtime
        return Kept.of(load_scenario(file), file, found_at=at, found_by="", text="")
    except (OSError, ValueError):
        return Kept(name=file.stem, found_at=0.0, what="this file cannot be read", file=str(file))


def write_synced(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whatever ends the process."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    with _opened_folder(path.parent) as folder:
        os.fsync(folder)


@contextlib.contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)
