"""The ranks of a script: what each runs, and what it finds in its environment.

One command line may be that of all ranks, or each has its own; either engine starts the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.sim.scenario import CommandLine, Script

#: what stands for a process's own rank, and for the number of ranks
RANK = "{rank}"
NUMBERS = ("{workers}", "{world_size}")
PLACEHOLDERS = (RANK, *NUMBERS)
MASTER_ADDR = "localhost"
MASTER_PORT = "29500"
#: of the variables, those that a process does not hand on to others that it starts
_OWN = ("RANK", "LOCAL_RANK", "ROLE_RANK")
#: and one that processes have which an agent of torchrun starts
BY_AN_AGENT = "TORCHELASTIC_RUN_ID"


def lines_of(script: Script) -> tuple[CommandLine, ...]:
    """All command lines that were given; one, if that is all ranks'."""
    return (script, *script.others)


def placeholder_in(lines: Sequence[CommandLine], known: Sequence[str] = PLACEHOLDERS) -> str | None:
    """The first of these placeholders that a command line has."""
    words = [w for line in lines for w in (*line.args, *(value for _, value in line.environ))]
    return next((each for each in known for word in words if each in word), None)


def has_ranks(script: Script) -> bool:
    """Whether each rank is a process from the start. If not, the first process alone is started, and
    the others when it joins a group without having started any itself."""
    return bool(script.others) or placeholder_in([script], (RANK,)) is not None


def command_line(script: Script, rank: int) -> CommandLine:
    """What ``rank`` runs, placeholders replaced."""
    line: CommandLine = script
    if rank and script.others:
        line = script.others[rank - 1]
    if placeholder_in([line]) is None:
        return line
    values = {RANK: str(rank), **dict.fromkeys(NUMBERS, str(script.workers))}
    return replace(
        line,
        args=tuple(_filled(word, values) for word in line.args),
        environ=tuple((name, _filled(value, values)) for name, value in line.environ),
    )


def _filled(word: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


def own_variables(environ: Mapping[str, str], workers: int | None) -> dict[str, str]:
    """Of the environment of a process of a rank, what was set for this process alone."""
    return {} if workers is None else {name: environ[name] for name in _OWN}


def inherited(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What a process finds that another one starts: not ``own``, what the launcher has set for that one
    alone."""
    return {name: value for name, value in environ.items() if own.get(name) != value}


def agent_keeps_store(environ: Mapping[str, str], host: str, port: int) -> bool:
    """Whether the agent that has started a process has a ``TCPStore`` there, for which no rank has to be the master."""
    started = BY_AN_AGENT in environ and "RANK" in environ
    return started and (host, str(port)) == (environ.get("MASTER_ADDR"), environ.get("MASTER_PORT"))


def environment(
    outside: Mapping[str, str], rank: int, workers: int | None, line: CommandLine
) -> dict[str, str]:
    """The environment of the process of a rank: what is ``outside``, what ``torchrun`` sets for the
    ranks of one machine, and what the command line sets.

    Without a number of workers nobody says how many ranks there are, and the script is left alone,
    as ``python script.py`` leaves it.
    """
    environ = dict(outside)
    if workers is not None:
        environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "ROLE_RANK": str(rank),
            "WORLD_SIZE": str(workers),
            "LOCAL_WORLD_SIZE": str(workers),
            "ROLE_WORLD_SIZE": str(workers),
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "ROLE_NAME": "default",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            BY_AN_AGENT: "squall",
        }
        environ.setdefault("MASTER_ADDR", MASTER_ADDR)
        environ.setdefault("MASTER_PORT", MASTER_PORT)
    environ.update(line.environ)
    return environ
