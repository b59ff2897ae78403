"""``datetime.now()`` and its kin in the time of a simulated process.

The classes of ``datetime`` are compiled and cannot be derived from unseen: what is pickled names its
class. So three of their methods are replaced, where the classes keep them. Imports no torch.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Clock = Callable[[], float | None]


@contextmanager
def simulated(clock: Clock) -> Iterator[None]:
    """In this block ``clock`` says what time it is, in seconds since 1970, to whoever asks for the date;
    None: what the machine's clock says."""
    before = [(kind, name, _methods(kind).get(name)) for kind, name, _ in _replacements(clock)]
    install(clock)
    try:
        yield
    finally:
        for kind, name, method in before:
            _set(kind, name, method)


def install(clock: Clock) -> None:
    """The same for the rest of this process."""
    for kind, name, method in _replacements(clock):
        _set(kind, name, method)


def _replacements(clock: Clock) -> list[tuple[type, str, Any]]:
    real_now, real_utcnow = _method(datetime.datetime, "now"), _method(datetime.datetime, "utcnow")
    real_today = _method(datetime.date, "today")

    def now(cls: Any, tz: datetime.tzinfo | None = None) -> Any:
        seconds = clock()
        return real_now(cls)(tz) if seconds is None else cls.fromtimestamp(seconds, tz)

    def utcnow(cls: Any) -> Any:
        seconds = clock()
        if seconds is None:
            return real_utcnow(cls)()
        return cls.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)

    def today(cls: Any) -> Any:
        seconds = clock()
        return real_today(cls)() if seconds is None else cls.fromtimestamp(seconds)

    return [
        (datetime.datetime, "now", classmethod(now)),
        (datetime.datetime, "utcnow", classmethod(utcnow)),
        (datetime.date, "today", classmethod(today)),
    ]


def _method(kind: type, name: str) -> Callable[[Any], Callable[..., Any]]:
    """The method that is there now, for a class to bind."""
    method = _methods(kind)[name]
    return lambda cls: method.__get__(None, cls)


def _methods(kind: type) -> dict[str, Any]:
    """The dictionary behind ``kind.__dict__``."""
    found: dict[str, Any] = gc.get_referents(kind.__dict__)[0]
    return found


def _set(kind: type, name: str, method: Any) -> None:
    _methods(kind)[name] = method
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
