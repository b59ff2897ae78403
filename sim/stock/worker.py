"""One worker process of the engine ``torch``, as the coordinator sees it."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass

from squall.model.events.run_parts import Death
from squall.real import tracing
from squall.real.rpc.called import function_in
from squall.sim.scripts.rounds import Polling
from squall.sim.stock import message as wire
from squall.sim.stock.fork_server import ForkServer, Process
from squall.sim.stock.message import Batch
from squall.sim.stock.patience import ComputingError, wait_readable
from squall.sim.world.primitives import SimTimer

_SIZE = struct.Struct("<I")
_CHUNK = 1 << 16
#: seconds in which a worker has to be quiet after a command, see patience.py
PATIENCE_S = 30.0


@dataclass
class Call:
    """A request that a worker has made and that nothing has come of yet."""

    #: the number that traces show
    id: int
    dst: int
    type: str
    about: tuple[object, ...]
    sent_at_s: float
    #: as it was sent
    wire: bytes = b""
    timer: SimTimer | None = None

    @property
    def function(self) -> str:
        """The name of what it calls; "" where that is no function."""
        return function_in(self.wire)


class NativeWorker:
    """A worker process: it is given one command at a time and answers each with a batch."""

    def __init__(self, rank: int, fork_server: ForkServer, process: Process) -> None:
        #: as a trace knows it; -1 until it has an agent, or is in a process group
        self.id = -1
        self.rank = rank
        self.name = f"worker{rank}"
        #: which process it is, where it has no rank
        self.what = self.name
        self.tracer: tracing.Tracer = tracing.NULL_TRACER
        self.process = process
        self._fork_server = fork_server
        self.alive = True
        #: which process of its rank this is, and the agent that it has not in this process
        self.incarnation = 0
        self.agent = None
        #: whether it is among those that can be called
        self.attached = False
        #: whether its RPC group goes on without it
        self.leaves_alone = False
        #: how it has ended, in words
        self.ending = ""
        #: whether its machine is gone, so that nobody is told of its end
        self.vanished = False
        #: how many of its calls, and of others' requests, are under way there
        self.calls = 0
        self.requests = 0
        self.pending: dict[int, Call] = {}
        #: numbers of what it has asked and was not told yet
        self.open: set[int] = set()
        #: its native ids as traces show them
        self.shown: dict[int, int] = {}
        self.numbers = 0
        self._rest = b""
        #: seconds for which it may compute; None: as many as it is waited for
        self.computing_s: float | None = None
        #: a loop of it that polls, and what the process had computed when something had last happened
        self.polling: Polling | None = None
        self.moved = -1
        self.computed_s = 0.0
        #: whether it was given up since it computed for longer
        self.is_computing = False

    @property
    def known_as(self) -> str:
        """What people are told of it by."""
        is_named = self.rank >= 0 or self.id < 0
        return self.name if is_named else f"rank {self.id}"

    def exchange(self, command: bytes | None) -> Batch | None:
        """Give a command (None: it has just started), and read the batch. None: it has died.

        Raises TimeoutError if it does not get quiet.
        """
        if command is not None:
            self.give(command)
        return self.hear()

    def give(self, command: bytes) -> None:
        """The first half of :meth:`exchange`."""
        with suppress(ConnectionError):  # which is seen when it is heard
            self.process.link.sendall(command)

    def hear(self) -> Batch | None:
        """The second half of :meth:`exchange`, once it is its turn."""
        try:
            while not (data := self._read()):
                self.give(wire.command(b"G", 0.0))  # it has waited for its turn
        except ComputingError:
            self.is_computing, self.polling = True, None
            raise
        except (ConnectionError, EOFError):
            self.alive = False
            return None
        batch = wire.read_batch(data)
        self.calls, self.requests = batch.calls, batch.requests
        return batch

    def _read(self) -> memoryview:
        """The next message, its length taken off; whatever its size, it is copied here once."""
        (size,) = _SIZE.unpack(self._fill(_SIZE.size))
        return self._fill(size)

    def _fill(self, size: int) -> memoryview:
        """The next ``size`` bytes."""
        data = memoryview(bytearray(size))
        link, at = self.process.link, 0
        if self._rest:
            at = min(size, len(self._rest))
            data[:at], self._rest = self._rest[:at], self._rest[at:]
        while at < size:
            wait_readable(link, self.process.pid, PATIENCE_S, self.computing_s)
            if size - at >= _CHUNK:
                count = link.recv_into(data[at:])
                at += count
            else:  # with what may have come behind it
                more = link.recv(_CHUNK)
                count = len(more)
                wanted = min(count, size - at)
                data[at : at + wanted], self._rest = more[:wanted], more[wanted:]
                at += wanted
            if not count:
                raise EOFError
        return data

    def death(self, time_s: float) -> Death:
        """What it died of."""
        code = self._fork_server.reap(self.process)
        return Death(self.rank, code, self.process.stderr(), time_s, self.what)

    def kill(self) -> None:
        """End it, at once."""
        self.alive = False
        self._fork_server.kill(self.process)

    def close(self) -> None:
        self.alive = False
        self._fork_server.discard(self.process)
        self.process.close()
