"""What a user typed is wrong: one line that says what would be right."""

from __future__ import annotations

import typer

#: characters of a value that a message quotes; a path may be that long
_LONGEST = 200


class BadInput(Exception):  # noqa: N818 - it is the user's input that is bad
    """One thing a user gave is wrong; ``str()`` is the line to show, without a full stop.

    No ValueError: typer would make a message of its own of one.
    """

    def __init__(self, field: str, value: str, problem: str) -> None:
        if len(value) > _LONGEST:
            problem = problem.replace(value, f"{value[: _LONGEST - 3]}...")
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.value = value


class NoSuchOption(typer.BadParameter):
    """An option stands where the command has none; typer adds the command, of whose options the nearest is told."""

    #: as typer's own error has it, whom its commands without ARGS raise
    possibilities = None

    def __init__(self, word: str) -> None:
        super().__init__(f"no such option {word!r}")
        self.option_name = word
