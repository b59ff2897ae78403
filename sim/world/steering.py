"""A run that goes another way from some step on.

    path = (Turn(240, Tail("workers", order=(2, 0, 1))),)
    with watching(Steering(path)):
        run = engine.run(scenario)      # 240 steps as they were, then trainer 2 is the quickest

A step is what a simulation does at once: a message arrives, a task goes on, a timer fires. The steps up
to a turn are those that the run would have without one. From there on every message takes as long as
the tail says, no fault happens any more, and of what is due at one instant the first goes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random
from typing import Any, Literal, NamedTuple

from squall.real.rpc.message_type import RESPONSE_FLAG, MessageType
from squall.real.tracing import MESSAGE_SENT
from squall.sim.world.delivery import Delivery
from squall.sim.world.polling_tasks import looks_of
from squall.sim.world.primitives import SimTask
from squall.sim.world.virtual_time import NORMAL, Callbacks, Due, VirtualTime
from squall.sim.world.watch import Watcher

#: seconds of virtual time that a message takes in a tail, at least and at most: far enough apart that a
#: worker makes many calls while another waits for one, and less than what people give as time limits
LEAST_S, MOST_S = 1e-6, 0.2
#: before everything else that is due at that instant
_FIRST = -1.0
#: tasks make way that are slower than that, from 0 to 1
_SLOW = 0.5
#: who has looked so often waits for what is held
_LOOKS = 20
#: messages that one worker's asking takes, alone, before they are slower by a factor of two, and how often that is
_PATIENCE, _DOUBLED = 100, 20
#: workers of which every order is tried
_FEW = 3

#: who asks: a worker, and the task in it
Asker = tuple[int, int]
#: what a step was: "message" and its number, "task" and its id, "timer" and its worker
Entry = tuple[Literal["message", "task", "timer"], int]


@dataclass(frozen=True)
class Tail:
    """How long messages take from a turn on.

    ``kind``: those of one worker take alike ("workers", in ``order``, the quickest first), those that
    belong to one task ("tasks"), those from one worker to another ("links"), or each as it comes ("messages"),
    drawn from ``seed``. A reply belongs to whoever asked. ``threads``: what goes on at once takes its time as
    well, and slow tasks make way wherever they can, as on a busy processor. ``late``: what is next at
    the turn comes after all that, and if it is a task, it makes way again and again.
    """

    kind: Literal["workers", "tasks", "links", "messages"]
    seed: int = 0
    order: tuple[int, ...] = ()
    threads: bool = False
    late: bool = False

    def level(self, asker: Asker, asked: int, number: int) -> float:
        """How slow it is, from 0 to 1."""
        worker = asker[0]
        if self.kind == "workers":
            if worker not in self.order:
                return 0.0
            return self.order.index(worker) / max(1, len(self.order) - 1)
        names: dict[str, tuple[int, ...]] = {"tasks": asker, "links": (worker, asked)}
        return Random(repr((self.seed, *names.get(self.kind, (number,))))).random()


class Turn(NamedTuple):
    """After ``step`` steps the run goes on as ``tail`` has it. ``hold``: what was to happen next waits until the
    next turn, and goes first then."""

    step: int
    tail: Tail
    hold: bool = False


Path = tuple[Turn, ...]


def tails(workers: int) -> list[Tail]:
    """Ways to go on that differ much from each other, the most telling first."""
    ids = range(workers)
    orders: list[tuple[int, ...]]
    if workers <= _FEW:
        orders = list(permutations(ids))
    else:
        turned = [(*ids[first:], *ids[:first]) for first in ids]
        orders = [*turned, *(order[::-1] for order in turned)][: 2 * _FEW + 2]
    found = [Tail("workers", order=order) for order in orders[:4]]
    found.append(Tail("workers", late=True))
    for seed in (-1, -2, -3, -4):
        found += [Tail("links", seed), Tail("tasks", seed), Tail("tasks", seed, threads=True)]
        found.append(Tail("messages", seed))
    found += [Tail("workers", order=order) for order in orders[4:]]
    found += [Tail("workers", order=order, threads=True) for order in orders[:2]]
    return found


def more_tails(count: int) -> list[Tail]:
    """Others, drawn."""
    kinds: tuple[Tail, ...] = (
        Tail("tasks", threads=True),
        Tail("links"),
        Tail("messages", threads=True),
        Tail("messages"),
        Tail("links", threads=True),
    )
    return [replace(kinds[n % len(kinds)], seed=-100 - n) for n in range(count)]


class Steering(Watcher):
    """Leads the first run that starts while it is installed along a path. ``entries`` then has what each step
    was, and ``events_at`` how many events there were before it."""

    def __init__(self, path: Sequence[Turn] = ()) -> None:
        super().__init__()
        self._turns = list(path)
        self._tail: Tail | None = None
        self._time: SteeredTime | None = None
        self._held: Any = None
        #: the messages that were held: what they set off is not late either
        self._let_go: set[int] = set()
        #: the task that makes way wherever it can
        self._slow: int | None = None
        self._events = 0
        self._numbers = 0
        #: whose message was the last, and how many of that worker have come one after the other
        self._last_asker, self._times = -1, 0
        self._askers: dict[int, Asker] = {}
        self._requests: dict[tuple[int, int], Asker] = {}
        self.heal: Callable[[], object] = lambda: None
        self.entries: list[Entry] = []
        self.events_at: list[int] = []

    # -- what the run tells ---------------------------------------------------------------------

    def clock(self) -> VirtualTime | None:
        if self._time is not None:  # a run within the run
            return None
        self._time = SteeredTime(self)
        return self._time

    def faults(self, heal: Callable[[], object]) -> None:
        self.heal = heal

    def event(self, record: tuple[Any, ...]) -> None:
        self._events += 1
        if record[3] is not MESSAGE_SENT:
            return
        number, src, dst, type, id, *_ = record[4]
        asker = self._requests.get((dst, id)) if is_reply(type) else None
        if asker is None:
            asker = self._requests[src, id] = (src, record[2])
        self._askers[number] = asker

    # -- what the clock asks --------------------------------------------------------------------

    def late_s(self, event: Due, delay_s: float) -> float:
        """In how many seconds that happens which would in ``delay_s``."""
        tail = self._tail
        if tail is None:
            return delay_s
        if isinstance(event, Delivery):
            message = event.message
            if message.src == message.dst:
                return delay_s
            asker = self._askers.get(message.number, (message.src, -1))
            asked = message.src if asker[0] == message.dst else message.dst
        elif delay_s == 0 and isinstance(event, SimTask) and event.id == self._slow:
            return MOST_S
        elif tail.threads and delay_s == 0 and isinstance(event, SimTask):
            if event.cause in self._let_go:
                return delay_s
            asker, asked = _asker(event), -1
        else:
            return delay_s
        self._numbers += 1
        level = tail.level(asker, asked, self._numbers)
        self._times = self._times + 1 if asker[0] == self._last_asker else 1
        self._last_asker = asker[0]
        # Who asks and asks may wait for what is slow: a run of so many calls would take minutes.
        least_s = min(MOST_S, LEAST_S * 2 ** min(self._times // _PATIENCE, _DOUBLED))
        return float(max(least_s, LEAST_S * (MOST_S / LEAST_S) ** level))

    def yields(self) -> bool:
        """Whether the running task makes way."""
        runtime, tail = self.runtime, self._tail
        if runtime is None or tail is None:
            return False
        if runtime.running.id == self._slow:
            return True
        if not tail.threads:
            return False
        return tail.level(_asker(runtime.running), -1, self._numbers) > _SLOW

    def before_step(self, time: SteeredTime) -> None:
        """The next step is about to be made."""
        while self._turns and time.steps_made >= self._turns[0].step:
            self._turn(time, self._turns.pop(0))
        if self._held is not None and time.only_looks(_LOOKS):
            time.put_first(self._held)
            self._held = None
        entry = time.coming()
        if entry is not None:
            self.entries.append(_entry(entry[3]))
            self.events_at.append(self._events)
            self.next(entry[3], len(self.entries) - 1)

    def next(self, event: Any, step: int) -> None:
        """That is what the next step is."""

    def queued(self, event: Due) -> None:
        """That was queued just now."""

    def _turn(self, time: SteeredTime, turn: Turn) -> None:
        assert self.runtime is not None
        if self._tail is None:
            self.heal()
            time.order_stream, time.ordering = None, _MakingWay(self)
            self.runtime.waits_for_cpu = None
        self.runtime.preemptive = turn.tail.threads or turn.tail.late
        self._tail = turn.tail
        held, self._held = self._held, time.take() if turn.hold else None
        late = time.take() if turn.tail.late and held is None else None
        time.again(lambda event: self.late_s(event, 0.0), Delivery)
        time.sooner(self.runtime.late_by)
        self.runtime.late_by.clear()
        if held is not None:
            time.put_first(held)
            if isinstance(held[3], Delivery):
                self._let_go.add(held[3].message.number)
        if late is not None:
            time.put_again(late, 2 * MOST_S)
        self._slow = late[3].id if late is not None and isinstance(late[3], SimTask) else None


class _MakingWay:
    """First come, first served, but for tasks that make way."""

    preemptive = True

    def __init__(self, steering: Steering) -> None:
        self._steering = steering

    def priority(self, event: Any, due_s: float) -> float:
        return NORMAL

    def yields(self) -> bool:
        return self._steering.yields()


class SteeredTime(VirtualTime):
    """The clock of a run that is led along a path."""

    __slots__ = ("_steering",)

    def __init__(self, steering: Steering) -> None:
        super().__init__()
        self._steering = steering

    def put(self, event: Due, callbacks: Callbacks, delay_s: float) -> None:
        self._steering.queued(event)
        super().put(event, callbacks, self._steering.late_s(event, delay_s))

    def steps(
        self, *, until_s: float | None = None, max_steps: int | None = None
    ) -> Iterator[None]:
        self._steering.before_step(self)
        for _ in super().steps(until_s=until_s, max_steps=max_steps):
            yield
            self._steering.before_step(self)

    def only_looks(self, least: int) -> bool:
        """Whether nothing is queued but tasks that have looked so often whether anything has happened."""
        queue: list[Any] = self._queue
        return all(
            event.cancelled or (isinstance(event, SimTask) and looks_of(event) >= least)
            for _, _, _, event in queue
        )

    def coming(self) -> Any:
        """What comes next of all that is queued."""
        queue: list[Any] = self._queue
        return queue[0] if queue else None

    def next_due(self, least_s: float) -> tuple[float, Any] | None:
        """When something happens next, and what, if that is in ``least_s`` seconds or more."""
        entry = self.coming()
        if entry is None or entry[0] - self.now < least_s:
            return None
        queue: list[Any] = self._queue
        due = min((entry for entry in queue if not entry[3].cancelled), default=None)
        return None if due is None else (due[0], due[3])

    def take(self) -> Any:
        """Take out what would happen next; None if nothing would."""
        queue: list[Any] = self._queue
        while queue:
            entry = heapq.heappop(queue)
            if not entry[3].cancelled:
                return entry
            self.cancelled -= 1
        return None

    def put_first(self, entry: Any) -> None:
        """Let that which was taken out be the next to happen."""
        _, _, number, event = entry
        heapq.heappush(self._queue, (self.now, _FIRST, number, event))  # type: ignore[misc]

    def put_again(self, entry: Any, delay_s: float) -> None:
        """Let that which was taken out happen in so many seconds."""
        heapq.heappush(self._queue, (self.now + delay_s, *entry[1:]))

    def sooner(self, by: Mapping[int, float]) -> None:
        """Let the tasks that are queued go on so much sooner."""
        self._requeue(SimTask, lambda due_s, task: max(self.now, due_s - by.get(task.id, 0.0)))

    def again(self, late_s: Callable[[Due], float], kind: type[Due]) -> None:
        """Let everything of a kind that is queued happen in so many seconds."""
        self._requeue(kind, lambda _, event: self.now + late_s(event))

    def _requeue(self, kind: type[Due], due: Callable[[float, Any], float]) -> None:
        queue: list[Any] = self._queue
        queue[:] = [
            (due(due_s, event) if isinstance(event, kind) else due_s, priority, number, event)
            for due_s, priority, number, event in sorted(queue)
        ]
        heapq.heapify(queue)


def _asker(task: Any) -> Asker:
    return (-1 if task.worker is None else task.worker.id), task.id


def is_reply(type: str) -> bool:
    """Whether messages of that type answer others."""
    known = MessageType.__members__.get(type)
    return known is not None and bool(known & RESPONSE_FLAG)


def _entry(event: Any) -> Entry:
    if isinstance(event, Delivery):
        return ("message", event.message.number)
    if isinstance(event, SimTask):
        return ("task", event.id)
    worker = getattr(event, "worker", None)
    return ("timer", -1 if worker is None else worker.id)
