"""Which scenario files squall wrote itself: a script in any other file runs only if somebody says so.

    read = read_scenario_file(Path("failure.json"))
    read.own or ask_somebody(read.scenario)

A program is data, and runs from any file. A script is Python, which may do whatever its user may.
So each file with a script that squall writes is written down by the digest of its text, in
``own-scenarios`` under the folder of its cache, which belongs to one user; a file that was edited,
or that comes from elsewhere, is not there. Files of squall's own corpus and findings count as its
own by where they are.
"""

from __future__ import annotations

import contextlib
import os
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from squall.model.program.strict_json import read_text
from squall.real.native.build import directory
from squall.real.own_files import PACKAGE
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import ScenarioError, dump_scenario, load_scenario

#: the file of digests, in the folder of the cache
FILE = "own-scenarios"
_FOLDERS = ("corpus", "findings")


class Read(NamedTuple):
    """A scenario from a file, and whether it may run without a question."""

    scenario: Scenario
    own: bool


def read_scenario_file(path: Path) -> Read:
    """Raises ValueError and OSError, as :func:`load_scenario` does."""
    text = read_text(path, "scenario", ScenarioError)  # once: what is judged is what runs
    scenario = load_scenario(text)
    own = scenario.script is None or _is_part_of_squall(path) or _digest(text) in _digests()
    return Read(scenario, own)


def text_to_write(scenario: Scenario) -> str:
    """The scenario as a file's text, known from now on as squall's own."""
    text = dump_scenario(scenario)
    if scenario.script is not None:
        # A cache that cannot be written to costs a question when the file is used.
        with contextlib.suppress(OSError):
            _write_down(_digest(text))
    return text


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=32).hexdigest()


def _is_part_of_squall(path: Path) -> bool:
    ours = PACKAGE / "properties"
    return any(path.resolve().is_relative_to((ours / name).resolve()) for name in _FOLDERS)


def _digests() -> set[str]:
    """What is written down; nothing if another user could have written it."""
    try:
        with open(directory() / FILE, encoding="ascii") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return set()
            return set(file.read().split())
    except (OSError, ValueError):
        return set()


def _write_down(digest: str) -> None:
    if digest in _digests():
        return
    directory().mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    number = os.open(directory() / FILE, flags, 0o600)
    try:
        os.write(number, f"{digest}\n".encode("ascii"))  # one write: others may append meanwhile
    finally:
        os.close(number)
