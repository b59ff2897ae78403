"""Moments: the nth event of a name, after which something is to happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from squall.model.events.names import event_named, ordinal, type_named, worker_named
from squall.model.program.strict_json import MadeError
from squall.model.program.validated import Checked, check_fields
from squall.real import tracing
from squall.sim.faults.limits import STRICT, Count, EventName, MessageTypeName, Rank

#: stands for the rank of a worker where the network reports something
NETWORK = -1
#: the position of the rank in what the network reports of a message
_OF_MESSAGES = {
    tracing.MESSAGE_SENT: tracing.MESSAGE_SENT.fields.index("src"),
    tracing.MESSAGE_DROPPED: tracing.MESSAGE_DROPPED.fields.index("src"),
    tracing.MESSAGE_DELIVERED: tracing.MESSAGE_DELIVERED.fields.index("dst"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment(Checked):
    """The ``nth`` event (from 1) called ``event`` (see real/tracing.py) on ``worker``, or on any.
    ``type``: only events about a message of that type, or about a call or a handler of one.

    Of a message, ``message_delivered`` is on its destination, ``message_sent`` and
    ``message_dropped`` on its source. What is to happen then does as soon as the task that
    reported the event waits for something.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    event: EventName
    worker: Rank | None = None
    nth: Count = 1
    type: MessageTypeName | None = None

    def told(self, names: Mapping[int, str]) -> str:
        """The moment, in words. ``names``: of workers."""
        about = "" if self.type is None else f" ({type_named(self.type)})"
        where = "" if self.worker is None else f" on {worker_named(names, self.worker)}"
        return f"the {ordinal(self.nth)} '{event_named(self.event)}'{about}{where}"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.type is not None and "type" not in tracing.EventType.registry[self.event].fields:
            raise MadeError(f"Moment.type: {self.event} is about no message")


class _Awaited:
    """A moment that has not come yet."""

    def __init__(self, moment: Moment, act: Callable[[], object]) -> None:
        self.moment = moment
        self.act = act
        self.left = moment.nth

    def sees(self, event: tracing.EventType, rank: object, values: tuple[object, ...]) -> bool:
        """Whether this event is the one."""
        moment = self.moment
        if moment.event != event.name or moment.worker not in (None, rank):
            return False
        if moment.type is not None and values[event.fields.index("type")] != moment.type:
            return False
        self.left -= 1
        return self.left == 0


class Moments:
    """The moments that are awaited in one run."""

    def __init__(self) -> None:
        self._awaited: list[_Awaited] = []

    def at(self, moment: Moment, act: Callable[[], object]) -> None:
        """Call ``act`` when that moment comes, counted from now."""
        self._awaited.append(_Awaited(moment, act))

    def clear(self) -> None:
        """Await none any more."""
        self._awaited.clear()

    def watch(self, rank: int, tracer: tracing.Tracer) -> None:
        """See every event of a tracer as it is reported. ``rank``: of its worker, or NETWORK.

        Raises ValueError if the tracer keeps none.
        """
        if not tracer.enabled:
            raise ValueError("a fault plan with a moment needs a trace")
        emit = tracer.emit

        def seen(type: tracing.EventType, *values: object) -> None:
            emit(type, *values)
            if not self._awaited:
                return
            of: object = rank
            if rank == NETWORK and type in _OF_MESSAGES:
                of = values[_OF_MESSAGES[type]]
            for awaited in [each for each in self._awaited if each.sees(type, of, values)]:
                self._awaited.remove(awaited)
                awaited.act()

        tracer.emit = seen  # type: ignore[method-assign]
