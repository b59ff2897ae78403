"""``python -m squall.sim.cli.page > docs/commands.md`` writes the page about all commands, from their help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from squall.sim.cli.main import command as commands

_MARKUP = re.compile(r"\[/?(?:bold|dim|italic)\]")
_ABOUT = """\
# Commands

Made by `make commands` from what `squall COMMAND --help` says. `squall --install-completion` teaches your shell
all words. Exit codes, and what `--json` prints: [json.md](json.md).

What options are when the command line does not say it may stand in `squall.toml`, in the folder in which squall is
called: a table for each command, in which an option has its long name without the dashes. What was taken from
there is told on stderr.

```toml
[run]
workers = 3
latency = "lognormal:0.001:0.5"
simulate = ["mylib", "otherlib"]

[fuzz]
faults = "rough"
jobs = 4
stats = true
```
"""


def page() -> str:
    """The page in Markdown."""
    group = commands()
    parts = [_ABOUT]
    rows = [
        f"| [`{name}`](#squall-{name}) | {_line(_paragraphs(command.help)[0])} |"
        for name, command in group.commands.items()
    ]
    parts.append("\n".join(["| command | |", "|---|---|", *rows]) + "\n")
    for name, command in group.commands.items():
        parts += _command(name, command)
    return "\n".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name == "option"]
    words = "".join(f" {_argument(each)}" for each in arguments)
    yield f"## `squall {name}`\n"
    yield f"    squall {name} [OPTIONS]{words}\n"
    for paragraph in _paragraphs(command.help):
        yield _line(paragraph) + "\n"
    if arguments:
        rows = [f"| `{_metavar(each)}` | {_line(each.help or '')} |" for each in arguments]
        yield "\n".join(["| argument | |", "|---|---|", *rows]) + "\n"
    if options:
        rows = [
            f"| {_option(each)} | {_line(each.help or '')}{_default(each)} |" for each in options
        ]
        yield "\n".join(["| option | |", "|---|---|", *rows]) + "\n"
    lines = [_MARKUP.sub("", line).rstrip() for line in (command.epilog or "").splitlines()]
    examples = [f"    {line}" for line in lines if line.startswith("squall ")]
    if examples:
        yield "\n".join(examples) + "\n"
    told = " ".join(line for line in lines if not line.startswith(("squall ", "Examples")))
    if told.strip():
        yield _line(told) + "\n"


def _paragraphs(text: str | None) -> list[str]:
    return [part for part in (text or "").replace("\f", "").split("\n\n") if part.strip()]


def _line(text: str) -> str:
    """Words of a help text for a cell of a table: plain, and of one line."""
    plain = " ".join(_MARKUP.sub("", text).split())
    return re.sub(r"([|<>*_{}\[\]])", r"\\\1", plain)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.human_readable_name).strip("{}")


def _argument(parameter: Any) -> str:
    name = _metavar(parameter) + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    """Its words, and what is to follow them."""
    words = [*parameter.opts, *parameter.secondary_opts]
    metavar = "" if parameter.is_flag else f" {_metavar(parameter)}"
    return ", ".join(f"`{word}{metavar}`".replace("|", "\\|") for word in words)


def _default(parameter: Any) -> str:
    told = parameter.default
    if parameter.is_flag or not parameter.show_default or not isinstance(told, str | int | float):
        return ""
    return f" Default: `{told}`."


if __name__ == "__main__":
    print(page(), end="")
