"""What says that the engine itself is broken, whoever hears of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from squall.model.events.run import TORCH_ONLY, Property, Run, Violation, named
from squall.real import tracing

#: how PyTorch words the failure of an assertion of its own (c10/util/Exception.h)
INTERNAL = re.compile(r"INTERNAL ASSERT FAILED|please report a bug to PyTorch")


@named("internal errors", work="scripts", whole=True)
def INTERNAL_ERRORS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """No error of a script says that an assertion inside the engine failed: none that a process
    raises, none that is the answer to a request, none that ends a backward pass, whether or not the
    script handles it.
    """
    seen: dict[str, None] = {}
    records = run.records
    texts: list[tuple[int | None, float | None, str | None]] = [
        (records[n][1], records[n][0], records[n][4][-1]) for n in run.of(tracing.HANDLER_ENDED)
    ]
    texts += [(records[n][1], records[n][0], records[n][4][1]) for n in run.of(tracing.PASS_ENDED)]
    texts += [(worker, None, text) for worker, text in run.processes.caught]
    texts += [(error.rank, None, error.message) for error in run.errors]
    for worker, time_s, text in texts:
        if text is None or not INTERNAL.search(text):
            continue
        line = next(line for line in text.splitlines() if INTERNAL.search(line)).strip()
        kind = re.sub(r"\d+", "N", line)
        if kind not in seen:
            seen[kind] = None
            what = "an assertion inside the engine failed"
            yield Violation("internal errors", what, "none", line, worker, time_s)


@named("internal errors of threads", engines=TORCH_ONLY, work="scripts", whole=True)
def OF_THREADS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """No thread of the compiled engine ends its work with an exception, of which nobody hears but
    who reads standard error.
    """
    for worker, line in dict.fromkeys(run.processes.complaints):
        what = "an exception in a thread of the engine"
        yield Violation("internal errors of threads", what, "none", line, worker)


RANK = 102
PROPERTIES: tuple[Property, ...] = (INTERNAL_ERRORS, OF_THREADS)
