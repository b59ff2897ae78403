"""A place whose workers are started by a clean process beside the driver, and that process.

The driver, with its store, ends in order whatever a library does to the process that uses it.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from squall.sim.campaigns.host import HostEndedError, HostProcess, connection
from squall.sim.campaigns.place import Done, Event, Heard, Place, PlaceError
from squall.sim.campaigns.plan import Lease

MODULE = "squall.sim.campaigns.hosted"
#: real seconds for which leases that are judged wait for others, to be told of together
_GATHER_S = 0.2


class Start(NamedTuple):
    worker: str
    lease: Lease


class Stop(NamedTuple):
    worker: str


class Question(NamedTuple):
    """What :func:`answer` answers. ``enough``: leases that are told of at once, also if others may
    soon be judged."""

    commands: tuple[Start | Stop, ...]
    timeout_s: float
    enough: int = 1


class Hosted:
    """The place (:class:`.place.Place`) that ``make`` makes, in a process of its own.

    ``make`` travels there: a function of a module, or a partial of one.
    """

    def __init__(self, make: Callable[[], Place]) -> None:
        self._make = make
        self._host: HostProcess | None = None
        self._commands: list[Start | Stop] = []

    def start(self, worker: str, lease: Lease) -> None:
        self._commands.append(Start(worker, lease))

    def stop(self, worker: str) -> None:
        self._commands.append(Stop(worker))

    def poll(self, timeout_s: float) -> Sequence[Event]:
        try:
            if self._host is None:
                self._host = HostProcess(MODULE)
                self._host.ask(pickle.dumps(self._make))
            elif not self._host.asked:
                question = Question(tuple(self._commands), timeout_s)
                self._commands.clear()
                self._host.ask(pickle.dumps(question))
            found = self._host.answer(timeout_s)
        except HostEndedError as error:
            raise PlaceError(str(error)) from None
        return () if found is None else answered(found)

    def close(self) -> None:
        if self._host is not None:
            self._host.close()
            self._host = None


def answered(found: bytes) -> Sequence[Event]:
    """The events of an answer. Raises PlaceError."""
    events: Sequence[Event] | str = pickle.loads(found)
    if isinstance(events, str):
        raise PlaceError(events)
    return events


def gathered(place: Place, timeout_s: float, enough: int) -> list[Event]:
    """What happens: at once where it is more than leases that were judged and signs of life."""
    ends = time.monotonic() + timeout_s
    events: list[Event] = []
    heard: dict[str, Heard] = {}
    done = 0
    while True:
        other = False
        for event in place.poll(max(0.0, ends - time.monotonic())):
            if isinstance(event, Heard):
                heard[event.worker] = event
                continue
            events.append(event)
            done += isinstance(event, Done)
            other = other or not isinstance(event, Done)
        now = time.monotonic()
        if done and done == len(events):
            ends = min(ends, now + _GATHER_S)
        if other or done >= enough or now >= ends:
            return [*events, *heard.values()]


def serve() -> None:
    """Answer the questions of the process that has started this one, until it closes."""
    theirs = connection()
    place: Place | None = None
    try:
        while True:
            told: object = pickle.loads(theirs.recv_bytes())
            events: Sequence[Event] | str
            try:
                if place is None:
                    assert callable(told)
                    place = told()
                    events = ()
                else:
                    assert isinstance(told, Question)
                    for command in told.commands:
                        if isinstance(command, Start):
                            place.start(command.worker, command.lease)
                        else:
                            place.stop(command.worker)
                    events = gathered(place, told.timeout_s, told.enough)
            except PlaceError as error:
                events = str(error)
            except Exception as error:
                events = f"{type(error).__name__}: {' '.join(str(error).split())}"
            theirs.send_bytes(pickle.dumps(events))
    except (EOFError, ConnectionError):
        pass
    finally:
        if place is not None:
            place.close()


if __name__ == "__main__":
    # As __main__ its classes would be others than those that questions are made of.
    from squall.sim.campaigns import hosted

    hosted.serve()
