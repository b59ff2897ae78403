"""Parts that judge files: wherever they are judged, the files must be those of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from squall.model.events.run import Violation
from squall.real.own_files import PACKAGE
from squall.sim.campaigns.parts.part import Alive, Part
from squall.sim.campaigns.row import Row, failed_row
from squall.sim.scenario import Scenario

#: the checkout, or where squall is installed: elsewhere on each machine
OWN = PACKAGE.parent
#: the property of files that are not those of the plan
FILES = "files"


@dataclass(frozen=True)
class OfFiles(Part):
    """``root``: the folder in which they are, where it is not squall's own checkout, which has another
    place on each machine. ``stamp``: of all that they say."""

    root: str = ""
    stamp: str = ""

    @property
    def folder(self) -> Path:
        return Path(self.root) if self.root else OWN

    def read(self) -> Iterable[Path]:
        """The files of which the ``stamp`` is, in an order that is the same everywhere."""
        raise NotImplementedError

    def judge(self, numbers: range, alive: Alive) -> Iterator[Row]:
        """As :meth:`rows`, of files that are those of the plan."""
        raise NotImplementedError

    def rows(self, numbers: range, alive: Alive, *, again: bool = False) -> Iterator[Row]:
        here = self.stamped()
        if here == self.stamp:
            yield from self.judge(numbers, alive)
            return
        for number in numbers:
            violation = Violation(FILES, "other files", self.stamp, f"{here} in {self.folder}")
            yield failed_row(number, violation)

    def stamped(self) -> str:
        """The stamp of the files as they are now."""
        seen = blake2b(digest_size=8)
        for file in self.read():
            name, text = str(file.relative_to(self.folder)), file.read_bytes()
            seen.update(f"{name} {len(text)}\n".encode() + text)
        return seen.hexdigest()

    def scenario(self, row: Row) -> Scenario | None:
        return None  # one of its own, if any, is in a file already


def root_of(folder: Path) -> str:
    """What ``root`` says of a folder."""
    return "" if folder.resolve() == OWN.resolve() else str(folder)


def is_own(file: Path) -> bool:
    """Whether it is in squall's own checkout."""
    return OWN.resolve() in file.resolve().parents
