"""A command line that starts Python: what it runs, with which arguments.

read([sys.executable, "-u", "worker.py", "--rank", "1"])  ->  worker.py with ("--rank", "1")

Imports no torch.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["script", "code", "module"]

_PYTHON = re.compile(r"python[\d.]*")
#: programs that start Python in a way of their own
_STARTERS = re.compile(r"torchrun|pytest|ipython[\d.]*|mpirun|mpiexec|accelerate|deepspeed")
#: programs that start the one that they are given
_WRAPPERS = re.compile(
    r"env|nice|nohup|time|timeout|taskset|numactl|setsid|stdbuf|ionice|sudo|(ba|da|z|k)?sh"
)
#: of the options of Python, letters that have a value, and those that only tell something
_VALUED, _TELLING = "WX", "hV?"
#: characters with which a line of a shell is more than one command with words
_SHELL = re.compile(r"[|&;<>()$`*?\[\]~#\n]")
#: where these stand for themselves
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\$`]|\\.)*"|\\.""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True)
class PythonCommand:
    """What is run: the file, the text or the name of the module; the words after it; and what a shell
    would put into the environment first."""

    kind: Kind
    what: str
    args: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()


class CannotRun(RuntimeError):  # noqa: N818 - says what cannot be done
    """A command would start Python in a form that is not run in the simulation."""

    def __init__(self, called: str, why: str) -> None:
        super().__init__(
            f"{called} would start Python outside of the simulation: {why}; start a script with "
            "[sys.executable, 'worker.py', ...], or each rank with a command line of its own (squall run "
            "a.py : b.py), or use multiprocessing"
        )


def read(
    command: Any, *, shell: bool = False, executable: Any = None, called: str = "subprocess.Popen"
) -> PythonCommand | None:
    """What a command, as ``subprocess`` takes it, has Python run; None if it starts no Python, or one
    that only tells its version. Raises :class:`CannotRun` for other ways to start it."""
    words, is_line = _words(command, shell)
    environ: list[tuple[str, str]] = []
    if is_line:
        while words and _ASSIGNMENT.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            environ.append((name, value))
    if not words:
        return None
    program = words[0] if executable is None or shell else os.fsdecode(executable)
    if is_line and _SHELL.search(_QUOTED.sub("", os.fsdecode(_only(command)))):
        if any(map(_is_python, _parts(words))):
            raise CannotRun(called, "its line is more than one command with words")
        return None
    if _STARTERS.fullmatch(os.path.basename(program)):
        raise CannotRun(called, f"{os.path.basename(program)} is not simulated")
    if _WRAPPERS.fullmatch(os.path.basename(program)):
        if any(map(_is_python, _parts(words[1:]))):
            raise CannotRun(called, f"by way of {os.path.basename(program)}")
        return None
    if _has_python_line(program):
        return PythonCommand("script", program, tuple(words[1:]), tuple(environ))
    if not _is_python(program):
        return None
    return _of_python(words[1:], tuple(environ), called)


def _of_python(
    words: list[str], environ: tuple[tuple[str, str], ...], called: str
) -> PythonCommand | None:
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "-":
            break
        if not word.startswith("-"):
            return PythonCommand("script", word, tuple(words), environ)
        if word.startswith("--"):
            if word in ("--version", "--help") or word.startswith("--help-"):
                return None
            if word == "--check-hash-based-pycs":
                words[:1] = []
            continue
        for at, letter in enumerate(word[1:], start=2):
            if letter in _TELLING:
                return None
            if letter in _VALUED or letter in "cm":
                value = word[at:] or (words.pop(0) if words else "")
                if letter in "cm":
                    kind: Kind = "code" if letter == "c" else "module"
                    return _of_kind(kind, value, tuple(words), environ, called)
                break
    raise CannotRun(called, "no script is named, and what comes by standard input is not run")


def _of_kind(
    kind: Kind,
    value: str,
    args: tuple[str, ...],
    environ: tuple[tuple[str, str], ...],
    called: str,
) -> PythonCommand:
    if kind == "module" and value.partition(".")[0] in ("torch", "pytest", "pip", "IPython"):
        raise CannotRun(called, f"the module {value} is not simulated")
    return PythonCommand(kind, value, args, environ)


def _only(command: Any) -> Any:
    if isinstance(command, str | bytes | os.PathLike):
        return command
    return command[0] if command else ""


def _words(command: Any, shell: bool) -> tuple[list[str], bool]:
    """The words of a command, and whether it is a line of a shell."""
    if isinstance(command, str | bytes | os.PathLike) or shell:
        text = os.fsdecode(_only(command))
        if not shell:
            return [text], False
        try:
            return shlex.split(text), True
        except ValueError:
            return text.split(), True
    if isinstance(command, Sequence):
        return [os.fsdecode(word) for word in command], False
    return [], False


def _parts(words: list[str]) -> list[str]:
    """The words, and those of words that are lines themselves (``bash -c "..."``)."""
    return [part for word in words for part in re.split(r"[\s|&;<>()`]+", word)]


def _is_python(word: str) -> bool:
    name = os.path.basename(word)
    return word == sys.executable or bool(_PYTHON.fullmatch(name) or _STARTERS.fullmatch(name))


def _has_python_line(program: str) -> bool:
    """Whether a file is a script that says itself that Python runs it (``#!``)."""
    if os.sep not in program:
        return False
    try:
        with open(program, "rb") as file:
            first = file.readline(200).decode("utf-8", "replace")
    except OSError:
        return False
    return first.startswith("#!") and any(map(_is_python, first[2:].split()))
