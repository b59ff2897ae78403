"""A run as a list of events, and its digest."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from squall.model.events.digest import Record, digest_of
from squall.real.tracing import MESSAGE_SENT, EventType, Observer, Tracer
from squall.sim.world.watch import WatchedRecords, current

if TYPE_CHECKING:
    from squall.real.worker import Worker
    from squall.sim.world.scheduler import SimRuntime


class Event(NamedTuple):
    """One fact: when (seconds of virtual time), on which worker, in which task, what."""

    number: int
    time_s: float
    worker: int
    task: int
    type: EventType
    values: tuple[Any, ...]

    @property
    def fields(self) -> dict[str, Any]:
        return dict(zip(self.type.fields, self.values, strict=True))

    def __getitem__(self, key: Any) -> Any:
        """``event["src"]`` is the value of that name."""
        if isinstance(key, str):
            try:
                return self.values[self.type.fields.index(key)]
            except ValueError:
                known = ", ".join(self.type.fields)
                raise KeyError(f"{self.type.name} has no field {key!r}; it has {known}") from None
        return tuple.__getitem__(self, key)

    def __str__(self) -> str:
        said = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"#{self.number} t={self.time_s:.6f} w{self.worker} {self.type.name} {said}"


class Trace:
    """Collects events. Events before a worker has its id carry worker -1."""

    def __init__(self, *, observer: Observer | None = None) -> None:
        watcher = current()
        self.records: list[Record] = [] if watcher is None else WatchedRecords(watcher)
        self.observer = observer
        self.runtime: SimRuntime | None = None
        self._writers: list[TraceWriter] = []

    def tracer(self, runtime: SimRuntime, worker: Worker | None = None) -> TraceWriter:
        """The tracer of one worker, or of what belongs to none."""
        writer = TraceWriter(self, runtime, worker)
        self._writers.append(writer)
        return writer

    def close(self) -> None:
        """Take no more events. What a run leaves behind refers to its tracers in circles, and would
        keep all events until somebody looks for garbage."""
        while self._writers:
            self._writers.pop().close()

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Event]:
        for number, record in enumerate(self.records):
            yield Event(number, *record)

    def of(self, *types: EventType) -> list[Event]:
        """The events of these types, in order."""
        return [
            Event(number, *record)
            for number, record in enumerate(self.records)
            if record[3] in types
        ]

    def message_counts(self) -> dict[str, int]:
        """Messages sent, by type, the most frequent first."""
        index = MESSAGE_SENT.fields.index("type")
        counts = Counter(r[4][index] for r in self.records if r[3] is MESSAGE_SENT)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def digest(self) -> str:
        """32 hex digits over every event and its virtual time: equal runs, equal digests."""
        return digest_of(self.records)


class _NOBODY:
    id = -1


class TraceWriter(Tracer):
    """Writes one worker's events into a trace."""

    enabled = True

    def __init__(self, trace: Trace, runtime: SimRuntime, worker: Worker | None) -> None:
        self.observer = trace.observer
        self.trace = trace
        append = trace.records.append
        env, owner = runtime.env, worker or _NOBODY
        #: objects that have to be gone in the end
        self._made: list[weakref.ref[Any]] = []
        keep, ref = self._made.append, weakref.ref

        def made(thing: object) -> None:
            keep(ref(thing))

        # A closure: a hundred events go into one training step of two workers.
        def emit(type: EventType, *values: object) -> None:
            append((env.now, owner.id, runtime.running.id, type, values))

        self.emit = emit  # type: ignore[method-assign]
        self.made = made  # type: ignore[method-assign]

    def alive(self) -> list[Any]:
        """The objects that were shown and are still there."""
        self._made[:] = [ref for ref in self._made if ref() is not None]
        return [thing for ref in self._made if (thing := ref()) is not None]

    def close(self) -> None:
        """Write nothing more."""
        self.enabled = False
        self._made.clear()
        del self.emit, self.made
        self.trace = Trace()
