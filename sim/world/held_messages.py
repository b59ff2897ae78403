"""Messages that are held on their way, to be delivered by hand in any order.

with network.hold(kind=MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, dst=2) as held:
    ...
    held.wait()                          # until there is one
    held.deliver(held.messages[0])       # it arrives now
                                         # leaving lets all others go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from squall.real.runtime import Event, Runtime
from squall.sim.world.delivery import Delivery, Link, link_of
from squall.sim.world.rules import Hold, Rule, Ruling

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


class Carrier(Protocol):
    """What :class:`Held` asks of the network."""

    @property
    def runtime(self) -> Runtime: ...

    def add_rule(self, rule: Rule) -> None: ...

    def remove_rule(self, rule: Rule) -> None: ...

    def put_on_its_way(self, delivery: Delivery, arrives_at_s: float = 0.0) -> None:
        """Let a message that was held arrive then, or now if that is over."""

    def dropped(self, message: Message, reason: str) -> None:
        """Tell the trace that a message does not arrive."""


class Held:
    """What a network holds for somebody."""

    def __init__(self, network: Carrier, select: Callable[[Message], bool] | None = None) -> None:
        """``select``: which messages are held from now on; None: those that a rule gives here."""
        self._network = network
        self._deliveries: dict[Delivery, float] = {}
        self._waiters: list[Event] = []
        #: what is to be done once nothing is held of a link
        self._behind: list[tuple[Link, Callable[[], object]]] = []
        self._select = select
        self._rule: Rule | None = None
        if select is not None:
            self._rule = self._judge
            network.add_rule(self._rule)

    @property
    def messages(self) -> list[Message]:
        """The messages that are held, the one that was sent first first."""
        return [delivery.message for delivery in self._deliveries]

    def __len__(self) -> int:
        return len(self._deliveries)

    def wait(self, count: int = 1, timeout_s: float | None = None) -> list[Message]:
        """Block the calling task until ``count`` messages are held, and give all that are.

        Raises TimeoutError after ``timeout_s`` seconds of virtual time.
        """
        runtime = self._network.runtime
        deadline_s = None if timeout_s is None else runtime.now() + timeout_s
        while len(self._deliveries) < count:
            event = runtime.event(f"{count} messages to hold")
            self._waiters.append(event)
            left_s = None if deadline_s is None else deadline_s - runtime.now()
            if not event.wait(left_s):
                raise TimeoutError(
                    f"{len(self._deliveries)} messages are held after {timeout_s} s, not {count}"
                )
        return self.messages

    def deliver(self, message: Message | None = None) -> None:
        """Let ``message`` arrive now: the one that was sent first if nothing is said.

        Raises LookupError if it is not held.
        """
        delivery = self._take(message)
        self._network.put_on_its_way(delivery)
        self._look_behind()

    def let_go(self, message: Message) -> None:
        """Let ``message`` arrive when its latency would have brought it, or now if that is over.

        Raises LookupError if it is not held.
        """
        arrives_at = next((at for d, at in self._deliveries.items() if d.message is message), 0.0)
        self._network.put_on_its_way(self._take(message), arrives_at)
        self._look_behind()

    def drop(self, message: Message | None = None) -> None:
        """Lose ``message``. Raises LookupError if it is not held."""
        self._network.dropped(self._take(message).message, "dropped by hand")
        self._look_behind()

    def release(self) -> None:
        """Hold no more, and let everything go."""
        if self._rule is not None:
            self._network.remove_rule(self._rule)
            self._rule = None
        for message in self.messages:
            self.let_go(message)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    # -- for the network --------------------------------------------------------------------

    def add(self, delivery: Delivery, arrives_at_s: float) -> None:
        """Keep a message that would have arrived then."""
        self._deliveries[delivery] = arrives_at_s
        waiters, self._waiters = self._waiters, []
        for event in waiters:
            event.set()

    def holds(self, link: Link) -> bool:
        """Whether something of that link is held."""
        return any(link_of(delivery) == link for delivery in self._deliveries)

    def wait_behind(self, link: Link, then: Callable[[], object]) -> None:
        """Do that once nothing is held of that link."""
        self._behind.append((link, then))

    def _look_behind(self) -> None:
        free = [each for each in self._behind if not self.holds(each[0])]
        self._behind = [each for each in self._behind if each not in free]
        for _, then in free:
            then()

    def _judge(self, message: Message) -> Ruling | None:
        return Hold(self) if self._select is not None and self._select(message) else None

    def _take(self, message: Message | None) -> Delivery:
        for delivery in self._deliveries:
            if message is None or delivery.message is message:
                del self._deliveries[delivery]
                return delivery
        raise LookupError(f"not held: {message!r}" if message is not None else "nothing is held")
