"""``squall.toml`` in the working directory: what options of commands are where the command line does not say it.

A table a command, a key an option, by its long name without the dashes::

    [run]
    workers = 3
    latency = "lognormal:0.001:0.5"
    simulate = ["mylib", "otherlib"]
"""

from __future__ import annotations

import sys
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from squall.sim.cli.bad_input import BadInput

FILE = "squall.toml"


def default_map(group: Any) -> dict[str, dict[str, Any]]:
    """Values by command and parameter, as click takes them. Raises :class:`BadInput`."""
    return {name: _of_command(group, name, values) for name, values in _read().items()}


def _read() -> dict[str, Any]:
    try:
        return tomllib.loads(Path(FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(FILE, "", f"cannot read it: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(FILE, "", str(error)) from None


def blame(error: BadInput, words: list[str]) -> BadInput:
    """The same; of an option that the command line does not name, with the file that does."""
    given = any(word.partition("=")[0] in (error.field, "--help") for word in words)
    if given or not error.field.startswith("--") or not Path(FILE).exists():
        return error
    if error.field.lstrip("-") not in _read().get(words[0], {}):
        return error
    problem = str(error).removeprefix(f"{error.field}: ")
    return BadInput(error.field, error.value, f"{problem} (in {FILE})")


def _of_command(group: Any, name: str, values: object) -> dict[str, Any]:
    command = group.commands.get(name)
    if command is None or not isinstance(values, dict):
        known = f"[{']['.join(get_close_matches(name, group.commands, n=1) or ['run'])}]"
        raise BadInput(
            FILE, name, f"expected the table of a command, such as {known}, got {name!r}"
        )
    names = {
        option.lstrip("-"): each
        for each in command.params
        if each.param_type_name == "option"
        for option in each.opts
        if option.startswith("--")
    }
    found = {}
    for key, value in values.items():
        field = f"{FILE}: [{name}] {key}"
        if key not in names:
            near = "".join(f", did you mean {word}?" for word in get_close_matches(key, names, n=1))
            raise BadInput(field, "", f"squall {name} has no option --{key}{near}")
        found[names[key].name] = _value(field, value, names[key])
    return found


def _value(field: str, value: object, option: Any) -> object:
    """As on the command line: a text, several, or whether it is set."""
    if option.is_flag:
        kind, good = "true or false", isinstance(value, bool)
    elif option.multiple:
        kind = "a list of texts"
        good = isinstance(value, list) and all(isinstance(each, str) for each in value)
    else:
        kind = "a text or a number"
        good = isinstance(value, str | int | float) and not isinstance(value, bool)
    if not good:
        raise BadInput(field, str(value), f"expected {kind}, got {value!r}")
    return value if option.is_flag or option.multiple else str(value)


def tell(context: Any) -> None:
    """Say on stderr which values of this call come from the file."""
    used = [
        each.opts[0]
        for each in context.command.params
        if (source := context.get_parameter_source(each.name)) and source.name == "DEFAULT_MAP"
    ]
    if used:
        print(f"squall: {', '.join(used)} as {FILE} says", file=sys.stderr)
