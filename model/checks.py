"""What must hold for every run: the named properties.

:data:`PROPERTIES` are all of them, in the order of how directly they tell what broke: a wrong
count comes before the wrong gradient that it causes. :func:`check` asks all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from model import (
    check_calls,
    check_faults,
    check_futures,
    check_joint,
    check_outcome,
    check_passes,
    check_progress,
    check_rrefs,
    check_threads,
)
from model.check_calls import CALLS
from model.check_faults import ERRORS, RECOVERY, TIMEOUTS
from model.check_futures import FUTURES
from model.check_joint import JOINT_GRAPH
from model.check_outcome import DETERMINISM, GRADIENTS, RETRY
from model.check_passes import DEPENDENCIES, EXECUTION
from model.check_progress import PROGRESS
from model.check_rrefs import CONTEXTS, RREFS
from model.check_threads import RECORDING, THREADS
from model.run import Property, Run, Violation

__all__ = [
    "CALLS",
    "CONTEXTS",
    "DEPENDENCIES",
    "DETERMINISM",
    "ERRORS",
    "EXECUTION",
    "FUTURES",
    "GRADIENTS",
    "JOINT_GRAPH",
    "PROGRESS",
    "PROPERTIES",
    "RECORDING",
    "RECOVERY",
    "RETRY",
    "RREFS",
    "THREADS",
    "TIMEOUTS",
    "Property",
    "Run",
    "Violation",
    "check",
    "named_property",
]

PROPERTIES: tuple[Property, ...] = (
    *check_passes.PROPERTIES,
    *check_joint.PROPERTIES,
    *check_rrefs.PROPERTIES,
    *check_threads.PROPERTIES,
    *check_futures.PROPERTIES,
    *check_calls.PROPERTIES,
    *check_outcome.PROPERTIES,
    *check_progress.PROPERTIES,
    *check_faults.PROPERTIES,
)


def check(run: Run, properties: Sequence[Property] = PROPERTIES) -> list[Violation]:
    """Everything that does not hold in a run; nothing, if all is well."""
    return [violation for property in properties for violation in property.check(run)]


def named_property(name: str) -> Property:
    """The property of that name. Raises KeyError, which says what names there are."""
    for property in PROPERTIES:
        if property.name == name:
            return property
    known = ", ".join(property.name for property in PROPERTIES)
    raise KeyError(f"there is no property {name!r}, expected one of {known}")
