"""What an exported script prints, compared with what its program comes to in one process."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

import torch
from torch import Tensor

from squall.model.one_process.flow import forecast
from squall.model.one_process.outcome import Outcome
from squall.model.program.compare import TOLERANCES, Tolerance, compare, to_dense
from squall.model.program.program import Program

_PASS = re.compile(r"trainer (\d+), step (\d+)(, again)?, pass (\d+), (worker\d+), ([^:]+): (.*)")
_FAILED = re.compile(r"trainer (\d+), step (\d+)(, again)?, pass (\d+), error: (.*)")
_ERROR = re.compile(r"trainer (\d+), step (\d+)(, again)?, error: (.*)")
_END = re.compile(r"(worker\d+), at the end, leaf(\d+): (.*)")
_TENSOR = re.compile(r"(\w+) (\[[\d, ]*\]) (\[.*\])")


class Printed(NamedTuple):
    """Gradients by (trainer, step, attempt, pass, worker, leaf), errors of passes by (trainer,
    step, attempt, pass), errors of steps by (trainer, step, attempt), and leaves by number."""

    gradients: dict[tuple[int, int, int, int, str, str], Tensor]
    failed: dict[tuple[int, int, int, int], str]
    errors: dict[tuple[int, int, int], str]
    leaves: dict[int, Tensor]


def read_printed(text: str) -> Printed:
    """What a script has printed. Lines that are not its results are left out."""
    printed = Printed({}, {}, {}, {})
    for line in text.splitlines():
        if match := _PASS.fullmatch(line):
            trainer, step, again, number, worker, leaf, tensor = match.groups()
            key = (int(trainer), int(step), 1 if again else 0, int(number), worker, leaf)
            assert key not in printed.gradients, line
            printed.gradients[key] = _tensor(tensor)
        elif match := _FAILED.fullmatch(line):
            trainer, step, again, number, error = match.groups()
            printed.failed[int(trainer), int(step), 1 if again else 0, int(number)] = error
        elif match := _ERROR.fullmatch(line):
            trainer, step, again, error = match.groups()
            printed.errors[int(trainer), int(step), 1 if again else 0] = error
        elif match := _END.fullmatch(line):
            printed.leaves[int(match[2])] = _tensor(match[3])
    return printed


def _tensor(text: str) -> Tensor:
    match = _TENSOR.fullmatch(text)
    assert match is not None, text
    numbers = eval(match[3], {"nan": float("nan"), "inf": float("inf"), "nanj": 1j * float("nan")})
    shape = ast.literal_eval(match[2])
    return torch.tensor(numbers, dtype=getattr(torch, match[1])).reshape(shape)


def differences(
    program: Program, expected: Outcome, printed: Printed, tolerance: Tolerance
) -> list[str]:
    """What an exported script printed otherwise than the program comes to in one process.

    What a pass that failed unexpectedly, by a time limit, has left is not known: of that step the
    passes before it are compared. Passes that begin one beside the other are not compared.
    """
    found: list[str] = []
    waiting = set()
    for (trainer, number), outcome in expected.steps.items():
        where = f"trainer {trainer}, step {number}"
        if trainer in waiting or forecast(program, trainer, number).unfed:
            waiting.add(trainer)
            continue
        attempt = 1 if outcome.first_error is not None else 0
        for at, error in ((0, outcome.first_error or outcome.error), (1, outcome.error)):
            if (error is None) != ((trainer, number, at) not in printed.errors) and at <= attempt:
                found.append(
                    f"{where}: error {printed.errors.get((trainer, number, at))}, expected {error}"
                )
        if outcome.error is not None:
            continue
        backwards = program.trainers[trainer].steps[number].backwards
        if any(backward.every_s is not None for backward in backwards):
            continue
        for at in outcome.failed:
            if (trainer, number, attempt, at) not in printed.failed:
                found.append(f"{where}, pass {at}: no error, expected {outcome.failed[at]}")
        numbers = range(sum(backward.times for backward in backwards))
        succeeded = [at for at in numbers if at not in outcome.failed]
        for at, gradients in zip(succeeded, outcome.passes, strict=True):
            if (trainer, number, attempt, at) in printed.failed:
                break
            got = {
                (key[4], key[5]): value
                for key, value in printed.gradients.items()
                if key[:4] == (trainer, number, attempt, at)
            }
            want = {
                (f"worker{program.leaves[leaf].owner}", f"leaf{leaf}"): value
                for leaf, value in gradients.items()
            }
            for key in sorted({**got, **want}):
                complaint = _differs(got.get(key), want.get(key), tolerance)
                if complaint:
                    found.append(f"{where}, pass {at}, {key}: {complaint}")
    if not waiting:
        for leaf, value in enumerate(expected.leaves):
            if leaf not in printed.leaves:
                found.append(f"leaf{leaf} at the end: missing")
                continue
            complaint = compare(printed.leaves[leaf], value, tolerance=tolerance).complaint
            if complaint:
                found.append(f"leaf{leaf} at the end: {complaint}")
    return found


def _differs(got: Tensor | None, want: Tensor | None, tolerance: Tolerance) -> str | None:
    if got is not None and want is not None:
        return compare(got, to_dense(want), tolerance=tolerance).complaint
    only = got if got is not None else want
    assert only is not None
    if not bool(to_dense(only).any()):
        return None
    return "is missing" if got is None else "is there"


__all__ = ["TOLERANCES", "Printed", "differences", "read_printed"]
