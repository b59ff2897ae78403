"""A suite of pytest: each test function, with all its parameters, is a number."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, ClassVar

from squall.model.events.run import Violation
from squall.real.own_files import PACKAGE
from squall.sim.campaigns.parts.elsewhere import Elsewhere, Ended, elsewhere, judged
from squall.sim.campaigns.parts.files import OfFiles, root_of
from squall.sim.campaigns.parts.part import Alive
from squall.sim.campaigns.pytest_lines import LEFT_OUT, VARIABLE
from squall.sim.campaigns.row import Row, failed_row

#: the property of a test that fails
TEST = "test"
#: names a file to which a line is added for each item that has run: its name, its outcome, and the
#: seconds that it took
TIMES_VARIABLE = "SQUALL_TEST_TIMES"
#: real seconds without an item after which a process is ended: tests have limits of their own
SILENCE_S = 1800.0
_PLUGIN = "squall.sim.campaigns.pytest_lines"
#: the exit codes of pytest after which all was run: nothing failed, something did, there was nothing
_ALL_RUN = (0, 1, 5)
#: characters that are told of the items that have failed
_MOST_SAID = 200


class SuiteError(Exception):
    """There is no suite to be run: why, in one sentence."""


@dataclass
class _Function:
    """What is known of a function while it runs: how many ``items`` it has, what each came to, and
    what those that failed have said."""

    items: int
    outcomes: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite(OfFiles):
    """The numbers are those of ``functions``, without the items that are ``left_out``, since options have
    deselected them. ``options``: words for pytest; ``again_options``: those of
    a command that shows a failure again. The events of a row are the items that ran."""

    paths: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    again_options: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    kind: ClassVar[str] = "tests"
    most_of_lease: ClassVar[int | None] = 6
    unit: ClassVar[str] = "test functions"

    @property
    def _how(self) -> str:
        return shlex.join(["pytest", *self.paths, *self.options])

    def read(self) -> Iterable[Path]:
        """All Python files: what is imported by a test decides what it says, too."""
        for path in self.paths:
            place = self.folder / path
            yield from sorted(place.rglob("*.py")) if place.is_dir() else (place,)

    def judge(self, numbers: range, alive: Alive) -> Iterator[Row]:
        return judged(numbers, partial(self._attempt, alive=alive), self._ended)

    def name_of(self, number: int) -> str:
        return self.functions[number]

    def again(self, row: Row) -> str:
        words = ["python", "-m", "pytest", self.functions[row.seed], *self.again_options]
        return shlex.join(words)

    def _attempt(self, numbers: Sequence[int], alive: Alive) -> Generator[Row, None, Ended]:
        """In one process."""
        by_name = {self.functions[number]: number for number in numbers}
        running: dict[str, _Function] = {}
        broken: dict[str, str] = {}
        at, done = None, set()
        words = [*by_name, *self.options, "--continue-on-collection-errors"]
        with (
            tempfile.TemporaryFile() as output,
            _pytest(words, self.folder, output, self.left_out) as process,
        ):
            for line in process.lines(alive, SILENCE_S):
                said = json.loads(line)
                name = said.get("function", said.get("begins"))
                if "broken" in said:
                    broken[said["broken"]] = said["text"]
                elif "items" in said:
                    running[name] = _Function(said["items"])
                elif "begins" in said:
                    at = name
                elif "item" in said:
                    _note(said)
                    if _add(running[name], said):
                        done.add(name)
                        yield _row(by_name[name], name, running[name])
            code = process.wait()
            for name, number in by_name.items():
                if name in done:
                    continue
                if (text := _broken(broken, name)) is not None:
                    yield _failed(number, name, text)
                elif code in _ALL_RUN and name not in running:
                    yield _row(number, name, _Function(0))  # its file was skipped
                elif at is None and code > 0 and not broken:
                    yield _failed(number, name, f"pytest ended with {code}: {_last(output)}")
        return Ended(code, None if at in done or at is None else by_name[at])

    def _ended(self, number: int, ended: Ended) -> Row:
        return _failed(number, self.functions[number], f"its process ended with {ended.code}")


def suite_of(
    name: str,
    folder: Path,
    paths: Sequence[str],
    options: Sequence[str] = (),
    again: Sequence[str] | None = None,
) -> Suite:
    """The part of all functions that pytest finds there. ``paths`` begin at a folder. A file that
    cannot be read counts as a function. Raises SuiteError."""
    places = [folder / path for path in paths]
    for path, place in zip(paths, places, strict=True):
        if not place.exists():
            raise SuiteError(f"there is no file or folder {path!r} in {folder}")
    root, functions, left_out = "", [], []
    words = [*(str(place.resolve()) for place in places), *options, "--collect-only"]
    with tempfile.TemporaryFile() as output:
        with _pytest(words, folder, output) as process:
            for line in process.lines():
                said = json.loads(line)
                root = said.get("root", root)
                functions += [said[key] for key in ("function", "broken") if key in said]
                left_out += [said["left_out"]] if "left_out" in said else []
            code = process.wait()
        if not root or not functions:
            raise SuiteError(f"pytest found no test, it ended with {code}: {_last(output)}")
    part = Suite(
        name,
        range(len(functions)),
        root=root_of(Path(root)),
        paths=tuple(os.path.relpath(place.resolve(), Path(root).resolve()) for place in places),
        options=tuple(options),
        again_options=tuple(options if again is None else again),
        functions=tuple(functions),
        left_out=tuple(left_out),
    )
    return replace(part, stamp=part.stamped())


def _pytest(
    words: Sequence[str], folder: Path, output: IO[bytes], left_out: Sequence[str] | None = None
) -> AbstractContextManager[Elsewhere]:
    """A process of pytest, with this squall."""
    home = str(PACKAGE.parent)
    there = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([home, *there]))}
    env.pop(
        TIMES_VARIABLE, None
    )  # tests that are run by a test are not among those that are asked for
    if left_out is not None:
        env[LEFT_OUT] = json.dumps(left_out)
    return elsewhere(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", _PLUGIN, *words],
        env=env,
        folder=folder,
        output=output,
        variable=VARIABLE,
    )


def _add(function: _Function, said: dict[str, Any]) -> bool:
    """Note what came of an item. Whether it was the last one."""
    function.outcomes[said["item"]] = said["outcome"]
    if said["outcome"] == "failed":
        function.texts[said["item"]] = said["text"]
    return len(function.outcomes) == function.items


def _row(number: int, name: str, function: _Function) -> Row:
    outcomes = sorted(function.outcomes.items())
    digest = blake2b(repr(outcomes).encode(), digest_size=16).hexdigest()
    events = sum(outcome != "skipped" for _, outcome in outcomes)
    if not function.texts:
        return Row(number, digest=digest, events=events)
    parameters = ", ".join(item.removeprefix(name) for item in function.texts)
    if len(parameters) > _MOST_SAID:
        parameters = f"{parameters[:_MOST_SAID]}…"
    *_, text = function.texts.values()
    of = f"{len(function.texts)} of {function.items}, {parameters}: " if parameters else ""
    return _failed(number, name, f"{of}{text}")._replace(digest=digest, events=events)


def _failed(number: int, name: str, text: str) -> Row:
    return failed_row(number, Violation(TEST, name, "", ""))._replace(text=f"{TEST}: {text}")


def _broken(broken: dict[str, str], name: str) -> str | None:
    """Why a file could not be read, if the function is in it."""
    for node, text in broken.items():
        if name == node or name.startswith((f"{node}::", f"{node}/")):
            return text
    return None


def _note(said: dict[str, Any]) -> None:
    """For whoever wants to know how long each test takes."""
    place = os.environ.get(TIMES_VARIABLE)
    if place is not None:
        line = json.dumps({key: said[key] for key in ("item", "outcome", "seconds", "cpu_s")})
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _last(output: IO[bytes]) -> str:
    """What pytest has said last of what is wrong."""
    output.seek(0)
    lines = output.read().decode(errors="replace").splitlines()
    wrong = [line for line in lines if line.startswith("ERROR") or ": error: " in line]
    return " ".join((wrong or [line for line in lines if line.strip()] or ["nothing"])[-1].split())
