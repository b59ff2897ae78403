"""Streams of the stand-in device: queues of kernels that run as late as anybody may see.

A stream runs its kernels in order. Nothing else is sure: a kernel runs when the host waits for it,
when another stream's kernel that has to run waits for an event behind it, or earlier, if the run's
random numbers say so. What reads memory without having waited for what writes it therefore reads
what was there before: a pattern that no program writes (:data:`POISON`).
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from squall.model.events.stream_order import StreamEvent
from squall.sim.world.callers import caller

#: how many devices there are
DEVICES = 4
#: what fills memory before it is written, and after it is freed: NaN in any floating dtype
POISON = 0xFF
#: how many streams a device hands out before it begins anew, as CUDA's pools do
_POOL = 32
#: how eager the streams of one run are: how likely one kernel runs for each that is queued
_EAGERNESS = (0.0, 0.0, 0.3, 0.9)


class Work:
    """An entry of a stream: a kernel, a mark that an event stands for, or a wait for one."""

    __slots__ = ("after", "done", "run", "stream")

    def __init__(
        self, stream: Queue, run: Callable[[], object] | None = None, after: Work | None = None
    ) -> None:
        self.stream = stream
        self.run = run
        #: what has to be done first
        self.after = after
        self.done = False


class Queue:
    """What one stream has still to do, in order."""

    __slots__ = ("device", "id", "last", "pending")

    def __init__(self, device: int, id: int) -> None:
        self.device = device
        self.id = id
        self.pending: deque[Work] = deque()
        #: what was queued last, done or not
        self.last: Work | None = None

    def __repr__(self) -> str:
        return f"stream {self.id} of standin:{self.device}"


class Block:
    """A piece of memory of the device, shared by all tensors that are views of it.

    When the last of them is gone, the allocator gives it to whatever asks next on the stream that
    it was allocated on. ``used_on``: other streams that are to be waited for first (record_stream).
    """

    __slots__ = ("_memory", "device", "id", "stream", "used_on")

    def __init__(self, device: StandIn, queue: Queue, memory: Any) -> None:
        device.blocks += 1
        self.id = device.blocks
        self.device = device
        self.stream = queue
        self.used_on: dict[Queue, None] = {}
        self._memory = memory

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.device.freed(self, self._memory)


class StandIn:
    """All stand-in devices of this process, and the streams that are current on them.

    ``log`` holds what model/events/stream_order.py judges, while :attr:`recording`.
    """

    def __init__(self) -> None:
        self.end()

    def reset(self, seed: int) -> None:
        """Forget everything, for a run with other random numbers."""
        self.log: list[StreamEvent] = []
        self.recording, self.synchronous = True, False
        self.blocks = 0
        #: by device: where memory that several streams use waits for all of them
        self._keepers = [Queue(device, -1) for device in range(DEVICES)]
        #: told of each stream that becomes current
        self.changed: Callable[[Queue], object] = lambda queue: None
        self._events = 0
        self._random = random.Random(f"stand-in {seed}")
        self._eagerness = self._random.choice(_EAGERNESS)
        self.defaults = [Queue(index, 0) for index in range(DEVICES)]
        self._pools: list[list[Queue]] = [[] for _ in range(DEVICES)]
        self._handed_out = [0] * DEVICES
        self._busy: dict[Queue, None] = {}
        self.current = list(self.defaults)
        #: the current device, if somebody chose one; else it is the home of who runs
        self.chosen_device: int | None = None
        #: by worker, where its tensors are unless it says otherwise
        self.homes: list[int] = []
        #: who runs, for the log, and to know its home
        self.who: Callable[[], int] = lambda: -1

    def end(self) -> None:
        """No run uses the devices any more: what is queued is done, and from here on all is done at
        once and nothing of it told. :attr:`log` stays."""
        log: list[StreamEvent] = []
        if hasattr(self, "log"):
            log = self.log
            self.recording = False
            for index in range(DEVICES):
                self.synchronize(index)
        self.reset(0)
        self.log = log
        self.recording, self.synchronous = False, True

    def lag(self) -> None:
        """From here on nothing runs before somebody has to see it."""
        self._eagerness = 0.0

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What the host reads in here is no part of the run: the log does not have it."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    def home(self, worker: int) -> int:
        return self.homes[worker] if 0 <= worker < len(self.homes) else 0

    @property
    def current_device(self) -> int:
        return self.home(self.who()) if self.chosen_device is None else self.chosen_device

    def differs(self) -> bool:
        """Whether a task has chosen a device or streams."""
        return self.chosen_device is not None or self.current != self.defaults

    def take(self) -> tuple[int | None, list[Queue]]:
        """What a task has chosen; the defaults after."""
        taken = self.chosen_device, self.current
        self.put((None, list(self.defaults)))
        return taken

    def put(self, taken: tuple[int | None, list[Queue]]) -> None:
        """Make a task's choice the current one."""
        self.chosen_device, chosen = taken
        self.current, before = chosen, self.current
        for old, new in zip(before, chosen, strict=True):
            if old is not new:
                self.changed(new)

    def from_pool(self, device: int) -> Queue:
        """The next stream of a device's pool."""
        pool = self._pools[device]
        number = self._handed_out[device] % _POOL
        self._handed_out[device] += 1
        if number == len(pool):
            pool.append(Queue(device, number + 1))
        return pool[number]

    # -- queuing ------------------------------------------------------------------------------

    def kernel(
        self,
        queue: Queue,
        name: str,
        reads: Iterable[Block],
        writes: Iterable[Block],
        run: Callable[[], object],
    ) -> None:
        """Queue a kernel."""
        if self.recording:
            self.log.append(
                StreamEvent(
                    "kernel",
                    (queue.device, queue.id),
                    name=name,
                    reads=tuple(dict.fromkeys(block.id for block in reads)),
                    writes=tuple(dict.fromkeys(block.id for block in writes)),
                    worker=self.who(),
                    where=caller(),
                )
            )
        self._queue(Work(queue, run))

    def mark(self, queue: Queue) -> tuple[int, Work]:
        """What is queued so far, as an event: its number and the mark in the queue."""
        self._events += 1
        number = self._events
        work = Work(queue)
        if self.recording:
            self.log.append(StreamEvent("record", (queue.device, queue.id), event=number))
        self._queue(work)
        return number, work

    def wait(self, queue: Queue, event: tuple[int, Work]) -> None:
        """Let what is queued from here on wait for an event."""
        number, work = event
        if self.recording:
            self.log.append(StreamEvent("wait", (queue.device, queue.id), event=number))
        self._queue(Work(queue, after=work))

    def _queue(self, work: Work) -> None:
        queue = work.stream
        queue.pending.append(work)
        queue.last = work
        self._busy[queue] = None
        if self.synchronous:
            self._finish(work)
            return
        while self._busy and self._random.random() < self._eagerness:
            early = self._random.choice(list(self._busy))
            self._finish(early.pending[0])

    # -- running ------------------------------------------------------------------------------

    def synchronize_stream(self, queue: Queue) -> None:
        """The host waits for all that is queued on a stream."""
        if self.recording:
            self.log.append(StreamEvent("host", (queue.device, queue.id)))
        if queue.last is not None:
            self._finish(queue.last)

    def synchronize_event(self, event: tuple[int, Work]) -> None:
        """The host waits for an event."""
        if self.recording:
            queue = event[1].stream
            self.log.append(StreamEvent("host", (queue.device, queue.id), event=event[0]))
        self._finish(event[1])

    def synchronize(self, device: int) -> None:
        """The host waits for all streams of a device."""
        for queue in (self.defaults[device], *self._pools[device]):
            self.synchronize_stream(queue)

    def _finish(self, target: Work) -> None:
        """Run what has to be run for ``target``, and no more."""
        stack = [target]
        while stack:
            work = stack[-1]
            if work.done:
                stack.pop()
                continue
            queue = work.stream
            head = queue.pending[0]
            after = head.after
            if after is not None and not after.done:
                stack.append(after)
                continue
            queue.pending.popleft()
            if not queue.pending:
                self._busy.pop(queue, None)
            head.done = True
            head.after = None
            run, head.run = head.run, None
            if run is not None:
                run()

    # -- memory -------------------------------------------------------------------------------

    def freed(self, block: Block, memory: Any) -> None:
        """The last tensor that used a block is gone: the next one may write to it."""
        queue = block.stream
        if block.used_on:  # no stream waits: the memory stays away until the others have got so far
            queue = self._keepers[queue.device]
            for user in (block.stream, *block.used_on):
                self.wait(queue, self.mark(user))
        self.kernel(
            queue,
            "memory given to the next tensor",
            (),
            (block,),
            lambda: poison(memory.untyped_storage()),
        )


def poison(storage: Any) -> None:
    """Fill memory with what no program writes."""
    if storage.nbytes():
        storage.fill_(POISON)


#: the devices of this process
STAND_IN = StandIn()
