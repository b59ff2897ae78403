"""Where a check gives up: every reason for that, in one place, each with a sentence.

    if faults.hit(n) and explained(error) and excused(run, FAULT):
        continue

``squall properties --excuses`` lists them, with how often a campaign used each. A check that leaves
something out because something failed names its excuse; a test reads the checks and says where one
does not (properties/model/checks/test_excuses.py). What may be left of RRefs and contexts after
faults has reasons of its own, in model/checks/rref_allowances.py.
"""

from __future__ import annotations

from typing import Literal

from squall.model.checks.rref_allowances import EXCEPTIONS, Excuse
from squall.model.events.run import Run

NO_END = Excuse(
    "no end",
    "the run, or the step, does not come to an end, so that nobody can say what it comes to; "
    "property progress says whether it may",
)
FAULT = Excuse(
    "fault",
    "a planned fault reached the run here, and the error names it; or what is counted is of a call "
    "that a fault touched",
)
ENDED_PROCESS = Excuse(
    "ended process",
    "the process was ended by a planned fault, or is shutting down: its tables and its tasks went "
    "with it",
)
OWN_TIME = Excuse(
    "own time",
    "a planned fault slows the worker or its clock, so that no duration there tells anything",
)
INDEFINITE = Excuse(
    "indefinite",
    "a planned fault ended the call that would have told: it may have happened or not, and both "
    "values are right",
)
LOCAL_ACCUMULATION = Excuse(
    "local accumulation",
    "PyTorch's engine gives, to the bit, what plain local use gives where two leaves share one "
    "gradient, which is not mathematics (pytorch/pytorch#34082)",
)

TOO_LATE = Excuse(
    "too late",
    "nobody waits for the answer to a request any more: its caller gave it up, or its backward "
    "pass or its context is over, as the error says",
)
TOLERANCE = Excuse(
    "tolerance",
    "a program of mode float rounds, and sums in another order on workers than in one process: "
    "numbers may differ by a fraction of the largest one, which depends on the least precise "
    "dtype of the program (1e-9 for float64, 1e-5 for float32, 1e-2 for float16, 2e-2 for "
    "bfloat16); programs of mode exact are compared bit for bit",
)
ZEROS = Excuse(
    "zeros for no gradient",
    "a leaf has zeros on one side and no gradient on the other: what reaches one tensor of a "
    "message reaches the others of it as zeros",
)
HOOKS = Excuse(
    "hooks",
    "a pass that fails may have called any of its hooks before, and in mode float the sum of what "
    "they saw depends on their order",
)

EXCUSES: tuple[Excuse, ...] = (
    NO_END,
    FAULT,
    ENDED_PROCESS,
    OWN_TIME,
    INDEFINITE,
    LOCAL_ACCUMULATION,
    TOO_LATE,
    TOLERANCE,
    ZEROS,
    HOOKS,
    *EXCEPTIONS,
)


def excused(run: Run, excuse: Excuse) -> Literal[True]:
    """True, and counted in the run."""
    run.judged.excused[excuse.name] += 1
    return True
