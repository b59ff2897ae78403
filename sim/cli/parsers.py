"""From the text of an option to its value, or :class:`BadInput`; typer calls these.

Each takes the text, or the option's default as it is declared. Those that serve several options
are made for one: ``integer("--seed", 0, MAX_SEED)``.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tokenize
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from squall.sim.cli.bad_input import BadInput, NoSuchOption
from squall.sim.names import (
    DEVICES,
    ENGINE_NAMES,
    MAX_SEED,
    NOT_ON_TORCH,
    Device,
    EngineName,
    runs_on,
)

T = TypeVar("T")


def integer(field: str, least: int, most: int) -> Callable[[str], int]:
    """An integer within these limits."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            limits = f"from {least} to {most}"
            raise BadInput(field, text, f"expected an integer {limits}, got {text!r}")
        return value

    return parse


def positive(field: str, most: float) -> Callable[[str], float]:
    """A number above zero."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value <= most:
            raise BadInput(field, text, f"expected a positive number, got {text!r}")
        return value

    return parse


def size_bytes(field: str) -> Callable[[str], int]:
    """An amount of memory, in bytes."""

    def parse(text: str) -> int:
        found = re.fullmatch(r"([0-9]{1,6})([MG])", text)
        if found is None:
            problem = f"expected megabytes or gigabytes as in 500M or 2G, got {text!r}"
            raise BadInput(field, text, problem)
        return int(found[1]) << (20 if found[2] == "M" else 30)

    return parse


def package(field: str) -> Callable[[str], str]:
    """A package that can be imported, by its name."""

    def parse(text: str) -> str:
        if not text.isidentifier():
            raise BadInput(field, text, f"expected a package as it is imported, got {text!r}")
        if find_spec(text) is None:
            raise BadInput(field, text, f"expected an installed package, there is no {text!r}")
        return text

    return parse


def seconds(field: str, most: float) -> Callable[[str], float]:
    """A number of seconds, 0 among them."""

    def parse(text: str) -> float:
        return 0.0 if text in ("0", "0.0") else positive(field, most)(text)

    return parse


def one_of(field: str, known: tuple[T, ...]) -> Callable[[str], T]:
    """One of these words."""

    def parse(text: str) -> T:
        for each in known:
            if each == text:
                return each
        raise BadInput(field, text, f"expected {' or '.join(map(str, known))}, got {text!r}")

    return parse


engine: Callable[[str], EngineName] = one_of("--engine", ENGINE_NAMES)
_device: Callable[[str], Device] = one_of("--device", DEVICES)


def device(text: str) -> Device:
    """A device that this machine has."""
    found = _device(text)
    if found == "cuda":
        import torch

        if not torch.cuda.is_available():
            problem = "PyTorch finds no CUDA device on this machine, expected cpu"
            raise BadInput("--device", text, problem)
    return found


def device_of(engine: EngineName, device: Device) -> None:
    """Raises :class:`BadInput` for a device on which the engine cannot have tensors."""
    if not runs_on(engine, device):
        raise BadInput("--device", device, NOT_ON_TORCH.format(device))


def latency(text: str) -> str:
    """The name of a model of latency, as :func:`squall.sim.world.latency.parse_latency` has it."""
    from squall.sim.world.latency import parse_latency

    try:
        parse_latency(text)
    except ValueError as error:
        raise BadInput("--latency", text, str(error)) from None
    return text


def compute(text: str) -> str:
    """What operators take, as :func:`squall.sim.world.compute.parse_compute` has it, given so, in a JSON file, or
    ``measured``."""
    from squall.sim.world.compute import MEASURED, parse_compute, read_compute

    try:
        if text.endswith(".json"):
            text = read_compute(Path(text))
        durations = {} if text == MEASURED else parse_compute(text)
    except ValueError as error:
        raise BadInput("--compute", text, f"{error}, or {MEASURED}") from None
    if text != MEASURED and not durations:
        raise BadInput(
            "--compute", text, f"expected durations such as linear=1ms,20us, or {MEASURED}"
        )
    return text


def link(text: str) -> str:
    """What links cost, as :func:`squall.sim.world.links.parse_links` has it."""
    from squall.sim.world.links import parse_links

    try:
        if ";" in text or not text.strip():
            raise ValueError("expected one link or all of them, and --link once for each")
        parse_links(text)
    except ValueError as error:
        raise BadInput("--link", text, str(error)) from None
    return text


def algorithm(text: str) -> str:
    """What algorithms collectives take, as :func:`squall.sim.world.algorithms.parse_algorithms` has it."""
    from squall.sim.world.algorithms import parse_algorithms

    try:
        if not parse_algorithms(text):
            raise ValueError("expected COLLECTIVE=ALGORITHM, such as all_reduce=tree")
    except ValueError as error:
        raise BadInput("--algorithm", text, str(error)) from None
    return text


def seeds(text: str) -> range:
    """The seeds of ``A:B``, B not among them; ``B`` is ``0:B``."""
    problem = f"expected two integers A:B with 0 <= A < B <= {MAX_SEED}, or B, got {text!r}"
    try:
        first, last = (int(part) for part in (text if ":" in text else f"0:{text}").split(":"))
    except ValueError:
        raise BadInput("--seeds", text, problem) from None
    if not 0 <= first < last <= MAX_SEED:
        raise BadInput("--seeds", text, problem)
    return range(first, last)


@dataclass(frozen=True)
class Share:
    """``some`` of ``all``, at least one."""

    some: int
    all: int

    def __str__(self) -> str:
        return f"{self.some}:{self.all}"


def share(field: str) -> Callable[[str], Share]:
    """``K:N``, K of N."""

    def parse(text: str) -> Share:
        problem = f"expected two integers K:N with 1 <= K <= N <= {MAX_SEED}, got {text!r}"
        try:
            found = Share(*(int(part) for part in text.split(":")))
        except (ValueError, TypeError):
            raise BadInput(field, text, problem) from None
        if not 1 <= found.some <= found.all <= MAX_SEED:
            raise BadInput(field, text, problem)
        return found

    return parse


@dataclass(frozen=True)
class Amount:
    """So many executions, or real seconds."""

    executions: int | None = None
    seconds: float | None = None


def amount(field: str, most: int) -> Callable[[str | Amount], Amount]:
    """``N`` executions or ``Ss``, S seconds."""

    def parse(text: str | Amount) -> Amount:
        if isinstance(text, Amount):
            return text
        try:
            found = Amount(seconds=float(text[:-1])) if text[-1:] == "s" else Amount(int(text))
        except ValueError:
            found = Amount()
        if not 0 < (found.executions or found.seconds or 0) <= most:
            problem = f"expected a number of executions or seconds (60s), got {text!r}"
            raise BadInput(field, text, problem)
        return found

    return parse


def mutant(field: str) -> Callable[[str], str]:
    """The name of a bug that can be planted."""

    def parse(text: str) -> str:
        from squall.sim.search.mutants.registry import ALL_MUTANTS, LISTED

        if text not in ALL_MUTANTS:
            near = difflib.get_close_matches(text, ALL_MUTANTS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; {LISTED}"
            raise BadInput(field, text, f"there is no mutant {text!r}{hint}")
        return text

    return parse


def file_to_write(field: str) -> Callable[[str], Path]:
    """A file that can be written, as far as can be seen before there is something to write."""

    def parse(text: str) -> Path:
        path = Path(text)
        if not text:
            raise BadInput(field, text, "got '', expected a file to write")
        if path.is_dir():
            raise BadInput(field, text, f"{text!r} is a directory, expected a file to write")
        if not path.parent.is_dir():
            folder = str(path.parent)
            raise BadInput(field, text, f"there is no directory {folder!r} to write into")
        if not os.access(path.parent, os.W_OK):
            raise BadInput(field, text, f"cannot write {text!r}: {path.parent} is read-only")
        return path

    return parse


def folder(field: str) -> Callable[[str], Path]:
    """A directory that is there."""

    def parse(text: str) -> Path:
        if not (text and Path(text).is_dir()):
            raise BadInput(field, text, f"there is no directory {text!r}")
        return Path(text)

    return parse


def script_or_ranks(text: str) -> Path:
    """A file that Python can compile, or one that says what each rank runs."""
    return Path(text) if text.endswith(".toml") and Path(text).is_file() else script(text)


def no_option(text: str) -> str:
    """What is no option: commands that pass options on to a script find them where it is expected."""
    if re.match(r"-\D", text):  # not a number below zero
        raise NoSuchOption(text)
    return text


def script(text: str) -> Path:
    """A file that Python can compile."""
    field = "SCRIPT"
    path = Path(no_option(text))
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


def folder_to_make(field: str) -> Callable[[str], Path]:
    """A folder that is new or empty, in one that there is."""

    def parse(text: str) -> Path:
        path = Path(text)
        if not text or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
            raise BadInput(field, text, f"expected a folder that is new or empty, got {text!r}")
        if not path.absolute().parent.is_dir():
            folder = str(path.parent)
            raise BadInput(field, text, f"there is no directory {folder!r} to write into")
        return path

    return parse


def store_of_campaign(field: str) -> Callable[[str], str]:
    """A file that can be written, or the address of a database; no password of it is told."""

    def parse(text: str) -> str:
        if "://" not in text:
            return str(file_to_write(field)(text))
        from squall.sim.campaigns.address import Address

        try:
            Address.read(text)
        except ValueError as error:
            raise BadInput(field, "", str(error)) from None
        return text

    return parse
