"""The network of a run, by hand: for the functions that ranks call, on squall's own engine.

>>> import squall
>>> import torch.distributed.rpc as rpc
>>> seen = []
>>> def note(word):
...     seen.append(word)
...     return list(seen)
>>> def step(rank):
...     if rank == 0:
...         with squall.network.hold(kind="PYTHON_CALL", dst=1) as held:
...             calls = [rpc.rpc_async("worker1", note, args=(word,)) for word in "ab"]
...             first, second = held.wait(2)
...             held.deliver(second)
...             calls[1].wait()
...             held.deliver(first)
...             return calls[0].wait()
>>> squall.run(step, workers=2, join="worker{rank}").results[0]
['b', 'a']

A rule looks at each message that is sent, and says what becomes of it: :func:`drop`, :func:`delay`,
:func:`duplicate` and :func:`fail` make rules, for the messages of a ``kind`` (the name of a type, or several),
from ``src``, to ``dst``, the ``nth`` of them, from 1, or those for which ``where(message)`` is true.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Unpack

from squall.real import tracing
from squall.real.rpc.message import Message
from squall.real.worker import Worker, current_worker_or_none
from squall.sim.scripts.compat.process import SimProcess, current_process
from squall.sim.world import crash as crashing
from squall.sim.world.held_messages import Held
from squall.sim.world.network import Network
from squall.sim.world.processes import processes_of
from squall.sim.world.rules import Rule, Which, delay, drop, duplicate, fail

__all__ = [
    "crash",
    "delay",
    "deliver",
    "drop",
    "duplicate",
    "fail",
    "hold",
    "in_flight",
    "now",
    "pause",
    "resume",
    "rule",
]


def hold(**which: Unpack[Which]) -> Held:
    """Hold such messages on their way: a context manager, which lets all go at its end. What it
    gives has ``messages``, ``wait(count)``, ``deliver(message)`` and ``drop(message)``.

    Raises RuntimeError outside a rank, as all functions here do.
    """
    return _here().hold(**which)


def rule(judge: Rule) -> AbstractContextManager[None]:
    """Let a rule judge every message until the end of the block."""
    return _here().rule(judge)


def in_flight() -> list[Message]:
    """The messages that are under way, held ones left out, in the order of their arrival."""
    return _here().in_flight()


def deliver(message: Message) -> None:
    """Let a message that is under way arrive now. Raises LookupError if it is not."""
    _here().deliver(message)


def now() -> float:
    """Virtual time since the start of the run, in seconds."""
    return float(_here().runtime.now())


def crash(rank: int, *, silent: bool = False) -> None:
    """End the process of a rank. Its peers see their connections close; or, ``silent``, nothing.

    Raises LookupError if there is no such rank, or if it has ended.
    """
    network, process = _here(), _process(rank)
    if network.tracer.enabled:
        values = ("crash", "", rank, -1, -1, "", 0, -1, None)
        network.tracer.emit(tracing.FAULT_INJECTED, *values)
    crashing.crash(network, process.worker, silent=silent)
    process.crash()


def pause(rank: int) -> None:
    """Nothing of a rank runs from now on: messages and timers wait for it. Raises LookupError."""
    network, process = _here(), _process(rank)
    if network.tracer.enabled:
        values = ("pause", "", rank, -1, -1, "", 0, -1, None)
        network.tracer.emit(tracing.FAULT_INJECTED, *values)
    processes_of(network.runtime).pause(process.worker)


def resume(rank: int) -> None:
    """A rank that was paused goes on. Raises LookupError."""
    processes_of(_here().runtime).resume(_process(rank).worker)


def _worker() -> Worker:
    worker = current_worker_or_none()
    if worker is None:
        raise RuntimeError(
            "squall.network is for the functions that ranks call, on squall's own engine (port): "
            "there is no rank here"
        )
    return worker


def _here() -> Network:
    network = _worker().world
    assert isinstance(network, Network), "ranks live in a simulated world"
    return network


def _process(rank: int) -> SimProcess:
    _worker()
    for process in current_process().group.processes:
        if rank in (process.rank, process.worker.id) and not process.has_ended:
            return process
    raise LookupError(f"there is no rank {rank} that has not ended")
