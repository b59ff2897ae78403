"""A run told in words: a sentence for each event, or a log with a column for each worker.

for line in narrate(run): print(line)

t=0.031200 worker0 message dropped: registration of a reference, worker2 → worker0, message 7, call 3, lost
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from squall.model.events.run import Run
from squall.real.tracing import MESSAGE_DROPPED
from squall.sim.pictures.labels import line, what
from squall.sim.pictures.recording import Recording

# Okabe and Ito: told apart with any eyes.
_WORKER_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#0072b2")
#: in the log: what a worker's column shows for an event, and what that says; for others it is a dot
LEGEND = {
    "message_delivered": ("<", "a message arrived"),
    "message_sent": (">", "a message was sent"),
    "message_dropped": ("x", "a message was lost"),
    "handler_started": ("(", "a message is handled"),
    "handler_ended": (")", "it has been handled"),
    "udf_started": ("f", "a user function began"),
    "udf_ended": ("e", "a user function ended"),
    "call_started": ("?", "a call was made"),
    "call_ended": ("!", "a call ended: a reply, an error or a timeout"),
    "call_retried": ("r", "a call was tried again"),
    "user_created": ("u", "a fork of an RRef was made: a handle on it"),
    "user_deleted": ("U", "a fork of an RRef was deleted"),
    "owner_created": ("o", "an RRef was made at its owner"),
    "owner_deleted": ("O", "an RRef was deleted at its owner"),
    "fork_added": ("k", "the owner knows of a fork"),
    "fork_deleted": ("K", "the owner has let a fork go"),
    "context_created": ("c", "an autograd context was made"),
    "context_released": ("C", "an autograd context was released"),
    "pass_started": ("{", "a backward pass began on this worker"),
    "pass_ended": ("}", "it ended on this worker"),
    "node_executed": ("n", "a node of autograd ran"),
    "gradient_accumulated": ("g", "a gradient was added in its context"),
    "gradients_sent": ("-", "gradients left for another worker"),
    "gradients_received": ("+", "gradients came from another worker"),
}
MARKS = {name: mark for name, (mark, _) in LEGEND.items()}


def narrate(run: Run | Recording, *, first: int = 0, last: int | None = None) -> Iterator[str]:
    """A line for each event from number ``first`` to the one before ``last``."""
    recorded = _recorded(run)
    for number in range(len(recorded))[first:last]:
        yield line(recorded, number)


def column_log(run: Run | Recording, workers: int) -> Iterator[Text]:
    """A line for each event, with a column for each of ``workers`` workers: its mark is in the
    column of the worker where it happened (see :data:`MARKS`). The first line names the columns."""
    recorded = _recorded(run)
    width = len(str(recorded.last))
    columns = Text()
    for worker in range(workers):
        columns.append(f" {worker % 100:>2}", style=_colour(worker))
    yield Text.assemble(f"{'#':>{width + 1}} {'t':>11} ", columns)
    for number, record in enumerate(recorded.records):
        worker = int(recorded.workers_of[number])
        inside, style = 0 <= worker < workers, _colour(worker)
        told = Text(f"#{number:<{width}} {record[0]:>11.6f} ", style="")
        told.append("   " * (worker if inside else workers))
        if inside:
            told.append(f"  {MARKS.get(record[3].name, '.')}", style=f"bold {style}")
            told.append("   " * (workers - worker - 1))
        told.append(
            f"  {what(recorded, number)}", style="red" if record[3] is MESSAGE_DROPPED else style
        )
        yield told


def _recorded(run: Run | Recording) -> Recording:
    return run if isinstance(run, Recording) else Recording(run.records, names=run.names)


def legend() -> Iterator[str]:
    """What the marks of :func:`column_log` say, and how its lines are read: two marks a line."""
    yield "Each line is an event: its number, virtual time in seconds, a column for each worker, and words."
    yield "The mark is in the column of the worker where it happened:"
    every = [f"{mark}  {said}" for mark, said in (*LEGEND.values(), (".", "anything else"))]
    half = (len(every) + 1) // 2
    width = max(map(len, every[:half]))
    for left, right in zip(every[:half], [*every[half:], ""], strict=False):
        yield f"  {left:<{width}}    {right}".rstrip()
    yield "RRef 3 of worker0: number 3 that worker0 gave. message: by its number in the run."
    yield "call 2: counted by its caller. 1st context of worker2: the first that worker2 began."


def _colour(worker: int) -> str:
    return _WORKER_COLOURS[worker % len(_WORKER_COLOURS)] if worker >= 0 else "dim"
