"""A run told in words: a sentence for each event, or a log with a column for each worker.

for line in narrate(trace.records): print(line)

t=0.031200 w2 -> w0 RREF_FORK_REQUEST rref=(0,1) fork=(2,5) dropped: lost
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from squall.model.events.digest import Record
from squall.model.events.names import Names, kinds_of, made_by
from squall.real.tracing import MESSAGE_DELIVERED, MESSAGE_DROPPED, MESSAGE_SENT

# Okabe and Ito: told apart with any eyes.
_WORKER_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#0072b2")
_MOST_SHOWN = 100
_TEXT_SHOWN = 200

_IDS = frozenset({"context", "message"})
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
#: of these, the worker that an event with none of its own is shown at: a field's place
_PLACE = {"message_sent": 1, "message_dropped": 2, "message_delivered": 2}


class Narrator:
    """Puts the events of one run into words, one after the other."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._names = Names(records, {})
        #: what each message is about, by its number
        self._about: dict[int, str] = {}

    def text(self, record: Record) -> str:
        """What happened, without time and worker."""
        type, values = record[3], record[4]
        if type is MESSAGE_SENT:
            number, src, dst, name, id, size, about = values
            function = self._names.function_of(name, src, dst, id)
            ids = self._about[number] = f" of {function}" * bool(function) + _about(name, about)
            return f"w{src} -> w{dst} {name} id={id}{ids} sent, {size} bytes"
        if type is MESSAGE_DELIVERED:
            number, src, dst, name, id, latency_s = values
            ids = self._about.pop(number, "")
            return f"w{src} -> w{dst} {name} id={id}{ids} delivered after {latency_s:.6f} s"
        if type is MESSAGE_DROPPED:
            number, src, dst, name, id, reason = values
            return f"w{src} -> w{dst} {name} id={id}{self._about.get(number, '')} dropped: {reason}"
        if type.name == "dependencies_computed":
            context, nodes, _ = values
            return f"dependencies_computed context={_id(context)} of {len(nodes)} nodes"
        said = (
            f"{field}={_shown(field, v)}" for field, v in zip(type.fields, values, strict=False)
        )
        return " ".join((type.name, *said))

    def worker(self, record: Record) -> int:
        """The worker whose event it is; -1 for none."""
        name = record[3].name
        if record[1] < 0 and name in _PLACE:
            return int(record[4][_PLACE[name]])
        return record[1]


def narrate(records: Sequence[Record], *, first: int = 0, last: int | None = None) -> Iterator[str]:
    """A line for each event from number ``first`` to the one before ``last``."""
    narrator = Narrator(records)
    for number, record in enumerate(records[:last]):
        text = narrator.text(record)
        if number >= first:
            worker = narrator.worker(record)
            who = "" if text.startswith("w") and record[3].name in _PLACE else f"{_name(worker)} "
            yield f"t={record[0]:.6f} {who}{text}"


def sentence(records: Sequence[Record], number: int) -> str:
    """The line of one event."""
    return next(narrate(records, first=number, last=number + 1))


def column_log(records: Sequence[Record], workers: int) -> Iterator[Text]:
    """A line for each event, with a column for each of ``workers`` workers: its mark is in the
    column of the worker where it happened (see :data:`MARKS`). The first line names the columns."""
    narrator = Narrator(records)
    width = len(str(max(len(records) - 1, 0)))
    columns = Text()
    for worker in range(workers):
        columns.append(f" {worker % 100:>2}", style=_colour(worker))
    yield Text.assemble(f"{'#':>{width + 1}} {'t':>11} ", columns)
    for number, record in enumerate(records):
        worker = narrator.worker(record)
        text = narrator.text(record)
        mark = MARKS.get(record[3].name, ".")
        line = Text(f"#{number:<{width}} {record[0]:>11.6f} ", style="")
        before = "   " * worker if 0 <= worker < workers else ""
        after = "   " * (workers - worker - 1) if 0 <= worker < workers else "   " * workers
        style = _colour(worker)
        line.append(before)
        if 0 <= worker < workers:
            line.append(f"  {mark}", style=f"bold {style}")
        line.append(after)
        line.append(f"  {text}", style="red" if record[3] is MESSAGE_DROPPED else style)
        yield line


def legend() -> Iterator[str]:
    """What the marks of :func:`column_log` say, and how its lines are read: two marks a line."""
    yield "Each line is an event: its number, virtual time in seconds, a column for each worker, and words."
    yield "The mark is in the column of the worker where it happened:"
    every = [f"{mark}  {said}" for mark, said in (*LEGEND.values(), (".", "anything else"))]
    half = (len(every) + 1) // 2
    width = max(map(len, every[:half]))
    for left, right in zip(every[:half], [*every[half:], ""], strict=False):
        yield f"  {left:<{width}}    {right}".rstrip()
    yield "rref=(0,3), fork=(2,10): number 3 that worker 0 gave, number 10 that worker 2 gave."
    yield "context=2.0, message=2.0: number 0 that worker 2 made. id: of a call, counted by its caller."


def _colour(worker: int) -> str:
    return _WORKER_COLOURS[worker % len(_WORKER_COLOURS)] if worker >= 0 else "dim"


def _name(worker: int) -> str:
    return f"w{worker}" if worker >= 0 else "--"


def _about(type: str, about: tuple[Any, ...]) -> str:
    return "".join(
        f" {kind}={_shown(kind, value)}" if kind else f" {_plain(value)}"
        for kind, value in kinds_of(type, about)
    )


def _shown(name: str, value: Any) -> str:
    return _id(value) if name in _IDS else _plain(value)


def _id(value: Any) -> str:
    """An id of a context or an autograd message: who made it, and its counter there."""
    if not isinstance(value, int) or value < 0:
        return str(value)
    maker, before = made_by(value)
    return f"{maker}.{before}"


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, tuple):
        inside = ",".join(_plain(each) for each in value)
        return f"({inside[:_MOST_SHOWN]}{'...' if len(inside) > _MOST_SHOWN else ''})"
    if isinstance(value, str):
        line = value.partition("\n")[0]
        return line if len(line) <= _TEXT_SHOWN else f"{line[:_TEXT_SHOWN]}..."
    return str(value)
