"""Scenarios that are kept in files: each comes to what its file says."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

from squall.model.events.run import Violation
from squall.sim.campaigns.parts.files import OWN, OfFiles, is_own, root_of
from squall.sim.campaigns.parts.part import Alive
from squall.sim.campaigns.row import Row, failed_row
from squall.sim.names import ENGINE_NAMES, EngineName
from squall.sim.scenarios.file import load_scenario
from squall.sim.search.saved_scenarios import SAVED, replayed
from squall.sim.world import interrupts


@dataclass(frozen=True)
class Saved(OfFiles):
    """The numbers are those of ``files``. ``varies``: those whose runs differ from each other. ``on``: the engines
    that they are for."""

    files: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    on: tuple[EngineName, ...] = ()

    kind: ClassVar[str] = "saved"
    most_of_lease: ClassVar[int | None] = 40
    unit: ClassVar[str] = "files"

    @property
    def engines(self) -> tuple[EngineName, ...]:
        return self.on

    @property
    def _how(self) -> str:
        return f"scenario files, {', '.join(self.on)}"

    def read(self) -> Iterable[Path]:
        return (self.folder / file for file in self.files)

    def judge(self, numbers: range, alive: Alive) -> Iterator[Row]:
        for number in numbers:
            yield self._row(number)
            interrupts.check()

    def _row(self, number: int) -> Row:
        file = self.files[number]
        try:
            found = replayed(load_scenario(self.folder / file), varies=file in self.varies)
        except (Exception, SystemExit) as error:  # so broken that nothing can be replayed
            interrupts.check()
            seen = f"{type(error).__name__}: {error}"
            return failed_row(number, Violation(SAVED, file, "a replay", seen))
        # Texts of runs that vary are in no digest, and neither is what differs in them.
        digest = "" if file in self.varies else found.digest
        told = repr((file, digest, [violation[:2] for violation in found.violations]))
        digest = blake2b(told.encode(), digest_size=16).hexdigest()
        events = 0 if file in self.varies else found.events
        if not found.violations:
            return Row(number, digest=digest, events=events)
        # Each file is a kind of failure of its own, since no two say the same.
        row = failed_row(number, found.violations[0], digest, events)
        return row._replace(property=SAVED, what=file)

    def name_of(self, number: int) -> str:
        return self.files[number]

    def again(self, row: Row) -> str:
        file = self.folder / self.files[row.seed]
        words = ["squall", "replay", os.path.relpath(file)]
        if load_scenario(file).script is not None:
            words.append("--allow-scripts")
        return shlex.join(words)


def saved_in(name: str, folder: Path, files: Sequence[str], varies: Sequence[str] = ()) -> Saved:
    """The part of all files that these patterns name, which begin at a folder. Raises ValueError or
    OSError for a file that is no scenario, and for a pattern that names none."""
    found, odd = (
        [path for each in said for path in _named(folder, each)] for said in (files, varies)
    )
    root = root_of(OWN if all(map(is_own, found)) else folder)
    part = Saved(name, range(0), root=root)
    names, vary = (
        tuple(
            dict.fromkeys(os.path.relpath(path.resolve(), part.folder.resolve()) for path in paths)
        )
        for paths in (found, odd)
    )
    if strange := sorted(set(vary) - set(names)):
        raise ValueError(f"varies: {strange[0]!r} is none of the files")
    engines = {load_scenario(path).engine for path in found}
    on = tuple(each for each in ENGINE_NAMES if each in engines)
    part = replace(part, seeds=range(len(names)), files=names, varies=vary, on=on)
    return replace(part, stamp=part.stamped())


def _named(folder: Path, pattern: str) -> list[Path]:
    names = sorted(glob.glob(pattern, root_dir=folder, recursive=True))
    if not names:
        raise ValueError(f"{pattern!r} names no file in {folder}")
    return [folder / name for name in names]
