"""A TOML file that says what each rank of a script runs.

[[rank]]
script = "ps.py"                    # relative to this file
args = ["--role", "server"]

[[rank]]
script = "trainer.py"
args = ["--id", "{rank}"]
environ = { ROLE = "trainer" }
count = 2                           # so many ranks, one after the other
"""

from __future__ import annotations

import json
import tokenize
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from squall.model.program.strict_json import read_text, validate
from squall.sim.names import MAX_WORKERS
from squall.sim.scenario import CommandLine, Script

_STRICT = ConfigDict(extra="forbid", strict=True)


class RanksError(ValueError):
    """A file of ranks is not valid. The text names the place and says what is wrong there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    script: str
    args: tuple[str, ...] = ()
    environ: dict[str, str] | None = None
    count: Annotated[int, Field(ge=1, le=MAX_WORKERS)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranks:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    rank: tuple[_Rank, ...]


_RANKS: TypeAdapter[_Ranks] = TypeAdapter(_Ranks)


def read_ranks(path: Path, *, check: bool = True) -> Script:
    """The script that a file describes; ``check`` is its own. Raises RanksError, and OSError if the
    file itself cannot be read."""
    try:
        data: Any = tomllib.loads(read_text(path, "file", RanksError))
    except tomllib.TOMLDecodeError as error:
        raise RanksError(f"is not TOML: {error}") from None
    plain = json.loads(json.dumps(data, default=str))  # a date is a text
    found = validate(_RANKS, plain, place="file", noun="file of ranks", problem=RanksError)
    if not found.rank:
        raise RanksError("file.rank: is empty, expected a [[rank]] for each rank")
    lines: list[CommandLine] = []
    for number, rank in enumerate(found.rank):
        line = _line(rank, path.parent, f"file.rank[{number}].script")
        lines += [line] * rank.count
    if len(lines) > MAX_WORKERS:
        raise RanksError(f"file.rank: {len(lines)} ranks, expected {MAX_WORKERS} at most")
    first = lines[0]
    return Script(
        path=first.path,
        text=first.text,
        args=first.args,
        environ=first.environ,
        workers=len(lines),
        check=check,
        others=tuple(lines[1:]),
    )


def _line(rank: _Rank, folder: Path, place: str) -> CommandLine:
    path = folder / rank.script
    if not path.is_file():
        raise RanksError(f"{place}: there is no file {str(path)!r}, expected a Python script")
    try:
        line = read_line(path, rank.args)
        compile(line.text, line.path, "exec", dont_inherit=True)
    except OSError as error:
        raise RanksError(f"{place}: cannot read {str(path)!r}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise RanksError(f"{place}: {str(path)!r} is no Python script: {error}") from None
    environ = tuple((rank.environ or {}).items())
    return CommandLine(path=line.path, text=line.text, args=line.args, environ=environ)


def read_line(path: Path, args: tuple[str, ...] = ()) -> CommandLine:
    """A file with its arguments, as it is now. Its path is absolute: tracebacks that cross the network
    show it. Raises OSError, or SyntaxError for a file in no encoding that Python reads."""
    with tokenize.open(path) as file:
        text = file.read()
    return CommandLine(path=str(path.resolve()), text=text, args=args)
