"""What a user typed, checked: every mistake becomes one line that says what would be right."""

from __future__ import annotations

import os
import shlex
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path

from squall.sim.scenario import DEVICES, ENGINE_NAMES, MAX_SEED, MAX_WORKERS, Device, EngineName
from squall.sim.world.latency import DEFAULT_LATENCY

#: in an argument of the script: what each rank finds there is its own
PLACEHOLDERS = ("{rank}", "{world_size}")
#: characters of a value that a message quotes; a path may be that long
_LONGEST = 200


class BadInput(Exception):  # noqa: N818 - it is the user's input that is bad
    """One thing a user gave is wrong; ``str()`` is the line to show, without a full stop."""

    def __init__(self, field: str, value: str, problem: str) -> None:
        if len(value) > _LONGEST:
            problem = problem.replace(value, f"{value[: _LONGEST - 3]}...")
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.value = value


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What ``squall run`` was asked for, checked. ``workers`` None leaves it to the script."""

    script: Path
    args: tuple[str, ...]
    workers: int | None
    seed: int
    latency: str
    device: Device
    engine: EngineName
    check: bool
    #: a profile or the file of a plan, as it was given; None: no faults
    faults: str | None = None

    def command(self) -> str:
        """The command line that repeats this run, for a shell."""
        words = ["squall", "run", str(self.script)]
        if self.workers is not None:
            words += ["--workers", str(self.workers)]
        words += ["--seed", str(self.seed)]
        if self.latency != DEFAULT_LATENCY:
            words += ["--latency", self.latency]
        if self.faults is not None:
            words += ["--faults", self.faults]
        if self.device != "cpu":
            words += ["--device", self.device]
        if self.engine != "port":
            words += ["--engine", self.engine]
        if not self.check:
            words.append("--no-check")
        if self.args:
            words += ["--", *self.args]
        return shlex.join(words)


def read_run_options(
    *,
    script: str,
    args: tuple[str, ...],
    workers: str | None,
    seed: str,
    latency: str,
    device: str,
    engine: str,
    check: bool,
    faults: str | None = None,
) -> RunOptions:
    """Raises :class:`BadInput` for the first thing that is wrong."""
    placeholder = next((name for name in PLACEHOLDERS for word in args if name in word), None)
    if workers is None and placeholder is not None:
        problem = f"expected their number, since {placeholder} in the script's arguments needs it"
        raise BadInput("--workers", "", problem)
    return RunOptions(
        script=_script(script),
        args=args,
        workers=None if workers is None else integer("--workers", workers, 1, MAX_WORKERS),
        seed=integer("--seed", seed, 0, MAX_SEED),
        latency=_latency(latency),
        engine=engine_name(engine),
        device=device_name(device),
        check=check,
        faults=faults,
    )


def integer(field: str, text: str, least: int, most: int) -> int:
    """Raises :class:`BadInput` unless ``text`` is an integer within these limits."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        limits = f"from {least} to {most}"
        raise BadInput(field, text, f"expected an integer {limits}, got {text!r}")
    return value


def file_to_write(field: str, text: str) -> str:
    """Raises :class:`BadInput` unless a file can be written there, as far as can be seen."""
    path = Path(text)
    if not text or path.is_dir():
        said = f"{text!r} is a directory" if text else "got ''"
        raise BadInput(field, text, f"expected a file to write to, {said}")
    if not path.parent.is_dir():
        raise BadInput(field, text, f"cannot write {text!r}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(field, text, f"cannot write {text!r}: {path.parent} is read-only")
    return text


def one_of(field: str, text: str, known: tuple[str, ...]) -> None:
    """Raises :class:`BadInput` unless ``text`` is one of ``known``."""
    if text not in known:
        raise BadInput(field, text, f"expected {' or '.join(known)}, got {text!r}")


def _latency(text: str) -> str:
    from squall.sim.world.latency import parse_latency

    try:
        parse_latency(text)
    except ValueError as error:
        raise BadInput("--latency", text, str(error)) from None
    return text


def engine_name(text: str) -> EngineName:
    """Raises :class:`BadInput` unless there is such an engine."""
    one_of("--engine", text, ENGINE_NAMES)
    return "torch" if text == "torch" else "port"


def device_name(text: str) -> Device:
    """Raises :class:`BadInput` unless there is such a device here."""
    one_of("--device", text, DEVICES)
    if text == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise BadInput(
                "--device", text, "PyTorch finds no CUDA device on this machine, expected cpu"
            )
    return "cuda" if text == "cuda" else "cpu"


def _script(text: str) -> Path:
    field = "SCRIPT"
    if text.startswith("-"):
        problem = f"no such option {text!r}, expected the path of a Python script here"
        raise BadInput(field, text, f"{problem} (its own options come after it)")
    path = Path(text)
    if path.is_dir():
        raise BadInput(field, text, f"{text!r} is a directory, expected a Python script")
    if not path.exists():
        raise BadInput(field, text, f"there is no file {text!r}, expected a Python script")
    try:
        with tokenize.open(path) as file:
            source = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, text, "exec", dont_inherit=True)
    except OSError as error:
        raise BadInput(field, text, f"cannot read {text!r}: {error.strerror}") from None
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise BadInput(field, text, f"{text!r} is no Python script{where}: {error.msg}") from None
    except ValueError as error:
        raise BadInput(field, text, f"{text!r} is no Python script: {error}") from None
    return path
