"""Programs as JSON files.

    program = load_program(Path("program.json"))
    text = dump_program(program)

Whatever is wrong with a file is told in one message that names the place:
``program.trainers[0].steps[1].ops[3].worker: 9 is not one of the 4 workers``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from squall.model.program.check import ProgramError
from squall.model.program.program import VERSION, Program
from squall.model.program.strict_json import check_version, parse, read_text, validate

__all__ = ["ProgramError", "dump_program", "load_program", "program_from_json", "program_to_json"]

#: versions of the format that can be read; the last one is written
VERSIONS = (1, VERSION)


@cache
def _adapter() -> TypeAdapter[Program]:
    return TypeAdapter(Program)


def load_program(source: str | Path) -> Program:
    """A program from a file (a ``Path``) or from the text of one.

    Raises ProgramError for anything but a valid program, OSError if there is no such file.
    """
    if isinstance(source, Path):
        source = read_text(source, "program", ProgramError)
    return program_from_json(parse(source, "program", ProgramError))


def program_from_json(data: Any, *, place: str = "program") -> Program:
    """A program from what its JSON says; ``place`` is where in a larger file that is.

    Raises ProgramError.
    """
    check_version(data, VERSIONS, place, ProgramError)
    return validate(_adapter(), _upgraded(data), place=place, noun="program", problem=ProgramError)


def dump_program(program: Program, *, indent: int | None = None) -> str:
    """The program as JSON text, fields at their defaults left out."""
    return json.dumps(program_to_json(program), indent=indent)


def program_to_json(program: Program) -> dict[str, Any]:
    """The program as plain JSON values; the version is always there."""
    data: dict[str, Any] = _adapter().dump_python(program, mode="json", exclude_defaults=True)
    return {"version": program.version, **data}


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """What a file of an earlier version says, in the words of this one."""
    if data.get("version") != 1:
        return data

    def step(old: Any) -> Any:
        return renamed(old, {"asides": "stories"})

    def trainer(old: Any) -> Any:
        return _with_each(old, "steps", step)

    return {**_with_each(data, "trainers", trainer), "version": VERSION}


def renamed(data: Any, names: dict[str, str]) -> Any:
    """An object with some of its fields called otherwise; anything else as it is."""
    if not isinstance(data, dict):
        return data
    return {names.get(name, name): value for name, value in data.items()}


def _with_each(data: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """``data`` with each element of its list ``name`` changed, if it has such a list."""
    if not isinstance(data, dict) or not isinstance(data.get(name), list):
        return data
    return {**data, name: [change(each) for each in data[name]]}
