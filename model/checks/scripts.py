"""What a run of a script must come to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from squall.model.events.fault_effects import NATURES, InGroups
from squall.model.events.run import EXITED, Property, Run, Violation, named
from squall.real.tracing import FAULT_INJECTED

#: types of what a call, a join or a wait raises when a fault has hit it
OF_FAULTS = frozenset(
    [
        "BrokenPipeError",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "DistBackendError",
        "DistError",
        "DistNetworkError",
        "DistStoreError",
        "OSError",
        "RemoteException",
        "RuntimeError",
        "TimeoutError",
    ]
)
#: what the text of an error begins with that a fault raises inside a worker
INJECTED = "injected: "
#: what is said of what took longer than its limit
LATE = re.compile("Timed out waiting|wait timeout after|Connection timed out")
_RAISED = "a process raised "
_OWNER_LEFT, _CONTEXT_LEFT = "an owner was left", "a context was left"


@named("script", work="scripts", whole=True)
def SCRIPT(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A script comes to its end: no process raises or ends with another exit code than 0, nobody
    waits for ever, the collectives of its process groups go together, every gradient is that of one
    process, and no RRef and no autograd context is left after a graceful shutdown, unless a fault was
    injected: a script does not wait for what is sent again.
    """
    if run.crash is not None:
        yield Violation("progress", "the run broke off", "an end", run.crash)
    for outcome, texts in run.process_groups.found.items():
        for text in texts:
            yield Violation("script", outcome, "process groups in which all goes together", text)
    for error in run.errors:
        what = f"{_RAISED}{error.type}" if error.type != EXITED else "a process failed"
        expected = "an end without an error" if error.type != EXITED else "exit code 0"
        yield Violation("script", what, expected, f"{error.worker}: {error.message}")
    if run.processes.failed and not run.errors:
        yield Violation("script", "a process failed", "exit code 0", str(run.processes.exit_codes))
    if run.waits:
        yield Violation("progress", "the script hangs", "an end", run.why()[0])
    for mismatch in run.gradients.mismatches if run.gradients is not None else ():
        yield Violation("gradients", "a gradient", "that of one process", mismatch)
    if run.disturbed:
        return
    if run.rpc_groups.leaked_rrefs:
        yield Violation("rrefs", _OWNER_LEFT, "0", str(run.rpc_groups.leaked_rrefs))
    if run.rpc_groups.leaked_contexts:
        yield Violation("contexts", _CONTEXT_LEFT, "0", str(run.rpc_groups.leaked_contexts))


RANK = 110
PROPERTIES: tuple[Property, ...] = (SCRIPT,)


def of_a_fault(type: str, message: str) -> bool:
    """Whether a fault may have caused an error of that type and text. An assertion that failed in a function
    on another worker is one all the same, though it arrives as a RuntimeError."""
    if "AssertionError: On WorkerInfo(" in message:
        return False
    return type in OF_FAULTS or INJECTED in message


def raised(violation: Violation) -> str:
    """The type of the error of which a violation says that a process has raised it; "" if it does not."""
    rest = violation.what.removeprefix(_RAISED)
    return "" if rest == violation.what else rest


def left_behind(violation: Violation) -> bool:
    """Whether it counts what is left of the whole script."""
    return violation.worker is None and violation.what in (_OWNER_LEFT, _CONTEXT_LEFT)


def counted(run: Run, violations: Iterable[Violation]) -> Iterator[Violation]:
    """Those that count in a search: where a fault was injected, no error that it may have caused."""
    kinds, found = _kinds(run) if run.disturbed else set(), list(violations)
    # Who is late ends, and others see that.
    late = any(LATE.search(each.seen) for each in found)
    harmful = kinds - _of_groups("ends" if late else "late")
    for each in found:
        is_error = bool(raised(each)) and of_a_fault(raised(each), each.seen)
        if not (harmful and (is_error or each.what == "a process failed")):
            yield each


def _kinds(run: Run) -> set[str]:
    """Kinds of faults that happened. Of process groups alone without those that lose messages: their connections send
    again what was lost, until they end."""
    injected = [run.records[n][4] for n in run.of(FAULT_INJECTED)]
    kinds = {"silent crash" if detail == "silent" else kind for kind, *_, detail in injected}
    if run.rpc_groups.joined:
        return kinds | {"of calls"}
    if not run.process_groups.operations:
        return kinds | {"before any operation"}
    return kinds - _of_groups("nothing")


def _of_groups(noticed: InGroups) -> set[str]:
    """The kinds of which members of process groups notice that."""
    return {kind for kind, nature in NATURES.items() if nature.in_groups == noticed}
