"""Draws the fault plan of a seed: which kinds of faults, and how much of each (see sim/search/draw.py)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal, get_args, get_type_hints

from squall.sim.faults.plan import (
    Allocation,
    Bandwidth,
    ClockSkew,
    Corrupt,
    Crash,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Fifo,
    Flapping,
    Garbage,
    Hold,
    LatencySpike,
    Loss,
    Moment,
    Partition,
    Pause,
    Plan,
    PoolSize,
    Raise,
    Schedule,
    Selector,
    Shutdown,
    SlowCpu,
    SlowStart,
)

Profile = Literal["mild", "rough", "storm"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

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
_ALL_TYPES = (*RETRIED, *RETRIED_ANSWERS, *_USER_CALLS)
_REQUESTS = tuple(name for name in _ALL_TYPES if name.endswith(("_REQ", "_CALL"))) + RETRIED[:3]

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
)


def stream_of(*name: object) -> random.Random:
    # A string seeds by its SHA-512, which no PYTHONHASHSEED changes.
    return random.Random(repr(("swarm", *name)))


class Drawing:
    """A plan while it is drawn."""

    def __init__(
        self,
        profile: Profile,
        seed: int,
        workers: int,
        timeout_s: float,
        *,
        small_pools: bool = False,
    ) -> None:
        self.profile = profile
        self.seed = seed
        self.workers = workers
        #: seconds that a call may take
        self.timeout_s = timeout_s
        #: whether an agent may have fewer than three threads
        self.small_pools = small_pools
        self.heal_s = self._stream("heal").choice(_HEALS_S)
        #: how much of everything: factor for probabilities
        self.rate = {"mild": 1.0, "rough": 1.0, "storm": 3.0}[profile]
        self._next_id = 0

    def _stream(self, *name: object) -> random.Random:
        return stream_of(self.profile, self.seed, *name)

    def draw(self) -> Plan:
        kinds = self._kinds()
        found: dict[str, list[Any]] = {}
        for kind in kinds:
            group, draw_items = _KINDS[kind]
            for item in draw_items(self, self._stream("kind", kind)):
                found.setdefault(group, []).append(item)
        return Plan(
            messages=tuple(found.get("messages", ())),
            links=tuple(found.get("links", ())),
            partitions=tuple(found.get("partitions", ())),
            workers=tuple(found.get("workers", ())),
            inner=tuple(found.get("inner", ())),
            schedule=self._schedule(),
            heal_s=self.heal_s,
        )

    def _kinds(self) -> list[str]:
        """Which kinds of faults there are, in the order of :data:`_KINDS`."""
        possible = [kind for kind in _KINDS if self.profile != "mild" or kind in MILD]
        stream = self._stream("kinds")
        if self.profile == "mild" and stream.random() < 0.3:
            # Nothing that a call could notice: it is held to everything.
            chosen = set(stream.sample(LIGHT, stream.randint(1, len(LIGHT))))
            return [kind for kind in possible if kind in chosen]
        if self.profile == "storm":
            count = stream.randint(3, 10)
        else:
            count = stream.choice((1, 1, 2, 2, 3, 4))
        chosen = set(stream.sample(possible, count))
        return [kind for kind in possible if kind in chosen]

    def _schedule(self) -> Schedule:
        stream = self._stream("schedule")
        order = stream.choice(("fifo", "random", "random", "pct"))
        if order == "pct":
            steps = stream.choice((100, 500, 2_000))
            return Schedule(order="pct", depth=stream.randint(1, 5), steps=steps)
        return Schedule(order="random" if order == "random" else "fifo")

    # -- parts of items -------------------------------------------------------------------

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
        longest = self.timeout_s * (0.3 if self.profile == "mild" else 2.0)
        return round(10 ** stream.uniform(-3, 0) * longest, 6)

    def probability(self, stream: random.Random, most: float = 0.2) -> float:
        return round(min(1.0, self.rate * stream.uniform(0.01, most)), 4)

    def id(self) -> int:
        self._next_id += 1
        return self._next_id

    def types(self, stream: random.Random, among: tuple[str, ...] = _ALL_TYPES) -> tuple[str, ...]:
        """One type, a few, or (empty) all."""
        count = stream.choice((0, 1, 1, 2, 3))
        if not count and among is _ALL_TYPES:
            return ()
        return tuple(sorted(stream.sample(among, max(1, min(count, len(among))))))

    def items(self, stream: random.Random) -> range:
        return range(stream.randint(1, 4 if self.profile == "storm" else 2))

    def which(self, stream: random.Random, most: float = 0.2) -> dict[str, Any]:
        """Selects messages: some nth ones, or each with a probability."""
        src, dst = self.link(stream)
        if stream.random() < 0.4:
            nth = sorted({stream.randint(1, 8) for _ in range(stream.randint(1, 3))})
            return {"src": src, "dst": dst, "nth": tuple(nth), "id": self.id()}
        probability = self.probability(stream, most)
        return {"src": src, "dst": dst, "probability": probability, "id": self.id()}

    # -- kinds ----------------------------------------------------------------------------

    def delay(self, stream: random.Random) -> list[Any]:
        return [
            Delay(
                types=self.types(stream),
                seconds=self.for_s(stream),
                spread_s=stream.choice((0.0, self.for_s(stream))),
                **self.which(stream, 0.3),
            )
            for _ in self.items(stream)
        ]

    def delay_retried(self, stream: random.Random) -> list[Any]:
        """Longer than the first retries wait, so that a copy comes while, or after, it does."""
        return [
            Delay(
                types=self.types(stream, RETRIED + RETRIED_ANSWERS),
                seconds=stream.choice((0.3, 1.5, 4.0)) * self.timeout_s,
                spread_s=self.timeout_s,
                **self.which(stream, 0.4),
            )
            for _ in self.items(stream)
        ]

    def drop_retried(self, stream: random.Random) -> list[Any]:
        """Never more copies than there are retries."""
        found = []
        for type in self.types(stream, RETRIED + RETRIED_ANSWERS):
            nth = sorted({stream.randint(1, 12) for _ in range(stream.randint(1, 4))})
            found.append(Drop(types=(type,), nth=tuple(nth), id=self.id()))
        return found

    def drop(self, stream: random.Random) -> list[Any]:
        return [
            Drop(types=self.types(stream), **self.which(stream, 0.15)) for _ in self.items(stream)
        ]

    def duplicate(self, stream: random.Random) -> list[Any]:
        found = []
        for _ in self.items(stream):
            after = tuple(
                stream.choice((0.0, self.for_s(stream), 2 * self.timeout_s))
                for _ in range(stream.randint(1, 2))
            )
            found.append(
                Duplicate(types=self.types(stream), after_s=after, **self.which(stream, 0.4))
            )
        return found

    def hold(self, stream: random.Random) -> list[Any]:
        found = []
        for _ in self.items(stream):
            until = Selector(types=self.types(stream, _REQUESTS), nth=(stream.randint(1, 6),))
            at_most_s = self.timeout_s * (
                0.3 if self.profile == "mild" else stream.choice((0.3, 2))
            )
            which = self.which(stream, 0.2)
            found.append(Hold(types=self.types(stream), until=until, at_most_s=at_most_s, **which))
        return found

    def corrupt(self, stream: random.Random) -> list[Any]:
        return [
            Corrupt(types=self.types(stream), flips=stream.randint(1, 4), **self.which(stream, 0.1))
            for _ in self.items(stream)
        ]

    def fail(self, stream: random.Random) -> list[Any]:
        return [
            Fail(types=self.types(stream), **self.which(stream, 0.1)) for _ in self.items(stream)
        ]

    def fail_retried(self, stream: random.Random) -> list[Any]:
        found = []
        for type in self.types(stream, RETRIED):
            nth = sorted({stream.randint(1, 12) for _ in range(stream.randint(1, 4))})
            found.append(Fail(types=(type,), nth=tuple(nth), id=self.id()))
        return found

    def latency_spike(self, stream: random.Random) -> list[Any]:
        found = []
        for _ in self.items(stream):
            src, dst = self.link(stream)
            extra = stream.choice((0.0, self.for_s(stream)))
            found.append(
                LatencySpike(
                    src=src, dst=dst, factor=stream.choice((1.0, 3.0, 20.0)), extra_s=extra
                )
            )
        return found

    def bandwidth(self, stream: random.Random) -> list[Any]:
        src, dst = self.link(stream)
        rate = 10 ** stream.uniform(4.5 if self.profile == "mild" else 3.0, 6.0)
        return [Bandwidth(src=src, dst=dst, bytes_per_s=round(rate, 1))]

    def loss(self, stream: random.Random) -> list[Any]:
        src, dst = self.link(stream)
        probability = self.probability(stream, 0.2)
        return [Loss(src=src, dst=dst, probability=probability, id=self.id())]

    def flapping(self, stream: random.Random) -> list[Any]:
        src, dst = self.link(stream)
        period_s = round(10 ** stream.uniform(-2.5, 0), 6)
        down_s = round(period_s * stream.uniform(0.05, 0.6), 6)
        cuts: tuple[Cut, ...] = ("hold",) if self.profile == "mild" else ("drop", "hold", "fail")
        cut = stream.choice(cuts)
        return [Flapping(src=src, dst=dst, period_s=period_s, down_s=down_s, cut=cut)]

    def fifo(self, stream: random.Random) -> list[Any]:
        src, dst = self.link(stream)
        return [Fifo(src=src, dst=dst)]

    def partition(self, stream: random.Random) -> list[Any]:
        ranks = list(range(self.workers))
        stream.shuffle(ranks)
        cut_at = stream.randint(1, self.workers - 1)
        from_s = self.at_s(stream)
        mild = self.profile == "mild"
        cuts: tuple[Cut, ...] = ("hold",) if mild else ("drop", "drop", "hold", "fail")
        until_s = None if not mild and stream.random() < 0.3 else from_s + self.for_s(stream)
        return [
            Partition(
                groups=(tuple(sorted(ranks[:cut_at])), tuple(sorted(ranks[cut_at:]))),
                one_way=stream.random() < 0.4,
                cut=stream.choice(cuts),
                from_s=from_s,
                until_s=until_s,
            )
        ]

    def moment(self, stream: random.Random, worker: int | None) -> dict[str, Any]:
        """At a time, or right after something happened."""
        if stream.random() < 0.4:
            return {"at_s": self.at_s(stream)}
        event = stream.choice(_MOMENTS)
        where = worker if stream.random() < 0.7 else None
        return {"moment": Moment(event=event, worker=where, nth=stream.randint(1, 6))}

    def crash(self, stream: random.Random) -> list[Any]:
        found = []
        most = 2 if self.profile == "storm" else 1
        for worker in stream.sample(range(self.workers), min(most, self.workers - 1)):
            after_s = stream.choice((None, 0.0, self.for_s(stream), self.for_s(stream)))
            found.append(
                Crash(
                    worker=worker,
                    silent=stream.random() < 0.4,
                    restart_after_s=after_s,
                    **self.moment(stream, worker),
                )
            )
        return found

    def pause(self, stream: random.Random) -> list[Any]:
        worker = self.worker(stream)
        return [Pause(worker=worker, for_s=self.for_s(stream), **self.moment(stream, worker))]

    def slow_cpu(self, stream: random.Random) -> list[Any]:
        factor = round(10 ** stream.uniform(0, 1.5 if self.profile == "mild" else 3), 2)
        lasts = stream.choice((None, self.for_s(stream)))
        worker = self.worker(stream)
        return [SlowCpu(worker=worker, factor=factor, for_s=lasts, at_s=self.at_s(stream))]

    def slow_start(self, stream: random.Random) -> list[Any]:
        delay_s = round(10 ** stream.uniform(-3, 0.5), 6)
        return [SlowStart(worker=self.worker(stream), delay_s=delay_s)]

    def shutdown(self, stream: random.Random) -> list[Any]:
        worker = self.worker(stream)
        return [Shutdown(worker=worker, graceful=False, **self.moment(stream, worker))]

    def pool_size(self, stream: random.Random) -> list[Any]:
        worker = stream.choice((None, self.worker(stream)))
        # With fewer, functions that wait for a value of their own worker keep its creation out for
        # ever: PyTorch's documented limit of a pool that nested calls exhaust.
        sizes = (1, 1, 2, 3) if self.small_pools else (3, 4, 6)
        return [PoolSize(worker=worker, threads=stream.choice(sizes))]

    def allocation(self, stream: random.Random) -> list[Any]:
        return [Allocation(worker=self.worker(stream), nth=stream.randint(1, 20))]

    def raises(self, stream: random.Random) -> list[Any]:
        wheres = get_args(get_type_hints(Raise)["where"])
        return [
            Raise(
                worker=self.worker(stream),
                where=stream.choice(wheres),
                nth=stream.randint(1, 8),
            )
            for _ in self.items(stream)
        ]

    def garbage(self, stream: random.Random) -> list[Any]:
        worker = self.worker(stream)
        return [Garbage(worker=worker, **self.moment(stream, worker)) for _ in self.items(stream)]

    def clock_skew(self, stream: random.Random) -> list[Any]:
        rate = stream.choice((1.0, 0.5, 1.5) if self.profile == "mild" else (1.0, 0.5, 2.0, 5.0))
        offset_s = round(stream.uniform(0, 100), 3)
        return [ClockSkew(worker=self.worker(stream), offset_s=offset_s, rate=rate)]


_Draw = Callable[[Drawing, random.Random], list[Any]]
#: by name: the group its items belong to, and what draws them
_KINDS: dict[str, tuple[str, _Draw]] = {
    "delay": ("messages", Drawing.delay),
    "delay retried": ("messages", Drawing.delay_retried),
    "drop": ("messages", Drawing.drop),
    "drop retried": ("messages", Drawing.drop_retried),
    "duplicate": ("messages", Drawing.duplicate),
    "hold": ("messages", Drawing.hold),
    "corrupt": ("messages", Drawing.corrupt),
    "fail": ("messages", Drawing.fail),
    "fail retried": ("messages", Drawing.fail_retried),
    "latency spike": ("links", Drawing.latency_spike),
    "bandwidth": ("links", Drawing.bandwidth),
    "loss": ("links", Drawing.loss),
    "flapping": ("links", Drawing.flapping),
    "fifo": ("links", Drawing.fifo),
    "partition": ("partitions", Drawing.partition),
    "crash": ("workers", Drawing.crash),
    "pause": ("workers", Drawing.pause),
    "slow cpu": ("workers", Drawing.slow_cpu),
    "slow start": ("workers", Drawing.slow_start),
    "shutdown": ("workers", Drawing.shutdown),
    "pool size": ("inner", Drawing.pool_size),
    "allocation": ("inner", Drawing.allocation),
    "raise": ("inner", Drawing.raises),
    "garbage": ("inner", Drawing.garbage),
    "clock skew": ("inner", Drawing.clock_skew),
}
#: what is made good long before any call times out
LIGHT = ("drop retried", "fail retried", "duplicate", "fifo", "garbage")
#: what the protocol makes good: with only these, nothing fails
MILD = frozenset(
    {
        "delay",
        "delay retried",
        "drop retried",
        "duplicate",
        "hold",
        "fail retried",
        "latency spike",
        "bandwidth",
        "flapping",
        "fifo",
        "partition",
        "pause",
        "slow cpu",
        "slow start",
        "garbage",
        "clock skew",
    }
)
