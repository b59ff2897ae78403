"""What a message is inside the wrappers in which it travels: of a profile, of an autograd context."""

from __future__ import annotations

from typing import Any

_PROFILED = frozenset({"RUN_WITH_PROFILING_REQ", "RUN_WITH_PROFILING_RESP"})
_FORWARD = frozenset({"FORWARD_AUTOGRAD_REQ", "FORWARD_AUTOGRAD_RESP"})


def unprofiled(type: str, about: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The type of a message, and what it is about, without the wrapper of a profile.

    A trace of the engine ``torch`` does not say what such a wrapper holds.
    """
    if type in _PROFILED and len(about) > 1:
        return about[1], about[2:]
    return type, about


def called(type: str, about: tuple[Any, ...]) -> str:
    """The type of the message in all wrappers."""
    type, about = unprofiled(type, about)
    return str(about[2]) if type in _FORWARD and len(about) > 2 else type
