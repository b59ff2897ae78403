"""A run told in words: a sentence for each event, or a log with a column for each worker.

for line in narrate(trace.records): print(line)

t=0.031200 w2 -> w0 RREF_FORK_REQUEST rref=(0,1) fork=(2,5) dropped: lost
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from squall.model.events.digest import Record
from squall.real.tracing import MESSAGE_DELIVERED, MESSAGE_DROPPED, MESSAGE_SENT

_COUNTER_BITS = 48
# Okabe and Ito: told apart with any eyes.
_WORKER_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#0072b2")
_MOST_SHOWN = 100
_TEXT_SHOWN = 200

_RREF_FORK = ("rref", "fork")
#: what the ids in a message are, by its type; FORWARD_* name the wrapped message as well
_ABOUT = {
    "PYTHON_REMOTE_CALL": _RREF_FORK,
    "SCRIPT_REMOTE_CALL": _RREF_FORK,
    "REMOTE_RET": _RREF_FORK,
    "RREF_USER_DELETE": _RREF_FORK,
    "RREF_FORK_REQUEST": _RREF_FORK,
    "RREF_CHILD_ACCEPT": ("fork",),
    "PYTHON_RREF_FETCH_CALL": ("rref",),
    "SCRIPT_RREF_FETCH_CALL": ("rref",),
    "FORWARD_AUTOGRAD_REQ": ("context", "message", "of"),
    "FORWARD_AUTOGRAD_RESP": ("context", "message", "of"),
    "BACKWARD_AUTOGRAD_REQ": ("context", "message"),
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": ("context",),
    "RREF_BACKWARD_REQ": ("context", "rref"),
    "RUN_WITH_PROFILING_REQ": ("profiling",),
    "RUN_WITH_PROFILING_RESP": ("profiling",),
    "EXCEPTION": ("text",),
}
_IDS = frozenset({"context", "message"})
#: in the log: what a worker's column shows for an event; for others it is a dot
MARKS = {
    "message_delivered": "<",
    "message_sent": ">",
    "message_dropped": "x",
    "handler_started": "(",
    "handler_ended": ")",
    "udf_started": "f",
    "udf_ended": "e",
    "call_started": "?",
    "call_ended": "!",
    "call_retried": "r",
    "user_created": "u",
    "user_deleted": "U",
    "owner_created": "o",
    "owner_deleted": "O",
    "fork_added": "k",
    "fork_deleted": "K",
    "context_created": "c",
    "context_released": "C",
    "pass_started": "{",
    "pass_ended": "}",
    "node_executed": "n",
    "gradient_accumulated": "g",
    "gradients_sent": "-",
    "gradients_received": "+",
}
#: of these, the worker that an event with none of its own is shown at: a field's place
_PLACE = {"message_sent": 1, "message_dropped": 2, "message_delivered": 2}


class Narrator:
    """Puts the events of one run into words, one after the other."""

    def __init__(self) -> None:
        #: what each message is about, by its number
        self._about: dict[int, str] = {}

    def text(self, record: Record) -> str:
        """What happened, without time and worker."""
        type, values = record[3], record[4]
        if type is MESSAGE_SENT:
            number, src, dst, name, id, size, about = values
            ids = self._about[number] = _about(name, about)
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
    narrator = Narrator()
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
    narrator = Narrator()
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


def _colour(worker: int) -> str:
    return _WORKER_COLOURS[worker % len(_WORKER_COLOURS)] if worker >= 0 else "dim"


def _name(worker: int) -> str:
    return f"w{worker}" if worker >= 0 else "--"


def _about(type: str, about: tuple[Any, ...]) -> str:
    names = _ABOUT.get(type, ())
    return "".join(
        f" {names[at]}={_shown(names[at], value)}" if at < len(names) else f" {_plain(value)}"
        for at, value in enumerate(about)
    )


def _shown(name: str, value: Any) -> str:
    return _id(value) if name in _IDS else _plain(value)


def _id(value: Any) -> str:
    """An id of a context or an autograd message: who made it, and its counter there."""
    if not isinstance(value, int) or value < 0:
        return str(value)
    return f"{value >> _COUNTER_BITS}.{value & ((1 << _COUNTER_BITS) - 1)}"


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
