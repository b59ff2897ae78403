"""The command ``squall``: one line for whatever is wrong, and an exit code (see exits.py)."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from squall.sim.cli import defaults
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.commands import command_modules, command_name
from squall.sim.cli.exits import BAD_INPUT, DEFECT, INTERRUPTED, NOT_READ
from squall.sim.cli.store_place import check_store
from squall.sim.cli.streams import Outlet


class _InterruptedError(Exception):
    """Ctrl-C before a command could say anything, of which typer would make an exit code only."""


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _InterruptedError from None


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        check_store()  # not before --help
        defaults.tell(ctx)
        return super().invoke(ctx)


app = typer.Typer(
    name="squall",
    cls=_Group,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def squall(
    ctx: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    """Run distributed autograd on a simulated cluster, and check what comes out."""
    if show_version:
        typer.echo(f"squall {_version()}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


for _module in command_modules():
    _function = _module.__name__.rpartition(".")[2]
    app.command(
        command_name(_module),
        cls=_Command,
        epilog=getattr(_module, "EPILOG", None),
        context_settings=getattr(_module, "CONTEXT_SETTINGS", None),
    )(getattr(_module, _function))


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("squall")
    except PackageNotFoundError:
        return "(not installed: make install)"


@cache
def command() -> Any:
    """All commands with their options, which typer reads for a sixth of a second.

    Those that several commands have stand in the help after what is a command's own.
    """
    group: Any = typer.main.get_command(app)
    options = [
        each
        for command in group.commands.values()
        for each in command.params
        if each.param_type_name == "option"
    ]
    used = Counter(each.name for each in options)
    for each in options:
        if used[each.name] > 1:
            each.rich_help_panel = "Options of several commands"
    return group


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the command. Never lets a traceback of squall's own out."""
    words = list(sys.argv[1:] if argv is None else argv)
    outlet = Outlet(sys.stdout)
    sys.stdout = outlet
    try:
        code = _code(words)
        with suppress(KeyboardInterrupt):
            outlet.flush()
    finally:
        sys.stdout = outlet._stream
    if outlet.problem is not None:
        code = _lost(outlet.problem)
    sys.exit(code)


def _lost(problem: OSError) -> int:
    """Standard output could not be written."""
    if isinstance(problem, BrokenPipeError):
        return NOT_READ  # whoever read it has left, and needs no explanation
    print(f"squall: standard output: cannot write: {problem.strerror}", file=sys.stderr)
    return BAD_INPUT


def _code(words: list[str]) -> Any:
    """Run the command. Its exit code."""
    try:
        group = command()
        known = {} if "--help" in words else defaults.default_map(group)
        code = group(args=words, prog_name="squall", standalone_mode=False, default_map=known)
    except BadInput as error:
        code = _bad_input(defaults.blame(error, words), words)
    except typer.TyperException as error:
        code = _bad_input(_usage(error), words)
    except (KeyboardInterrupt, _InterruptedError, typer.Abort):
        message = "interrupted before there was a report"
        _print_json(words, {"outcome": "interrupted", "message": message})
        code = INTERRUPTED
    except Exception as error:
        wrong = _found_late(error, words)
        if wrong is not None:
            return _bad_input(wrong, words)
        if os.environ.get("SQUALL_DEBUG"):
            raise
        problem = f"a defect of squall itself: {type(error).__name__}: {error}"
        _print_json(words, {"outcome": "defect", "message": problem})
        print(f"squall: {problem} (SQUALL_DEBUG=1 shows where)", file=sys.stderr)
        code = DEFECT
    return code


def _found_late(error: Exception, words: list[str]) -> BadInput | None:
    """What is wrong with the input, if that is why a run could not go on."""
    from squall.sim.faults.file import RankError

    if not isinstance(error, RankError):
        return None
    return BadInput("--faults", _value("--faults", words), str(error))


def _value(option: str, words: list[str]) -> str:
    """What was given to an option; empty if it was not given."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return ""


def _usage(error: Any) -> BadInput:
    """What is wrong with the words; of an option that there is not, the nearest of the command's."""
    context = getattr(error, "ctx", None)
    shown = "squall" if context is None else context.command_path
    hint = f"; {shown} --help shows what there is"
    if context is None or not hasattr(error, "possibilities"):
        return BadInput("command line", "", f"{error.format_message().rstrip('.')}{hint}")
    value = error.option_name
    if near := _nearest(value, context):
        hint = f", did you mean {near}?"
    if context.ignore_unknown_options:
        hint += " (what is for a script comes after it)"
    return BadInput("command line", value, f"no such option {value!r}{hint}")


def _nearest(word: str, context: Any) -> str:
    """The option of a command that begins so, or is written much like it; "" if none is."""
    bare = word.partition("=")[0].lstrip("-")
    options = context.command.get_params(context)
    names = [name for each in options for name in (*each.opts, *each.secondary_opts)]
    known = {name.lstrip("-"): name for name in names if name.startswith("--")}
    begin = [name for name in known if len(bare) > 1 and name.startswith(bare)]
    return "".join(known[name] for name in begin[:1] or get_close_matches(bare, known, n=1))


def _print_json(words: list[str], told: dict[str, str]) -> None:
    ours = words[: words.index("--")] if "--" in words else words
    if "--json" in ours:
        print(json.dumps(told))


def _bad_input(error: BadInput, words: list[str]) -> int:
    told = {"field": error.field, "value": error.value, "message": str(error)}
    _print_json(words, {"outcome": "bad input", **told})
    print(f"squall: {error}", file=sys.stderr)
    return BAD_INPUT


if __name__ == "__main__":
    main()
