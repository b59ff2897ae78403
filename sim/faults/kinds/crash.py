"""Workers whose process ends, and may come back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Ability, Effect, Fault, Injection
from squall.sim.faults.kinds.delay import Delay
from squall.sim.faults.kinds.fail import Fail
from squall.sim.faults.limits import Seconds
from squall.sim.faults.moments import Moment
from squall.sim.faults.workers import WorkerEffect, WorkerFault
from squall.sim.world.processes import processes_of

if TYPE_CHECKING:
    from squall.real.worker import Worker


#: with these a worker comes to have what belongs to a process of another one, or others what belongs to its own
_MADE = (
    "call_ended",
    "udf_started",
    "handler_ended",
    "user_confirmed",
    "fork_added",
    "child_pending",
    "child_accepted",
    "owner_created",
    "context_created",
    "known_worker_added",
    "send_attached",
    "recv_attached",
    "gradients_received",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(WorkerFault):
    """Its process ends. Its connections are reset, and its peers see that at once. With ``silent``
    they see nothing, and their calls run into timeouts.

    After ``restart_after_s`` a new process of the same rank starts, with empty state, and joins the
    group again. With None there is no new process. One of a program trains nothing; if it ``works``, it
    keeps references to values of all others for a moment, and a context that they know.
    """

    position: ClassVar[int] = 1
    may_need: ClassVar[Mapping[Ability, str]] = {"restart": "that restarts"}
    further_events: ClassVar[tuple[str, ...]] = ("restart",)

    kind: Literal["crash"] = "crash"
    silent: bool = False
    restart_after_s: Seconds | None = None
    works: bool = False

    def done_to(self, worker: str) -> str:
        silent = ", which its peers do not notice" if self.silent else ""
        after_s = self.restart_after_s
        again = "" if after_s is None else f", and starts it again {after_s:g} s later"
        again += ", when it works" if again and self.works else ""
        return f"ends the process of {worker}{silent}{again}"

    def needed(self) -> tuple[Ability, ...]:
        return () if self.restart_after_s is None else ("restart",)

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Crashing(self, name, injection)


class _Crashing(WorkerEffect[Crash]):
    def __init__(self, item: Crash, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        processes_of(injection.runtime)

    def happen(self, worker: Worker) -> None:
        item, injection = self.item, self.injection
        if injection.host.crash(item.worker, silent=item.silent):
            self.report(item.worker, "silent" if item.silent else "reset")
        if item.restart_after_s is not None:
            # Healing does not take it back: it is part of the healing.
            timer = injection.runtime.call_later(item.restart_after_s, self._restart)
            timer.worker = None

    def _restart(self) -> None:
        host, worker = self.injection.host, self.item.worker
        # Another fault may have brought a process back meanwhile.
        if host.crash(worker, silent=False):
            self.report(worker, "reset")
        self.injection.report("restart", self.name, worker, None)
        host.restart(worker)


@drawn("crash in a back-off")
def in_a_back_off(choices: Choices, stream: random.Random) -> list[Fault]:
    """The process of a worker whose request waits to be sent again ends, or the one that it is
    for, which may be there again when it comes."""
    type, worker, moment = choices.back_off(stream)
    ends = worker if stream.random() < 0.3 else choices.worker(stream)
    fails = Fail(types=(type,), src=worker, nth=choices.nth(stream, 3, 3), id=choices.id())
    after_s = stream.choice((None, 0.0, 0.3, 1.2))
    return [fails, Crash(worker=ends, restart_after_s=after_s, **moment)]


@drawn("crash")
def some(choices: Choices, stream: random.Random) -> list[Crash]:
    found = []
    most = 2 if choices.profile == "storm" else 1
    for worker in stream.sample(range(choices.workers), min(most, choices.workers - 1)):
        after_s = stream.choice((None, 0.0, choices.for_s(stream), choices.for_s(stream)))
        found.append(
            Crash(
                worker=worker,
                silent=stream.random() < 0.4,
                restart_after_s=after_s,
                **choices.moment(stream, worker),
            )
        )
    return found


def as_others_keep(choices: Choices, stream: random.Random) -> list[Fault]:
    """A process ends, once or twice, as others have just come to have something of it, and the next one
    of its rank is there before they use that. What is on its way then may be late: if it is from the process
    that ends, so is the news."""
    worker = choices.worker(stream)
    found: list[Fault] = []
    for _ in range(stream.choice((1, 1, 2))):
        moment = Moment(
            event=stream.choice(_MADE),
            worker=choices.worker(stream),
            nth=stream.choice((1, 1, 2, 3, 5, 8)),
        )
        if stream.random() < 0.3:  # what is under way then reaches nobody behind that process
            other = (worker + stream.randint(1, choices.workers - 1)) % choices.workers
            moment = Moment(event="context_released", worker=other, nth=stream.randint(1, 2))
        found.append(
            Crash(
                worker=worker,
                silent=stream.random() < 0.2,
                restart_after_s=stream.choice((0.0, 0.0, 0.0, 0.002, 0.1)),
                works=stream.random() < 0.5,
                moment=moment,
                at_s=stream.choice((0.0, 0.0, 0.0, 0.0005, 0.005, 0.02)),
            )
        )
    if stream.random() < 0.6:
        seconds = stream.choice((0.01, 0.1, 2.0))
        nth = choices.nth(stream, 4, 2)
        src = worker if stream.random() < 0.7 else choices.worker(stream)
        found.append(Delay(src=src, nth=nth, seconds=seconds, id=choices.id()))
    return found
