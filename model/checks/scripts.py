"""What a run of a script must come to."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.events.run import Property, Run, Violation, named


@named("script", work="scripts", whole=True)
def SCRIPT(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A script comes to its end: no process raises or ends with another exit code than 0, nobody
    waits for ever, the collectives of its process groups go together, every gradient is that of one
    process, and no RRef and no autograd context is left after a graceful shutdown, unless a fault was
    injected: a script does not wait for what is sent again.
    """
    if run.crash is not None:
        yield Violation("progress", "the run broke off", "an end", run.crash)
    for outcome, texts in run.found.items():
        for text in texts:
            yield Violation("script", outcome, "process groups in which all goes together", text)
    for error in run.errors:
        yield Violation(
            "script", f"a process raised {error.type}", "none", f"{error.worker}: {error.message}"
        )
    if run.failed_processes and not run.errors:
        yield Violation("script", "a process failed", "exit code 0", str(run.exit_codes))
    if run.waits:
        yield Violation("progress", "the script hangs", "an end", run.why()[0])
    for mismatch in run.gradients.mismatches if run.gradients is not None else ():
        yield Violation("gradients", "a gradient", "that of one process", mismatch)
    if run.disturbed:
        return
    if run.leaked_rrefs:
        yield Violation("rrefs", "an owner was left", "0", str(run.leaked_rrefs))
    if run.leaked_contexts:
        yield Violation("contexts", "a context was left", "0", str(run.leaked_contexts))


RANK = 110
PROPERTIES: tuple[Property, ...] = (SCRIPT,)
