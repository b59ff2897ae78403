"""Rules that somebody has laid on the network: what is to become of a message.

A rule is any callable that looks at a message as it is sent and gives a verdict: None lets it
pass, and the first rule that does not decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from real.rpc.message import Message


@dataclass(frozen=True)
class Delay:
    """It arrives ``seconds`` of virtual time later than it would have."""

    seconds: float


@dataclass(frozen=True)
class Drop:
    """It is lost, which its sender does not learn. ``reason`` is for the trace."""

    reason: str


@dataclass(frozen=True)
class Fail:
    """It is not sent, and its sender is told ``error`` at once."""

    error: str


Verdict = Delay | Drop | Fail | None
Rule = Callable[[Message], Verdict]
