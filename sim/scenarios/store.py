"""Failures that were found, kept under ``.squall/`` so that no kill can lose one.

    failure = Store().keep(scenario, found_by="fuzz")     # on disk when this returns
    print(failure.replay)

There are files only: ``scenarios/NAME.json`` is the scenario, ``failures/NAME.json`` who found it
and when, and what decided it. Each is written and synced under another name and then renamed, the scenario first. So
whatever ends the process, and however many of them write, each file is whole; and whoever prints a
failure after :meth:`Store.keep` prints one that is there. A scenario without the second file
(somebody may have copied it there) is listed with what its own file says.

Scenarios are imported where one is read or written: who looks for one that is not there does not wait for that.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.sim.scenario import Scenario
    from squall.sim.scenarios.failure import Failure

#: the environment variable that names another folder
FOLDER_VARIABLE = "SQUALL_STORE"
FOLDER = ".squall"


class StoreError(RuntimeError):
    """The store cannot be used: where it is, and why."""


#: what a failure's second file says beside its marks: what its scenario does not
_SAID = {"found_at": float, "found_by": str, "text": str, "count": int, "why": str}


@dataclass(frozen=True)
class StorePlace:
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


def default_place() -> StorePlace:
    """``.squall`` in the working directory, or what the environment names."""
    return StorePlace(Path(os.environ.get(FOLDER_VARIABLE) or FOLDER))


class Store:
    """What one folder keeps. Several processes may write at a time; reading changes nothing."""

    def __init__(self, place: StorePlace | None = None) -> None:
        self.place = place or default_place()

    def keep(self, scenario: Scenario, *, found_by: str, text: str = "") -> Failure:
        """Write a failure down; of one that has come out the same before it is counted how often.

        ``scenario.expected`` says what failed, ``text`` in full. Everything is on disk when this
        returns. Raises StoreError.
        """
        from squall.sim.scenarios.failure import Failure
        from squall.sim.scenarios.file import name_of
        from squall.sim.scenarios.own import text_to_write
        from squall.sim.scenarios.sources import with_sources

        scenario = with_sources(scenario)
        file = self.place.scenarios / f"{name_of(scenario)}.json"
        record = self.place.failures / file.name
        try:
            self.place.scenarios.mkdir(parents=True, exist_ok=True)
            self.place.failures.mkdir(exist_ok=True)
            known = self._failure(file) if record.exists() else None
            if known is not None and known.expected.digest == scenario.expected.digest:
                known.count += 1
                _note(known)
                return known
            write_synced(file, text_to_write(scenario))
            failure = Failure(
                scenario=scenario,
                file=str(file),
                found_at=time.time(),
                found_by=found_by,
                text=text,
            )
            _note(failure)
        except OSError as error:
            raise StoreError(f"{self.place.folder}: {error.strerror or error}") from None
        return failure

    def kept(self, scenario: Scenario) -> Failure | None:
        """The failure whose scenario this is, if it is kept here."""
        from squall.sim.scenarios.file import name_of

        file = self.place.scenarios / f"{name_of(scenario)}.json"
        return self._failure(file) if file.exists() else None

    def failures(self) -> list[Failure]:
        """All of them, in the order in which they were found. Raises StoreError."""
        return self._listed(self.place.scenarios)

    def runs(self) -> list[Failure]:
        """The other runs that are kept, in the order in which they were. Raises StoreError."""
        return self._listed(self.place.runs)

    def find(self, name: str) -> Failure | None:
        """The failure of that name, or whose name alone begins so. Raises StoreError."""
        files = [file for file in self._files(self.place.scenarios) if file.stem.startswith(name)]
        found = [failure for failure in map(self._failure, files) if failure is not None]
        exact = [failure for failure in found if failure.name == name]
        return exact[0] if exact else found[0] if len(found) == 1 and len(name) >= 4 else None

    def last_of(self, what: str) -> Failure | None:
        """The last failure of a script, by its path, or of a test, by its id. Raises StoreError."""
        found = [failure for failure in self.failures() if _is_of(failure.scenario, what)]
        return found[-1] if found else None

    def unreadable(self) -> list[Path]:
        """Files that should hold scenarios, and cannot be read. Raises StoreError."""
        files = [*self._files(self.place.scenarios), *self._files(self.place.runs)]
        return sorted(file for file in files if self._failure(file) is None)

    def _listed(self, folder: Path) -> list[Failure]:
        every = [self._failure(file) for file in self._files(folder)]
        found = [failure for failure in every if failure is not None]
        return sorted(found, key=lambda failure: (failure.found_at, failure.name))

    def _files(self, folder: Path) -> list[Path]:
        if not folder.is_dir():
            return []
        try:
            return [path for path in folder.iterdir() if self._is_ours(path)]
        except OSError as error:
            raise StoreError(f"{folder}: {error.strerror or error}") from None

    def _is_ours(self, path: Path) -> bool:
        """Whether it is a file with a scenario, and not a link to one that is elsewhere."""
        inside = path.resolve().is_relative_to(self.place.folder.resolve())
        return path.suffix == ".json" and inside and path.is_file()

    def _failure(self, file: Path) -> Failure | None:
        """What a file holds, with what was written down beside it; None if it cannot be read."""
        from squall.sim.scenarios.failure import Failure
        from squall.sim.scenarios.file import load_scenario

        try:
            scenario, changed_at = load_scenario(file), file.stat().st_mtime
        except (OSError, ValueError):
            return None
        said = None
        if file.parent == self.place.scenarios:
            said = _said(self.place.failures / file.name)
        return Failure(scenario=scenario, file=str(file), **(said or {"found_at": changed_at}))


def _said(file: Path) -> dict[str, Any] | None:
    """What was written down, if it was, and can be read."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        marks = {int(event): str(what) for event, what in said["marks"].items()}
        return {"marks": marks, **{name: kind(said[name]) for name, kind in _SAID.items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _note(failure: Failure) -> None:
    """Raises OSError."""
    said = {name: getattr(failure, name) for name in (*_SAID, "marks")}
    file = Path(failure.file)
    write_synced(
        StorePlace(file.parent.parent).failures / file.name, json.dumps(said, indent=1) + "\n"
    )


def explain(failure: Failure, why: str, marks: Mapping[int, str]) -> None:
    """Write down what decided a failure that is kept: the lines of ``squall why``, and the events of its run that
    these are about. Raises StoreError."""
    failure.why, failure.marks = why, dict(marks)
    try:
        _note(failure)
    except OSError as error:
        folder = Path(failure.file).parent.parent
        raise StoreError(f"{folder}: {error.strerror or error}") from None


def _is_of(scenario: Scenario, what: str) -> bool:
    """Whether it runs the script ``dir/train.py``, or the test ``dir/test_it.py::test_a_call``."""
    if scenario.script is None:
        return False
    ran = Path(scenario.script.path)
    file, is_test, test = what.partition("::")
    path = Path(file).absolute()
    if not is_test:
        return ran.absolute() == path
    module, _, name = ran.name.partition(":")
    asked = test.partition("[")[0].replace("::", ".")
    there = ran.absolute().parent.joinpath(*module.split(".")).with_suffix(".py")
    return name == asked and there == path


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
