"""Asides: small scenes beside the computation of a step, each with a result that is known.

An aside runs in a task of its own while its step goes on. It makes calls to one worker, perhaps
in an autograd context of its own, and tells in a line what came of them (sim/aside_calls.py,
sim/aside_passes.py). What programs themselves cannot show is shown here: timeouts, errors of
every kind, callbacks, passes that must not begin or must not go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pydantic import ConfigDict

AsideKind = Literal[
    "timeout",
    "late reference",
    "late creation",
    "slow creation",
    "failed creation",
    "callbacks",
    "operator error",
    "late error",
    "exceptions",
    "unreadable argument",
    "unwritable",
    "confirmation",
    "reply without grad",
    "crowd",
    "structures",
    "second pass",
    "freed graph",
    "failed pass again",
    "released by a hook",
    "released meanwhile",
    "leaf context",
    "hooks in order",
    "grad mode",
    "optimizer by grad",
]
KINDS: tuple[AsideKind, ...] = get_args(AsideKind)

#: virtual seconds that a slow function takes, and that a call of it waits which gives up
SLOW_S, SHORT_S = 3.0, 1.0
#: calls at once that are more than a worker has threads
CROWD = 20
LR = 0.5


class AsideError(RuntimeError):
    """An error that an aside asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """``kind`` of scene, between the trainer's worker and ``worker``. It begins before operation
    ``before`` of its step, or at its end if the step has not so many."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    kind: AsideKind
    worker: int
    before: int = 0
