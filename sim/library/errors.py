"""Errors of ranks, for whoever called ``squall.run``: where they were raised, and which count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from squall.model.checks.scripts import left_behind, of_a_fault
from squall.model.events.kept import unended
from squall.model.events.names import in_words, worker_named
from squall.model.events.run import WRONG_GROUPS, ProcessError, Run, Violation
from squall.sim.scripts.compat.guard import NotSimulatedError
from squall.sim.scripts.raised_error import RankError

#: where somebody waits who leaves a group, by the end of a line of ``Run.waits``
_LEAVING = re.compile(r"\(in (?:[\w.]*\.)?shutdown\)$")
#: where a process waits for those that it has started, whose own waits are told beside it
_FOR_CHILDREN = re.compile(
    r"\(in (?:[\w.]*\.)?(?:spawn|start_processes|Process\.join|ProcessContext\.join|Popen\.wait)\)$"
)
#: properties whose violations say what stands elsewhere in a run
TOLD_ELSEWHERE = ("script", "progress", "gradients")
#: events that are named of violations that are alike
_EVENTS_MOST = 6


E = TypeVar("E", ProcessError, RankError)


def not_simulated(errors: Iterable[E]) -> E | None:
    """That among them which says that the engine does not simulate what a script asks for."""
    return next((each for each in errors if each.type == NotSimulatedError.__name__), None)


def leaked(run: Run) -> list[str]:
    """Of what is left behind, and makes the run fail, the lines that made it, and on which worker."""
    failing = ("contexts",) if run.rpc_groups.leaked_contexts else ()
    return unended(each for each in run.processes.kept if each.what in failing)


def together(violations: Iterable[Violation], names: Mapping[int, str]) -> list[str]:
    """A line for those that say the same of one worker: how many there are, and their events; of one alone what was
    expected."""
    alike: dict[tuple[str, str, int | None], list[Violation]] = {}
    for each in violations:
        alike.setdefault((each.property, each.what, each.worker), []).append(each)
    lines = []
    for (property, what, worker), every in alike.items():
        where = "" if worker is None else f" on {worker_named(names, worker)}"
        told = f", {len(every):,} times"
        if len(every) == 1:
            told = f": expected {every[0].expected}, seen {every[0].seen}"
        events = [f"#{number}" for each in every for number in each.events]
        more = [f"and {len(events) - _EVENTS_MOST} more"] if len(events) > _EVENTS_MOST else []
        cited = f" (events {' '.join([*events[:_EVENTS_MOST], *more])})" if events else ""
        lines.append(f"{property}: {in_words(what + where + told, names)}{cited}")
    return lines


def problems(run: Run, errors: list[RankError], *, strict: bool) -> list[str]:
    """What is wrong with a run, a line each, the most telling first.

    Unless ``strict``, an error that a fault may have caused is none: under faults a call may fail. A
    failed assertion counts in any case, and so does a wrong gradient, or a rank that waits for
    ever, unless all that are left do so in a graceful ``rpc.shutdown`` without a time limit, as they
    would with PyTorch. The properties of the protocols do not then: of ranks that leave their group early, because
    a fault has kept the others, they do not know.
    """
    excused = run.disturbed and not strict
    counted = [each for each in errors if not (excused and of_a_fault(each.type, each.message))]
    found = [str(error) for error in counted]
    stall = run.process_groups.stall
    if stall is not None and (counted or run.outcome == stall.outcome):
        found += [f"why an operation of a process group failed: {line}" for line in stall.lines[:3]]
    if run.crash is not None:
        found.append(run.crash)
    if not errors:
        codes = run.processes.exit_codes
        found += [f"{name} ended with exit code {codes[name]}" for name in run.processes.failed]
    for outcome, lines in run.process_groups.found.items():
        found.append(f"{WRONG_GROUPS[outcome]}: {'; '.join(lines[:3])}")
    waits = [each for each in run.waits if not _FOR_CHILDREN.search(each)] or run.waits
    if run.waits and not (excused and all(map(_LEAVING.search, waits))):
        cause, *others = run.why()
        found += [f"ranks still wait: {cause}", *(f"  {line}" for line in others)]
    if run.gradients is not None and run.gradients.equal is False:
        found.append("gradients differ from those of a single process")
        found += [f"  {in_words(line, run.names)}" for line in run.gradients.mismatches[:5]]
    left = run.rpc_groups
    is_leak = left.leaks and not run.disturbed and not errors
    if is_leak:
        found += leaked(run)
        found.append(f"left behind: {left.leaked_rrefs} RRefs, {left.leaked_contexts} contexts")
    if not excused:
        besides = [each for each in run.violations if each.property not in TOLD_ELSEWHERE]
        found += together(
            (each for each in besides if not (is_leak and left_behind(each))), run.names
        )
    if run.broken_off:
        found.append(f"the run was {run.broken_off}")
    return found
