"""Blocks of commands in pages of the documentation, run as they stand there.

A page's blocks are played in their order in a folder of their own, beside a copy of ``examples/``:

- a block with a title (``title="trial.py"``) is a file, and is written;
- in a block ``console`` a line that begins with ``$`` is a command; below it stands what it prints. There
  ``…`` stands for anything within a line, and alone for any number of lines. A name of eight hexadecimal
  digits, which a stored failure has, stands for the one that is printed in its place, also in what follows.

A command is ``squall``, ``python``, ``pytest`` or ``sed``; ``echo $?`` prints the exit code of the one before.
All are children of one process that has imported torch and squall already, so each begins at once.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from squall.properties.support.markdown import blocks
from squall.properties.support.paths import EXAMPLES, ROOT

COLUMNS = 80
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


def play(page: Path, folder: Path, shell: Shell) -> list[str]:
    """Play a page in an empty folder. What is not as it says there, a text for each command."""
    shutil.copytree(EXAMPLES, folder / EXAMPLES.name, dirs_exist_ok=True)
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
                code, said = shell.run(shlex.split(words), folder)
            lines = [line.rstrip() for line in said.splitlines()]
            difference = names.difference(command.expected, lines) if command.expected else ""
            if difference:
                wrong.append(f"{page.name}:{block.line}: $ {words}\n{difference}\n\n{said}")
    return wrong


class Shell:
    """A process that runs commands as children of its own."""

    def __init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if "SQUALL" not in name}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "squall.properties.support.console"],
            cwd=ROOT,
            env={**kept, "COLUMNS": str(COLUMNS), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def run(self, words: list[str], folder: Path) -> tuple[int, str]:
        """The exit code of a command in a folder, and what it prints."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, str(folder)]) + "\n")
        self._process.stdin.flush()
        code, said = json.loads(self._process.stdout.readline())
        return int(code), str(said)


def serve(asked: IO[str], told: IO[str]) -> None:
    """Run the commands that come, a line each, and tell the exit code and what they printed."""
    import pytest  # noqa: F401  so that no child has to import it

    import squall.sim.cli.main
    import squall.sim.library.testing  # noqa: F401

    for line in asked:
        words, folder = json.loads(line)
        with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
            child = os.fork()
            if child == 0:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.chdir(folder)
                os.environ["SQUALL_CACHE"] = str(Path(folder, ".cache"))
                os._exit(_run(words))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            print(json.dumps([code, said.read()]), file=told, flush=True)


def _run(words: list[str]) -> int:
    """Run a command in this process. Its exit code."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = os.fdopen(os.dup(number), "wb", 0)
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    code: object = 0
    try:
        if words[0] == "squall":
            from squall.sim.cli.main import main

            main(words[1:])
        elif words[0] == "pytest":
            import pytest

            sys.path.insert(0, "")
            # What it would rewrite is imported already.
            quiet = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
            code = int(pytest.main([*quiet, *words[1:]]))
        elif words[0] == "python":
            sys.argv = words[1:]
            sys.path.insert(0, "")
            runpy.run_path(words[1], run_name="__main__")
        elif words[0] == "sed":
            code = subprocess.run(words, check=False).returncode
        else:
            raise ValueError(f"{words[0]} is no command that pages may have")
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    return code if isinstance(code, int) else 1


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
