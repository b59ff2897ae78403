"""Seeds on other versions of torch: the same squall, run by other interpreters."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from squall.model.events.run import Violation
from squall.real.own_files import PACKAGE
from squall.sim.campaigns.parts.elsewhere import Ended, elsewhere, judged
from squall.sim.campaigns.parts.part import Alive, Part
from squall.sim.campaigns.row import Row, failed_row, loaded
from squall.sim.scenario import Scenario

#: seeds that an interpreter judges before it is the next one's turn
BLOCK = 100
#: real seconds in which an interpreter has to say what it is
_SAYS_S = 300.0
_MODULE = "squall.sim.campaigns.other_interpreter"


class OtherPythonError(Exception):
    """An interpreter that cannot run this squall: why, in one sentence."""


class Other(NamedTuple):
    """An interpreter: its path, and its versions of Python, torch and squall's code."""

    path: str
    python: str
    torch: str
    code: str


@dataclass(frozen=True)
class Versions(Part):
    """Block after block of seeds, each block on all interpreters, one after the other.

    ``python``: their paths; ``torch``: the version that each has.
    """

    python: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()

    kind: ClassVar[str] = "versions"

    @property
    def _how(self) -> str:
        return f"{self.profile or 'no faults'}, torch {', '.join(self.torch)}"

    def place(self, number: int) -> tuple[int, int]:
        """Which interpreter has a number, and its seed there."""
        block, at = divmod(number, BLOCK)
        turn, which = divmod(block, len(self.python))
        return which, turn * BLOCK + at

    def rows(self, numbers: range, alive: Alive, *, again: bool = False) -> Iterator[Row]:
        left = numbers
        while left:
            block = range(left.start, min(left.stop, (left.start // BLOCK + 1) * BLOCK))
            left = range(block.stop, left.stop)
            yield from judged(block, self._attempt, self._failed)

    def _attempt(self, numbers: Sequence[int]) -> Generator[Row, None, Ended]:
        which, first = self.place(numbers[0])
        asked = {"first": first, "stop": first + len(numbers), "profile": self.profile}
        command = [self.python[which], "-P", "-m", _MODULE, json.dumps(asked)]
        count = 0
        with elsewhere(command, env=_environment()) as process:
            for line in process.lines():
                yield self._row(numbers[count], loaded(line))
                count += 1
            code = process.wait()
        return Ended(code, numbers[count] if count < len(numbers) else None)

    def _failed(self, number: int, ended: Ended) -> Row:
        seen = f"exit {ended.code}"
        violation = Violation("progress", "the process ended", "a verdict", seen)
        return self._row(number, failed_row(0, violation))

    def _row(self, number: int, row: Row) -> Row:
        """Of the number, and of the version if it has failed."""
        which, _ = self.place(number)
        if not row.property:
            return row._replace(seed=number)
        tag = f"torch {self.torch[which]}"
        return row._replace(seed=number, what=f"{row.what} ({tag})", text=f"{row.text} ({tag})")

    def scenario(self, row: Row) -> Scenario | None:
        return None  # it may hold here

    def name_of(self, number: int) -> str:
        which, seed = self.place(number)
        return f"seed {seed} on torch {self.torch[which]}"

    def again(self, row: Row) -> str:
        which, seed = self.place(row.seed)
        words = [self.python[which], "-m", "squall", "replay", str(seed)]
        if self.profile is not None:
            words += ["--faults", self.profile]
        return shlex.join(words)


def ask(path: Path) -> Other:
    """What an interpreter is. Raises OtherPythonError."""
    try:
        ended = subprocess.run(
            [str(path), "-P", "-m", _MODULE],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SAYS_S,
        )
    except OSError as error:
        raise OtherPythonError(f"{str(path)!r} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise OtherPythonError(f"{str(path)!r} said nothing within {_SAYS_S:g} s") from None
    try:
        said = json.loads(ended.stdout)
        return Other(str(path), said["python"], said["torch"], said["code"])
    except (ValueError, KeyError, TypeError):
        last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        raise OtherPythonError(f"{str(path)!r} cannot run squall: {last[:200]}") from None


def _environment() -> dict[str, str]:
    """With this squall first where it is a checkout. One that is installed has its torch beside it,
    which must not be found there: the other interpreter has a squall of its own then."""
    home = PACKAGE.parent
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    if not (home / "torch").exists():
        environment["PYTHONPATH"] = str(home)
    return environment
