"""The commands, one module each.

A module holds a function of its own name, which typer makes a command (:func:`command_name`): its docstring is the help,
its parameters are the options. ``RANK`` is its place in the list of commands (without it: last),
``EPILOG`` what stands below the help, ``CONTEXT_SETTINGS`` what typer's command is made with.
One more module here is one more command.

Such a function has a parameter an option, however many these are: typer reads them there. What it
hands on it puts together first. All commands are imported whenever one runs: what takes long to
import, torch above all, is imported inside the function; and there after all has been looked at
that can be wrong without it, so that whoever has mistyped something does not wait
(properties/sim/cli/test_start.py).
"""

from __future__ import annotations

from types import ModuleType

from squall.model.discovery import modules_in

LAST = 1000


def command_name(module: ModuleType) -> str:
    """What is written on a command line: that of the module, with a hyphen for each underscore."""
    return module.__name__.rpartition(".")[2].replace("_", "-")


def command_modules() -> list[ModuleType]:
    """All modules of commands, in the order of the help."""
    modules = modules_in(__name__)
    return sorted(modules, key=lambda module: (getattr(module, "RANK", LAST), module.__name__))
