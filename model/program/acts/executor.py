"""Where acts are done: on a worker of a group, or in one process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from squall.model.program.acts.act import Act, How


class Pending(ABC):
    """A call that was made. Raises what the call raises."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for its end, and tell what was told there."""

    @abstractmethod
    def then(self, acts: Sequence[Act]) -> Pending:
        """The call with a callback that does these acts, on this worker, when it has ended."""


class At(ABC):
    """A worker while it does acts, one after the other. A list of acts that another worker, a
    callback or a hook does has an ``At`` of its own."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.lines: list[str] = []
        #: references at hand: the last one is meant
        self.references: list[Any] = []

    @abstractmethod
    def do(self, acts: Sequence[Act]) -> None:
        """Raises what an act raises; what follows that is not done."""

    def tell(self, line: str) -> None:
        self.lines.append(line)

    @abstractmethod
    def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    def fail(self) -> None:
        """Raise an error of the program's own."""

    @abstractmethod
    def said(self, error: Exception) -> str:
        """The type and the kind of an error in a few words, which are the same on any worker."""

    @abstractmethod
    def call(
        self,
        to: int,
        acts: Sequence[Act],
        limit_s: float | None,
        *,
        how: How = "async",
        with_reference: bool = False,
    ) -> Pending:
        """Let a worker do acts; with ``sync`` that has ended when this returns."""

    @abstractmethod
    def call_later(
        self, to: int, acts: Sequence[Act], seconds: float, limit_s: float | None
    ) -> None:
        """Let a worker do acts after so many seconds, in a thread of its own that completes the
        future which the function has returned; and wait for it."""

    @abstractmethod
    def create(self, to: int, acts: Sequence[Act], limit_s: float | None) -> None:
        """Have a reference to what comes of these acts, in :attr:`references`."""

    @abstractmethod
    def fetch(self, limit_s: float | None) -> None:
        """Fetch what is referred to, and tell what was told there."""

    @abstractmethod
    def ask(self, acts: Sequence[Act], limit_s: float | None, how: How) -> None:
        """Let what is referred to do acts, by a proxy, and wait for it."""

    @abstractmethod
    def context(self, acts: Sequence[Act]) -> None:
        """Do these in an autograd context with a leaf, and tell the leaf's gradient."""

    @abstractmethod
    def multiply(self, factor: int) -> None:
        """Multiply the tensor of the context."""

    @abstractmethod
    def carry(self, to: int, acts: Sequence[Act], how: How) -> None:
        """Send the tensor of the context to a worker, which does these acts with it and returns
        the tensor that comes of it."""

    @abstractmethod
    def hook(self, acts: Sequence[Act], times: int) -> None:
        """Do these acts in a hook of the tensor, the first so many times that it is called."""

    @abstractmethod
    def backward(self, retain_graph: bool) -> None:
        """A backward pass from the sum of the tensor of the context."""

    @abstractmethod
    def release_another(self) -> None:
        """Release an autograd context that another task of this worker has begun."""
