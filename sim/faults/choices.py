"""What a seed chooses as it draws the items of a fault plan: workers, links, times, messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from squall.model.generate.keyed import KeyedChoices
from squall.sim.faults.fault import Fault
from squall.sim.faults.moments import Moment
from squall.sim.names import Profile

#: what is sent again until it is heard, and the answers to it
RETRIED = (
    "RREF_USER_DELETE",
    "RREF_FORK_REQUEST",
    "RREF_CHILD_ACCEPT",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ",
)
RETRIED_ANSWERS = ("RREF_ACK", "CLEANUP_AUTOGRAD_CONTEXT_RESP")
_USER_CALLS = (
    "FORWARD_AUTOGRAD_REQ",
    "FORWARD_AUTOGRAD_RESP",
    "PYTHON_CALL",
    "PYTHON_RET",
    "PYTHON_REMOTE_CALL",
    "REMOTE_RET",
    "PYTHON_RREF_FETCH_CALL",
    "PYTHON_RREF_FETCH_RET",
    "BACKWARD_AUTOGRAD_REQ",
    "BACKWARD_AUTOGRAD_RESP",
)
ALL_TYPES = (*RETRIED, *RETRIED_ANSWERS, *_USER_CALLS)
REQUESTS = tuple(name for name in ALL_TYPES if name.endswith(("_REQ", "_CALL"))) + RETRIED[:3]

#: seconds from the start of the work to the end of the faults
_HEALS_S = (0.02, 0.1, 0.5, 3.0, 15.0, 90.0)
#: moments that are worth a crash: the worker is in the middle of something
_MOMENTS = (
    "pass_started",
    "gradients_sent",
    "gradients_received",
    "node_executed",
    "udf_started",
    "handler_started",
    "message_sent",
    "user_created",
    "owner_created",
    "fork_added",
    "child_pending",
    "context_created",
    "context_released",
    "call_retried",
    "call_ended",
    "handler_ended",
)
#: those that come with a message: the worker has sent, or taken up, a request of a type, and whoever
#: waits for the answer waits
_OF_MESSAGES = ("message_sent", "message_delivered", "handler_started", "handler_ended")
#: seconds after such a moment, compared with how long a message takes, or a retry waits
_AFTER_S = (0.0, 0.0, 0.0005, 0.01, 0.4)


class Choices:
    """What ``keyed`` choices come to under a profile, for a group of ``workers``.

    ``timeout_s``: seconds that a call may take. ``least_pool``: how many threads an agent has
    at least. Each choice draws from the stream that it is given, which is that of one
    way of drawing items (:class:`FaultDraw`).
    """

    def __init__(
        self,
        profile: Profile,
        keyed: KeyedChoices,
        workers: int,
        timeout_s: float,
        *,
        least_pool: int = 3,
    ) -> None:
        self.profile = profile
        self._keyed = keyed
        self.workers = workers
        self.timeout_s = timeout_s
        self.least_pool = least_pool
        self.heal_s = self.stream("heal").choice(_HEALS_S)
        #: how much of everything: factor for probabilities
        self.rate = {"mild": 1.0, "rough": 1.0, "storm": 3.0}[profile]
        self._next_id = 0

    @property
    def is_mild(self) -> bool:
        """Whether there is to be nothing but what the protocol makes good."""
        return self.profile == "mild"

    def stream(self, *name: object) -> random.Random:
        """The stream of a decision, which no other one draws from; asked for once."""
        return random.Random(int(self._keyed.number(" ".join(map(str, name))) * 2**53))

    def worker(self, stream: random.Random) -> int:
        return stream.randrange(self.workers)

    def link(self, stream: random.Random) -> tuple[int | None, int | None]:
        """A link, all of a worker's, or all."""
        how = stream.random()
        if how < 0.4:
            return None, None
        src = self.worker(stream)
        if how < 0.55:
            return src, None
        if how < 0.7:
            return None, src
        return src, (src + stream.randint(1, self.workers - 1)) % self.workers

    def at_s(self, stream: random.Random) -> float:
        """When something starts: while there is work, mostly."""
        return round(10 ** stream.uniform(-3.5, -0.8), 6)

    def for_s(self, stream: random.Random) -> float:
        """How long something lasts: from less than a message takes to more than a timeout."""
        longest = self.timeout_s * (0.3 if self.is_mild else 2.0)
        return round(10 ** stream.uniform(-3, 0) * longest, 6)

    def probability(self, stream: random.Random, most: float = 0.2) -> float:
        return round(min(1.0, self.rate * stream.uniform(0.01, most)), 4)

    def id(self) -> int:
        """An id that no other item of the plan has."""
        self._next_id += 1
        return self._next_id

    def types(self, stream: random.Random, among: tuple[str, ...] = ALL_TYPES) -> tuple[str, ...]:
        """One type, a few, or (empty) all."""
        count = stream.choice((0, 1, 1, 2, 3))
        if not count and among is ALL_TYPES:
            return ()
        return tuple(sorted(stream.sample(among, max(1, min(count, len(among))))))

    def items(self, stream: random.Random) -> range:
        """As many as there are to be items of a kind."""
        return range(stream.randint(1, 4 if self.profile == "storm" else 2))

    def nth(self, stream: random.Random, latest: int, most: int) -> tuple[int, ...]:
        """Up to ``most`` numbers of messages, none above ``latest``."""
        return tuple(sorted({stream.randint(1, latest) for _ in range(stream.randint(1, most))}))

    def which(self, stream: random.Random, most: float = 0.2) -> dict[str, Any]:
        """Selects messages: some nth ones, or each with a probability up to ``most``."""
        src, dst = self.link(stream)
        if stream.random() < 0.4:
            return {"src": src, "dst": dst, "nth": self.nth(stream, 8, 3), "id": self.id()}
        probability = self.probability(stream, most)
        return {"src": src, "dst": dst, "probability": probability, "id": self.id()}

    def moment(self, stream: random.Random, worker: int | None) -> dict[str, Any]:
        """At a time, or right after something happened."""
        if stream.random() < 0.4:
            return {"at_s": self.at_s(stream)}
        where = worker if stream.random() < 0.7 else None
        if stream.random() < 0.4:
            moment = Moment(
                event=stream.choice(_OF_MESSAGES),
                type=stream.choice(REQUESTS),
                worker=where,
                nth=stream.randint(1, 3),
            )
            return {"moment": moment, "at_s": stream.choice(_AFTER_S)}
        event = stream.choice(_MOMENTS)
        return {"moment": Moment(event=event, worker=where, nth=stream.randint(1, 6))}

    def back_off(self, stream: random.Random) -> tuple[str, int, dict[str, Any]]:
        """A type of message that is sent again, whoever sends it, and a moment while it waits for
        that: soon after the first copy has failed, or just before or after the next one goes."""
        type, worker = stream.choice(RETRIED), self.worker(stream)
        moment = Moment(event="call_retried", worker=worker, type=type, nth=stream.randint(1, 2))
        return type, worker, {"moment": moment, "at_s": stream.choice(_IN_A_BACK_OFF_S)}


#: seconds in which a request waits to be sent again, and what comes just then
_IN_A_BACK_OFF_S = (0.0, 0.5, 0.999, 1.0, 1.001)

DrawItems = Callable[[Choices, random.Random], Sequence[Fault]]


class FaultDraw(NamedTuple):
    """A way of drawing items of a kind.

    ``name`` names its stream, so that it draws the same whatever else is drawn. ``mild``: the
    protocol makes good what they do. ``light``: long before any call times out, because what is
    ``lost`` is sent again soon, or because they are ``unnoticed``.
    """

    name: str
    items: DrawItems
    mild: bool
    light: Literal["lost", "unnoticed"] | None


def drawn(
    name: str, *, mild: bool = False, light: Literal["lost", "unnoticed"] | None = None
) -> Callable[[DrawItems], FaultDraw]:
    """Makes a :class:`FaultDraw` of a function of a kind's module, where it is found by itself."""

    def decorate(items: DrawItems) -> FaultDraw:
        return FaultDraw(name, items, mild, light)

    return decorate
