"""Programs as JSON files.

    program = load_program(Path("program.json"))
    text = dump_program(program)

Whatever is wrong with a file is told in one message that names the place:
``program.trainers[0].steps[1].ops[3].worker: 9 is not one of the 4 workers``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from model.program import VERSION, Program
from model.program_check import ProgramError, check_program

__all__ = ["ProgramError", "dump_program", "load_program", "program_from_json"]

_ADAPTER: TypeAdapter[Program] = TypeAdapter(Program)

#: how pydantic's kinds of complaints read here
_MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is no field of a program",
    "unexpected_keyword_argument": "is no field of a program",
    "missing_keyword_only_argument": "is missing",
    "missing_argument": "is missing",
}


def load_program(source: str | Path) -> Program:
    """A program from a file (a ``Path``) or from the text of one.

    Raises ProgramError for anything but a valid program, OSError if there is no such file.
    """
    if isinstance(source, Path):
        try:
            source = source.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ProgramError(f"program: is not UTF-8 text: {error.reason}") from None
    try:
        data = json.loads(source)
    except json.JSONDecodeError as error:
        raise ProgramError(
            f"program: is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise ProgramError("program: is not JSON: nested too deeply") from None
    return program_from_json(data)


def program_from_json(data: Any, *, place: str = "program") -> Program:
    """A program from what its JSON says; ``place`` is where in a larger file that is.

    Raises ProgramError.
    """
    if not isinstance(data, dict):
        raise ProgramError(f"{place}: is not an object")
    version = data.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise ProgramError(
            f"{place}.version: {_shown(version)} is not supported; this squall reads version {VERSION}"
        )
    try:
        # By way of JSON text: there, and only there, a list is a tuple for pydantic's strict mode.
        program = _ADAPTER.validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ProgramError(f"{place}{_path(first['loc'])}: {_message(first)}") from None
    check_program(program, place=place)
    return program


def dump_program(program: Program, *, indent: int | None = None) -> str:
    """The program as JSON text, fields at their defaults left out."""
    return json.dumps(program_to_json(program), indent=indent)


def program_to_json(program: Program) -> dict[str, Any]:
    """The program as plain JSON values; the version is always there."""
    data: dict[str, Any] = _ADAPTER.dump_python(program, mode="json", exclude_defaults=True)
    return {"version": program.version, **data}


def _path(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _message(error: Any) -> str:
    known = _MESSAGES.get(error["type"])
    if known is not None:
        return known
    text: str = error["msg"]
    text = text.removeprefix("Input ")
    return f"{_shown(error['input'])} is wrong: {text}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
