"""The events of a run as a pandas frame, one row an event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas

from squall.model.events.digest import Record
from squall.real.tracing import EventType

#: columns that every event has; the rest are its own fields, under their names
COLUMNS = ("time_s", "worker", "task", "event")
#: fields whose names would say something else here
_RENAMED = {"type": "message_type", "number": "number", "worker": "of_worker", "task": "of_task"}


def events_frame(records: Sequence[Record]) -> pandas.DataFrame:
    """One row an event, indexed by its number.

    ``time_s`` is in seconds of virtual time, ``worker`` -1 for what belongs to none, ``event`` the
    name of the type. Each field of any event that occurred is a column under its own name (the
    type of a message is ``message_type``), missing where an event has no such field. Ids that
    are pairs and longer values are JSON text, so that every column can be written to a file.
    """
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    fields: dict[str, list[tuple[int, Any]]] = {}
    for number, (time_s, worker, task, type, values) in enumerate(records):
        columns["time_s"].append(time_s)
        columns["worker"].append(worker)
        columns["task"].append(task)
        columns["event"].append(type.name)
        for name, value in zip(type.fields, values, strict=True):
            fields.setdefault(_RENAMED.get(name, name), []).append((number, _plain(value)))
    frame = pandas.DataFrame(columns)
    frame["event"] = frame["event"].astype("category")
    series = {
        name: pandas.Series(
            _one_kind([value for _, value in found]), index=[number for number, _ in found]
        )
        .convert_dtypes()
        .reindex(frame.index)
        for name, found in fields.items()
    }
    frame = pandas.concat([frame, pandas.DataFrame(series, index=frame.index)], axis=1)
    frame.index.name = "number_of_event"
    return frame


def events_of(records: Sequence[Record], kind: str) -> pandas.DataFrame:
    """The rows of one kind of event, with no columns but those that it has. Raises ValueError for an unknown kind."""
    type = EventType.registry.get(kind)
    if type is None:
        near = get_close_matches(kind, EventType.registry, n=1)
        meant = f"did you mean {near[0]!r}?" if near else "expected the name of an event"
        raise ValueError(f"kind is {kind!r}: {meant}")
    numbers = [number for number, record in enumerate(records) if record[3] is type]
    frame = events_frame([records[number] for number in numbers])
    frame.index = pandas.Index(numbers, name=frame.index.name)
    fields = [_RENAMED.get(name, name) for name in type.fields]
    return frame.reindex(columns=[*COLUMNS[:-1], *fields])


def write_parquet(frame: pandas.DataFrame, path: Path) -> None:
    """Raises OSError."""
    frame.to_parquet(path)


def write_csv(frame: pandas.DataFrame, path: Path) -> None:
    """Raises OSError."""
    frame.to_csv(path)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return json.dumps(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def _one_kind(values: list[Any]) -> Any:
    """The values, as text where they are of several kinds: a column has one."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pandas.array(values, dtype="string")
    if len(kinds) <= 1 or kinds == {int, float}:
        return values
    return [None if value is None else str(value) for value in values]
