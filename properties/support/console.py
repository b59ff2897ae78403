"""Blocks of commands in pages of the documentation, run as they stand there.

A page's blocks are played in their order in a folder of their own, beside a copy of ``examples/``:

- a block with a title (``title="trial.py"``) is a file, and is written;
- in a block ``console`` a line that begins with ``$`` is a command; below it stands what it prints. There
  ``…`` stands for anything within a line, and alone for any number of lines. A name of eight hexadecimal
  digits, which a stored failure has, stands for the one that is printed in its place, also in what follows.

A command is ``squall``, ``python``, ``pytest`` or ``sed``; ``echo $?`` prints the exit code of the one before.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from squall.properties.support.commands import typed
from squall.properties.support.markdown import blocks
from squall.properties.support.paths import EXAMPLES

COLUMNS = 80
Run = Callable[[list[str], Path], tuple[int, str]]
_NAME = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8}\b")


@dataclass
class Command:
    """A line of a page, and what the page says that it prints."""

    words: str
    expected: list[str] = field(default_factory=list)


def commands(text: str) -> list[Command]:
    """The commands of a block ``console``."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line.removeprefix("$ ")))
        elif found:
            found[-1].expected.append(line.rstrip())
    for command in found:
        while command.expected and not command.expected[-1]:
            command.expected.pop()
    return found


class Names:
    """Which names of stored failures stand for those that a page has."""

    def __init__(self) -> None:
        self._here: dict[str, str] = {}

    def here(self, text: str) -> str:
        """The text with the names of this run."""
        return _NAME.sub(lambda found: self._here.get(found[0], found[0]), text)

    def matches(self, expected: str, line: str) -> bool:
        """Whether a line is the expected one. Notes the names in it."""
        names: list[str] = []
        pattern = ""
        for part in re.split(f"({_NAME.pattern}|…)", expected):
            if part == "…":
                pattern += ".*?"
            elif _NAME.fullmatch(part):
                names.append(part)
                pattern += "([0-9a-f]{8})"
            else:
                pattern += re.escape(part)
        found = re.fullmatch(pattern, line)
        if found is None:
            return False
        for name, here in zip(names, found.groups(), strict=True):
            if self._here.setdefault(name, here) != here:
                return False
        return True

    def difference(self, expected: list[str], lines: list[str]) -> str:
        """The first expected line that does not come, or what comes too much; "" if all is as expected."""
        position = 0
        skips = False
        for line in expected:
            if line == "…":
                skips = True
                continue
            while position < len(lines) and not self.matches(line, lines[position]):
                if not skips:
                    return f"expected {line!r}, got {lines[position]!r}"
                position += 1
            if position == len(lines):
                return f"expected {line!r}, and it does not come"
            position, skips = position + 1, False
        return "" if skips or position == len(lines) else f"more comes: {lines[position]!r}"


def play(page: Path, folder: Path, run: Run | None = None) -> list[str]:
    """Play a page in an empty folder. What is not as it says there, a text for each command.

    ``run`` gives the exit code of a command in a folder, and what it prints; without it, commands are those of
    this checkout.
    """
    run = run or _run
    if not (folder / EXAMPLES.name).exists():
        shutil.copytree(EXAMPLES, folder / EXAMPLES.name)
    wrong: list[str] = []
    names = Names()
    code = 0
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        if block.language != "console":
            continue
        for command in commands(block.text):
            words = names.here(command.words)
            if words == "echo $?":
                said = str(code)
            else:
                code, said = run(shlex.split(words), folder)
            lines = [line.rstrip() for line in said.splitlines()]
            difference = names.difference(command.expected, lines) if command.expected else ""
            if difference:
                wrong.append(f"{page.name}:{block.line}: $ {words}\n{difference}\n\n{said}")
    return wrong


def _run(words: list[str], folder: Path) -> tuple[int, str]:
    """The exit code of a command in a folder, and what it prints."""
    if words[0] == "sed":
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout
    return typed(words, folder, COLUMNS=str(COLUMNS), SQUALL_CACHE=str(folder / ".cache"))
