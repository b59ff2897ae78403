"""What must hold for every run: the named properties.

:data:`PROPERTIES` are all of them, in the order of how directly they tell what broke: a wrong
count comes before the wrong gradient that it causes. :func:`check` asks all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.model.checks import (
    calls,
    compiled,
    faults,
    futures,
    joint,
    outcome,
    passes,
    progress,
    rrefs,
    scripts,
    threads,
)
from squall.model.checks.calls import CALLS
from squall.model.checks.faults import ERRORS, RECOVERY, TIMEOUTS
from squall.model.checks.futures import FUTURES
from squall.model.checks.joint import JOINT_GRAPH
from squall.model.checks.outcome import DETERMINISM, GRADIENTS, RETRY
from squall.model.checks.passes import DEPENDENCIES, EXECUTION
from squall.model.checks.progress import PROGRESS
from squall.model.checks.rrefs import CONTEXTS, RREFS
from squall.model.checks.threads import RECORDING, THREADS
from squall.model.events.run import Property, Run, Violation

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
    *passes.PROPERTIES,
    *joint.PROPERTIES,
    *rrefs.PROPERTIES,
    *threads.PROPERTIES,
    *futures.PROPERTIES,
    *calls.PROPERTIES,
    *outcome.PROPERTIES,
    *progress.PROPERTIES,
    *faults.PROPERTIES,
    *compiled.PROPERTIES,
    *scripts.PROPERTIES,
)


def check(run: Run, properties: Sequence[Property] = PROPERTIES) -> list[Violation]:
    """Everything that does not hold in a run, of what can be judged of it; nothing, if all is
    well."""
    return [
        violation
        for property in properties
        if property.judges(run)
        for violation in property.check(run)
    ]


def named_property(name: str, engine: str = "port") -> Property:
    """The property of that name on an engine. Raises KeyError, which says what names there are."""
    for property in PROPERTIES:
        if property.name == name and engine in property.engines:
            return property
    known = ", ".join(property.name for property in PROPERTIES if engine in property.engines)
    raise KeyError(f"there is no property {name!r}, expected one of {known}")
