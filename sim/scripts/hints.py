"""What to give ``squall run`` where a script fails since it was started in another way than it needs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from squall.sim.scenario import Script
from squall.sim.scripts.ranks import NUMBERS, RANK, has_ranks

WORKERS = NUMBERS[0]
#: variables that ``torchrun`` sets
_VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT"),
)
#: how errors of either engine, and of groups of processes, say that two have one rank
_TAKEN = re.compile(r"rank argument \d+ is taken|rank \d+ has joined (this|the process) group")
_MISSING = re.compile(r"\d+/(\d+) clients joined")
#: an option that takes a rank, or the number of ranks
_RANK_OPTION = re.compile(r"--?(r|.*(rank|[_-]id|^--id))", re.IGNORECASE)
_SIZE_OPTION = re.compile(r"--?(n|w|.*(world[_-]?size|num[_-]?workers|nprocs|n[_-]?workers))")
_RANK_IN_TEXT = re.compile(r"""["'](--(?:[a-z]+[_-])?(?:rank|id))["']""")


def hint(script: Script, type: str, text: str) -> str | None:
    """What may help against an uncaught exception; None: nothing is known."""
    if "RPC has not been initialized" in text and "    join=None,\n" in script.text:
        return 'with join="worker{rank}" each rank joins a group before it calls the function'
    if has_ranks(script):
        return None
    if _TAKEN.search(text):
        command = suggested(script, script.workers)
        if RANK in command:
            return f"each rank needs arguments of its own: {command}"
        started = "" if script.workers is None else f" ({script.workers}, by --workers)"
        return (
            f"each process that was started{started} took the same rank: the script is to read RANK from its "
            "environment, or the rank from its arguments, which are given as {rank}"
        )
    missing = _MISSING.search(text)
    if type == "DistStoreError" and missing and script.workers != int(missing[1]):
        return f"nobody started the other ranks: {suggested(script, int(missing[1]))}"
    if script.workers is not None:
        return None
    unset = type == "KeyError" and text.strip("'\"") in _VARIABLES
    if unset or any(f"variable {name} expected" in text for name in _VARIABLES):
        command = suggested(script, None)
        return (
            f"torchrun sets this variable, and so does squall where --workers is given: {command}"
        )
    return None


def hint_for_size(workers: int | None, size: int) -> str | None:
    """What to know where a script joins a group of another size than ``--workers`` says."""
    if workers is None or workers >= size:
        return None
    return (
        f"the script joins a group of {size} processes, so that {size} were started, not the {workers} of "
        f"--workers: give --workers {size}, or let the script read WORLD_SIZE"
    )


def hint_for_usage(script: Script, text: str) -> str | None:
    """The same for a script that ends since it does not like its arguments; ``text``: what argparse
    says of them."""
    _, required, names = text.partition("arguments are required: ")
    missing = names.split(", ")
    if has_ranks(script) or not required or not any(map(_RANK_OPTION.fullmatch, missing)):
        return None
    return f"each rank needs arguments of its own: {suggested(script, script.workers, missing)}"


def suggested(script: Script, size: int | None, missing: Sequence[str] = ()) -> str:
    """A command line that gives each rank arguments of its own, if the script has such arguments.
    ``missing``: options that it asks for."""
    size = size or 2
    words = list(script.args)
    found = _fill(words, _RANK_OPTION, RANK)
    _fill(words, _SIZE_OPTION, WORKERS, str(size))
    for option in missing:
        if _RANK_OPTION.fullmatch(option):
            words += [option, RANK]
        elif _SIZE_OPTION.fullmatch(option):
            words += [option, WORKERS]
    option_in_text = _RANK_IN_TEXT.search(script.text)
    if not (found or missing) and option_in_text is not None:
        words += [option_in_text[1], RANK]
    elif not found and words[:2] == ["0", str(size)]:
        words[:2] = [RANK, WORKERS]
    command = ["squall", "run", "--workers", str(size), _shown(script.path)]
    return " ".join([*command, *(w if w in (RANK, WORKERS) else shlex.quote(w) for w in words)])


def _fill(words: list[str], option: re.Pattern[str], value: str, only: str | None = None) -> bool:
    """Put ``value`` where an option of this kind has a number, or ``only``; whether there is one."""
    found = False
    for at, word in enumerate(words):
        name, equals, given = word.partition("=")
        if not (name.startswith("-") and option.fullmatch(name)):
            continue
        if equals and _is(given, only):
            words[at], found = f"{name}={value}", True
        elif at + 1 < len(words) and _is(words[at + 1], only):
            words[at + 1], found = value, True
    return found


def _is(word: str, only: str | None) -> bool:
    return word.isdigit() if only is None else word == only


def _shown(path: str) -> str:
    near = os.path.relpath(path)
    return shlex.quote(path if near.startswith(os.pardir) else str(Path(near)))
