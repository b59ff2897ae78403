"""Small programs of users, each with one bug, and what an explanation of its failure has to name.

A program is ``KIND/NAME.py``; its folder says what kind of bug it has. It begins with comments:

    # run: --workers 3 --faults rough       as for squall fuzz; without --seeds N they are 0 to 19
    # engines: port torch                   where it fails as it says here
    # shows: lost updates                   a regular expression: what is wrong with a failing run
    # always: yes                           every seed fails; without it some hold
    # fix: OLD => NEW                       with this change, or these, every seed holds

Lines that end with ``# <- at fault``, or with ``# <- first`` and ``# <- second``, are the answer, written
down before there was a tool that looks for it: the line to change, or two lines whose order
decides. An explanation is right if it names one line at fault, or both of the pair.

    python -m squall.properties.why.bank [KIND/NAME ...]      how each fails, and whether its fix holds
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import squall

HERE = Path(__file__).parent
SEEDS = 20
_FIELD = re.compile(r"# (run|engines|shows|always|fix): (.+)")
_MARK = re.compile(r"  # <- (at fault|first|second)$")


@dataclass(frozen=True)
class Program:
    """One of the programs; ``path`` is its file."""

    path: Path

    @property
    def kind(self) -> str:
        """The kind of its bug, "lost update" for instance."""
        return self.path.parent.name.replace("_", " ")

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def _said(self, field: str) -> list[str]:
        lines = map(_FIELD.fullmatch, self.text.splitlines())
        return [line[2] for line in lines if line is not None and line[1] == field]

    @property
    def options(self) -> dict[str, str]:
        """What ``squall fuzz`` is told: "workers", "faults", "seeds"."""
        words = shlex.split(" ".join(self._said("run")))
        return {
            name.removeprefix("--"): word for name, word in zip(*[iter(words)] * 2, strict=True)
        }

    @property
    def seeds(self) -> range:
        return range(int(self.options.get("seeds", SEEDS)))

    @property
    def engines(self) -> list[str]:
        return " ".join(self._said("engines")).split()

    @property
    def shows(self) -> str:
        (expected,) = self._said("shows")
        return expected

    @property
    def always(self) -> bool:
        """Whether every seed fails."""
        return self._said("always") == ["yes"]

    @property
    def answer(self) -> dict[str, list[int]]:
        """The marked lines, counted from 1: "at fault", or "first" and "second"."""
        found: dict[str, list[int]] = {}
        for number, line in enumerate(self.text.splitlines(), 1):
            if (mark := _MARK.search(line)) is not None:
                found.setdefault(mark[1], []).append(number)
        return found

    @property
    def fixed(self) -> str:
        """Its text without the bug."""
        text = self.text
        for change in self._said("fix"):
            old, new = (part.replace("\\n", "\n") for part in change.split(" => "))
            head, body = text[: text.index('"""')], text[text.index('"""') :]
            if body.count(old) != 1:
                raise ValueError(
                    f"{self.name}: {old!r} is there {body.count(old)} times, expected once"
                )
            text = head + body.replace(old, new)
        return text

    def search(self, engine: str, *, fixed: bool = False, seeds: range | None = None) -> list[str]:
        """What is told of the first seed that fails, line by line; nothing if all hold."""
        options = self.options
        faults = options.get("faults")
        if faults is not None and faults.endswith(".json"):
            faults = str(self.path.parent / faults)
        with self._file(fixed) as path:
            found = squall.fuzz(
                path,
                workers=int(options["workers"]),
                seeds=self.seeds if seeds is None else seeds,
                faults=faults,
                engine=engine,  # type: ignore[arg-type]
                shrink_s=0,
            )
        return [] if found.finding is None else found.finding.lines()

    @contextmanager
    def _file(self, fixed: bool) -> Iterator[Path]:
        if not fixed:
            yield self.path
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, self.path.name)
            path.write_text(self.fixed, encoding="utf-8")
            yield path


def programs() -> list[Program]:
    """All of them, by kind and name."""
    return [Program(path) for path in sorted(HERE.glob("*/*.py"))]


def main(names: list[str]) -> None:
    """Print how each program fails in each seed, and whether it holds without its bug."""
    chosen = [each for each in programs() if not names or each.name in names]
    with tempfile.TemporaryDirectory() as store:
        os.environ["SQUALL_STORE"] = store
        for program in chosen:
            for engine in program.engines:
                seeds = [program.search(engine, seeds=range(n, n + 1)) for n in program.seeds]
                failed = [wrong for wrong in seeds if wrong]
                texts = {
                    line for lines in failed for line in lines if re.search(program.shows, line)
                }
                fixed = program.search(engine, fixed=True) or ["holds"]
                print(
                    f"{program.name} {engine}: {len(failed)} of {len(seeds)} fail; fixed: {fixed[0]}"
                )
                print("".join(f"    {text}\n" for text in sorted(texts)), end="", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
