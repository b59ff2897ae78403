"""The digest of a run: equal runs, equal digests, in any process and on any day."""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from squall.real.tracing import EventType

#: time in seconds, worker, task, type, values; the event's number is its place in the list
Record = tuple[float, int, int, EventType, tuple[Any, ...]]

#: marshal's last format without references, whose presence depends on object identity
_FORMAT = 2


def digest_of(records: Sequence[Record]) -> str:
    """The digest of a run with these events."""
    hash = blake2b(digest_size=16)
    for start in range(0, len(records), 1024):
        batch = [(t, w, k, e.name, v) for t, w, k, e, v in records[start : start + 1024]]
        try:
            hash.update(marshal.dumps(batch, _FORMAT))
        except ValueError:
            hash.update(marshal.dumps(_plain(batch), _FORMAT))
    return hash.hexdigest()


def _plain(value: Any) -> Any:
    """The value with subclasses of plain types (enums, named tuples) made plain."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, tuple | list):
        return tuple(_plain(v) for v in value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return bytes(value)
    return repr(value)
