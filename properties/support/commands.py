"""How tests run the command and ordinary scripts: as processes of their own.

The command is run by a copy of a process that has imported all of squall (:mod:`.command_server`), unless it
depends on how an interpreter starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from squall.properties.support.command_server import Commands, counts_at_the_start
from squall.properties.support.paths import ROOT
from squall.sim.cli.starting import NEVER, PROGRESS

TIMEOUT_S = 480


def squall(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``squall`` with these words from the root of the repository."""
    environment = _environment(os.environ, env)
    server = _server()
    if counts_at_the_start(environment) != server.started_with:
        return python("-m", "squall", *words, **env)
    return server.run(["squall", *words], environment, TIMEOUT_S)


def typed(words: Sequence[str], folder: Path, **env: str) -> tuple[int, str]:
    """The exit code of ``squall``, ``pytest`` or ``python FILE`` in a folder, and all that a terminal would show."""
    outside = {name: value for name, value in os.environ.items() if "SQUALL" not in name}
    done = _server().run(words, _environment(outside, env), TIMEOUT_S, folder, together=True)
    return done.returncode, done.stdout


@cache
def _server() -> Commands:
    return Commands(_environment(os.environ, {}))


def stock(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script on stock PyTorch, with real processes."""
    return _run(words, whole_lines(), env)


def python(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these words from the root of the repository."""
    return _run(words, os.environ, env)


def whole_lines() -> dict[str, str]:
    """The environment of a script whose processes print to one pipe: ``print(..., flush=True)`` is
    one write. With ``PYTHONUNBUFFERED`` each word is, and lines of two processes may mix."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def _run(
    words: Sequence[str], ours: Mapping[str, str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=_environment(ours, env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def _environment(ours: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    return {**ours, "OMP_NUM_THREADS": "1", "COLUMNS": "100", PROGRESS: NEVER, **env}
