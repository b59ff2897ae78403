"""JSON that is read strictly, and complaints that name the place in the file.

Shared by whatever is kept as a file: programs, fault plans, scenarios.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from string import ascii_letters
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

T = TypeVar("T")
#: an exception to raise with a text
Problem = Callable[[str], Exception]

_NAME_CHARACTERS = "_" + ascii_letters
#: the integers that a file may hold, and how deep its lists and objects are in each other at most
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1
MOST_DEPTH = 64

#: the type of an error that says by itself what is wrong with a value
_SAID = "said"
#: how pydantic's kinds of complaints read here; {noun} is what the file holds
_MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is no field of a {noun}",
    "unexpected_keyword_argument": "is no field of a {noun}",
    "missing_keyword_only_argument": "is missing",
    "missing_argument": "is missing",
    "union_tag_not_found": "does not say which kind it is",
}


class MadeError(ValueError):
    """Something made in code makes no sense. The text names the class, or what it is, first: the
    rest of it is true of the same in a file."""

    @property
    def rest(self) -> str:
        """The text behind the first name: ``.nth[0]: 0 is wrong: …``."""
        return str(self).lstrip(_NAME_CHARACTERS)


def read_text(path: Path, noun: str, problem: Problem) -> str:
    """The text of a file. Raises ``problem`` if it is not UTF-8, OSError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise problem(f"{noun}: is not UTF-8 text: {error.reason}") from None


def parse(text: str, noun: str, problem: Problem) -> Any:
    """What JSON text says. Raises ``problem``; so it does for NaN, Infinity and repeated names."""

    def no_such_number(name: str) -> Any:
        raise problem(f"{noun}: is not JSON: {name} is no number of JSON")

    def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise problem(f"{noun}: the name {twice!r} is there twice in one object")
        return found

    try:
        return json.loads(text, parse_constant=no_such_number, object_pairs_hook=named_once)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise problem(f"{noun}: is not JSON: {error.msg} in {where}") from None
    except RecursionError:
        raise problem(f"{noun}: is not JSON: nested too deeply") from None
    except ValueError as error:
        if type(error) is not ValueError:  # a problem that is told already
            raise
        raise problem(f"{noun}: is not JSON: {error}") from None  # thousands of digits


def check_version(data: Any, supported: tuple[int, ...], place: str, problem: Problem) -> None:
    """Raises ``problem`` unless ``data`` is an object of a supported version (none: the last)."""
    if not isinstance(data, dict):
        raise problem(f"{place}: is not an object")
    version = data.get("version", supported[-1])
    if version not in supported or type(version) is not int:
        reads = " and ".join(str(each) for each in supported)
        raise problem(
            f"{place}.version: {shown(version)} is not supported; this squall reads version {reads}"
        )


def validate(adapter: TypeAdapter[T], data: Any, *, place: str, noun: str, problem: Problem) -> T:
    """``data`` as what ``adapter`` makes of it. Raises ``problem`` for the first thing wrong."""
    check_values(data, place, problem)
    try:
        # By way of JSON text: there, and only there, a list is a tuple for pydantic's strict mode.
        return adapter.validate_json(json.dumps(data))
    except ValidationError as error:
        raise problem(f"{place}{complaint(error, noun)}") from None


def check_values(data: Any, place: str, problem: Problem) -> None:
    """Raises ``problem`` for the first value, or name, that no field of any file takes.

    That is an integer of more than 64 bits (which ends in an OverflowError where a float is
    made of it), a number beyond the largest float, text with half a character of UTF-16, which no
    stream prints, and lists in lists without end.
    """
    left: list[tuple[Any, str, int]] = [(data, place, 0)]
    while left:
        value, where, depth = left.pop()
        if depth > MOST_DEPTH:
            raise problem(f"{place}: is nested too deeply: more than {MOST_DEPTH} levels")
        if isinstance(value, dict):
            inside = [
                (each, where + _path((str(name),)), depth + 1) for name, each in value.items()
            ]
            for name in value:
                _check_text(str(name), where, problem)
            left += reversed(inside)
        elif isinstance(value, list | tuple):
            left += [(value[n], f"{where}[{n}]", depth + 1) for n in reversed(range(len(value)))]
        elif isinstance(value, str):
            _check_text(value, where, problem)
        elif isinstance(value, int) and not LEAST_INTEGER <= value <= MOST_INTEGER:
            raise problem(f"{where}: {shown(value)} is wrong: should be an integer of 64 bits")
        elif isinstance(value, float) and not math.isfinite(value):
            raise problem(f"{where}: {shown(value)} is wrong: should be a finite number")


def _check_text(text: str, place: str, problem: Problem) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise problem(f"{place}: {shown(text)} is wrong: should be Unicode text") from None


def complaint(error: ValidationError, noun: str) -> str:
    """The first thing that is wrong, after the way to it: ``.groups[0]: is missing``."""
    first = error.errors(include_url=False)[0]
    path, unknown = _path(first["loc"]), first["type"] == "union_tag_invalid"
    said = first.get("ctx", {}).get("error")
    if isinstance(said, MadeError):
        return path + said.rest
    text = _message(first, noun) if not unknown else _unknown_kind(first)
    return f"{path}: {text}"


def wrong(text: str) -> PydanticCustomError:
    """What a validator raises about a value of which ``text`` is true: "is no message type"."""
    return PydanticCustomError(_SAID, "{text}", {"text": text})


def shown(value: Any) -> str:
    """A value as a message quotes it."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a negative integer of many digits" if value < 0 else "an integer of many digits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _path(location: tuple[int | str, ...]) -> str:
    return "".join(map(_part, location))


def _part(part: int | str) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isidentifier() else f"[{shown(part)}]"


def _message(error: Any, noun: str) -> str:
    known = _MESSAGES.get(error["type"])
    if known is not None:
        return known.format(noun=noun)
    text: str = error["msg"]
    if error["type"] == _SAID:
        return f"{shown(error['input'])} {text}"
    return f"{shown(error['input'])} is wrong: {text.removeprefix('Input ').removeprefix('Value error, ')}"


def _unknown_kind(error: Any) -> str:
    said = error["ctx"]
    return f"{said['tag']!r} is no such kind; there are {said['expected_tags']}"
