"""What faults did to a run, as its events tell it.

A run in which nothing was lost for good is held to everything, whatever was late, doubled, out
of order, or lost and sent again. Where something was, its effects are *indefinite*: a call that
timed out may have happened. So each check asks here, at some event, whether anything has been
hit by then, and only if so accepts an error in the place of a result. It never accepts a wrong
result.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from typing import Literal, NamedTuple

from squall.model.events.run import Run
from squall.real import tracing

#: what is sent again: how many times more
RETRIES = {
    "RREF_USER_DELETE": 5,
    "RREF_FORK_REQUEST": 5,
    "RREF_CHILD_ACCEPT": 5,
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": 20,
}
#: What a kind of fault does that checks have to know: nobody notices it, it loses messages, it
#: ends a worker and its memory, it raises an error in one, or a worker's own time is not that of
#: the others from then on. Of another kind calls may fail, each if its own events tell so, and nothing
#: else: as of one that lets messages come late, in another order, or changed.
Effect = Literal["unnoticed", "loses", "ends", "raises", "own time", ""]
#: What members of process groups notice of it: nothing but that it takes longer (sim/world/pieces.py), as long as they
#: end; that something is late, perhaps beyond a limit; that a connection ends, which both ends see at once; or anything.
InGroups = Literal["nothing", "late", "ends", ""]


class Nature(NamedTuple):
    """What checks have to know of a kind of fault; ``breaks``: it breaks, or closes, the connection of two workers."""

    effect: Effect = ""
    in_groups: InGroups = ""
    breaks: bool = False


#: of all kinds (sim/faults/kinds/)
NATURES: dict[str, Nature] = {
    "allocation": Nature("raises"),
    "bandwidth": Nature("", "late"),
    "clock_skew": Nature("own time", "nothing"),
    "corrupt": Nature("", "nothing", breaks=True),
    "crash": Nature("ends", "ends"),
    "delay": Nature("", "late"),
    "drop": Nature("loses", "nothing"),
    "duplicate": Nature("unnoticed", "nothing"),
    "fail": Nature("loses", "nothing", breaks=True),
    "fifo": Nature("unnoticed", "nothing"),
    "flapping": Nature("", "nothing", breaks=True),
    "garbage": Nature("unnoticed", "nothing"),
    "hold": Nature("", "late"),
    "latency_spike": Nature("", "late"),
    "loss": Nature("loses", "nothing"),
    "partition": Nature("", "", breaks=True),
    "pause": Nature("own time", "late"),
    "pool_size": Nature(),
    "raise": Nature("raises"),
    "reset": Nature("", "ends", breaks=True),
    "shutdown": Nature("ends"),
    "slow_cpu": Nature("own time", "late"),
    "slow_start": Nature("unnoticed", "late"),
}
EFFECTS: dict[str, Effect] = {kind: each.effect for kind, each in NATURES.items()}
#: the same of what a program does by itself: its workers leave a group whatever is under way
OF_PROGRAMS: dict[str, Effect] = {"leave": "ends"}
#: after which a worker answers nobody, and what it had is gone, in part or all of it
ENDING = frozenset(kind for kind, effect in {**EFFECTS, **OF_PROGRAMS}.items() if effect == "ends")
_ACKNOWLEDGEMENTS = frozenset({"RREF_ACK", "CLEANUP_AUTOGRAD_CONTEXT_RESP"})
#: so many losses are made good in so many seconds, even if they are all of one message
_MOST_LOSSES, _LONG_S = 4, 10.0
#: seconds that are none
_INSTANT_S = 1e-6

#: what errors say that come of faults: each is the text of one place in ``real/``, which says
#: what happened
EXPLAINED = re.compile(
    "|".join(
        (
            r"RPC ran for more than set timeout",
            r"The RPC has not succeeded after the specified number of max retries",
            r"RRef creation via rpc\.remote\(\) timed out",
            r"worker \d+ is not connected",
            r"worker \d+, which (owned|was to create) the value of .*, has ended",
            r"the connection (to|between) workers? \d+",
            r"connection reset by peer",
            r"no route from worker \d+",
            r"RPC agent is shutting down",
            r"RPC has been shut down on the owner of the RRef",
            r"RPC is no longer running on this node",
            r"RPC is not running",
            r"Current RPC agent is not set",
            r"RPC has not been initialized",
            r"Could not find autograd context with id",
            r"Couldn't find autograd context data",
            r"Could not find send function for autograd message id",
            r"these gradients belong to is over on worker",
            r"was released while worker",
            r"Autograd context no longer valid",
            r"a later backward pass has begun",
            r"injected",
        )
    )
)


class FaultEffects:
    """The faults of a run. Numbers are those of events.

    Does not refer to the run, which refers to this: a cycle would keep all its events until
    somebody looks for garbage.
    """

    def __init__(self, run: Run) -> None:
        self.injected = run.of(tracing.FAULT_INJECTED)
        #: how often each kind was injected
        self.counts: Counter[str] = Counter(run.records[n][4][0] for n in self.injected)
        #: by worker: when its process, or RPC on it, ended
        self.gone: dict[int, list[int]] = {}
        #: by worker: when a new process began
        self.back: dict[int, list[int]] = {}
        hard: list[int] = []
        left = run.of(tracing.GROUP_LEFT)
        for n in self.injected:
            kind, _, worker = run.records[n][4][:3]
            effect = EFFECTS.get(kind) or OF_PROGRAMS.get(kind)
            if effect == "ends":
                # A shutdown takes its time, so all that the worker does is before its end.
                end = n if kind == "crash" else len(run.records)
                if kind == "leave":
                    end = next((at for at in left if at > n and run.records[at][1] == worker), end)
                self.gone.setdefault(worker, []).append(end)
            elif kind == "restart":
                self.back.setdefault(worker, []).append(n)
            if effect in ("ends", "raises"):
                hard.append(n)
        for ends in self.gone.values():
            ends.sort()  # a shutdown, which takes its time, may come before a crash
        if self.injected and not self._light(run):
            hard += _failed_calls(run)
            hard += _exhausted(run)
        elif run.outcomes.recovery is not None:
            hard += slow_calls(run)
        #: when something was hit that nothing made good, in order
        self.hard = sorted(hard)
        #: by the number of a copy of a message: the event that says it was lost
        self.dropped: dict[int, int] = {
            run.records[n][4][0]: n for n in run.of(tracing.MESSAGE_DROPPED)
        }

    def __bool__(self) -> bool:
        """Whether there were any."""
        return bool(self.injected)

    def hit(self, n: int | None = None) -> bool:
        """Whether, before event ``n`` (None: ever), something was hit that nothing made good."""
        return bool(self.hard) and (n is None or self.hard[0] < n)

    def gone_after(self, worker: int, n: int) -> bool:
        """Whether the worker's process, as it was at event ``n``, ended later."""
        gone = self.gone.get(worker, [])
        return bisect_left(gone, n) < len(gone)

    def is_gone(self, worker: int, n: int) -> bool:
        """Whether the worker's process ended before event ``n``, and there is no new one."""
        ended = bisect_left(self.gone.get(worker, []), n)
        return ended > bisect_left(self.back.get(worker, []), n)

    def _light(self, run: Run) -> bool:
        """Whether all that happened is made good long before any call times out: copies, order,
        garbage, and a few losses of what is sent again after a second or two."""
        records = run.records
        losses = 0
        for n in self.injected:
            kind, _, _, _, _, type = records[n][4][:6]
            effect = EFFECTS.get(kind)
            if effect == "loses" and (type in RETRIES or type in _ACKNOWLEDGEMENTS):
                losses += 1
            elif effect != "unnoticed":
                return False
        timeouts = (records[n][4][3] for n in run.of(tracing.CALL_STARTED))
        shortest_s = min((timeout_s for timeout_s in timeouts if timeout_s), default=0.0)
        return losses <= _MOST_LOSSES and shortest_s >= _LONG_S


def _failed_calls(run: Run) -> list[int]:
    """Calls that are not sent again and that ended before the answer of their handler came."""
    records = run.records
    types: dict[tuple[int, int], str] = {}
    for n in run.of(tracing.CALL_STARTED):
        types[records[n][1], records[n][4][0]] = records[n][4][2]
    failed = [
        n
        for n in run.of(tracing.CALL_ENDED)
        if records[n][4][2] != "ok" and types.get((records[n][1], records[n][4][0])) not in RETRIES
    ]
    if not failed:
        return []
    # Not when its handler failed: the call may end of a fault while the answer is under way.
    refused = {
        (records[n][4][2], records[n][4][4]): n
        for n in run.of(tracing.MESSAGE_DELIVERED)
        if records[n][4][3] == "EXCEPTION"
    }
    return [
        n
        for n in failed
        if records[n][4][2] == "timeout" or refused.get((records[n][1], records[n][4][0]), n) >= n
    ]


def slow_calls(run: Run) -> list[int]:
    """Calls that timed out because of nothing but the network: all the time some message was on
    its way, so that nobody waited for anything else."""
    records = run.records
    ended = [n for n in run.of(tracing.CALL_ENDED) if records[n][4][2] == "timeout"]
    if not ended:
        return []
    started = {(records[n][1], records[n][4][0]): n for n in run.of(tracing.CALL_STARTED)}
    there_s = {
        records[n][4][0]: records[n][0]
        for n in run.of(tracing.MESSAGE_DELIVERED, tracing.MESSAGE_DROPPED)
    }
    under_way = [
        (records[n][0], there_s.get(records[n][4][0], math.inf))
        for n in run.of(tracing.MESSAGE_SENT)
    ]
    found = []
    for n in ended:
        began = started.get((records[n][1], records[n][4][0]))
        if began is None:
            continue
        covered_s, until_s = records[began][0], records[n][0]
        for sent_s, over_s in under_way:  # in the order of sending
            if covered_s >= until_s - _INSTANT_S or sent_s > covered_s + _INSTANT_S:
                break
            covered_s = max(covered_s, over_s)
        if covered_s >= until_s - _INSTANT_S:
            found.append(n)
    return found


def _exhausted(run: Run) -> list[int]:
    """The last tries of what is sent again: if they fail, nobody tries any more."""
    records = run.records
    return [
        n
        for n in run.of(tracing.CALL_RETRIED)
        if records[n][4][2] >= RETRIES.get(records[n][4][1], 0)
    ]


class Indefinite:
    """What nobody can tell after faults, from the one program and what came of it.

    An optimizer's step that failed may have been taken, on each of its leaves or on none: so the
    values of these leaves are unknown from there on. A leaf on a worker whose process ended is
    what it was at the start, or gone; its gradients went with the process.
    """

    def __init__(self, run: Run) -> None:
        one_process, workers = run.outcomes.expected, run.outcomes.got
        assert run.program is not None and one_process is not None and workers is not None
        program, faults = run.program, faults_of(run)
        #: leaves whose workers ended
        self.lost = {
            number for number, leaf in enumerate(program.leaves) if leaf.owner in faults.gone
        }
        #: leaves whose values are unknown at the end
        self.leaves: set[int] = set()
        #: steps (trainer, number) whose leaves were unknown when they began
        self.steps: set[tuple[int, int]] = set()
        if not faults.hit():
            return
        for number, trainer in enumerate(program.trainers):
            if trainer.optimizer is None:
                continue
            unknown = bool(self.lost.intersection(trainer.optimizer.leaves))
            for at, step in enumerate(trainer.steps):
                if unknown:
                    self.steps.add((number, at))
                got, expected = workers.steps.get((number, at)), one_process.steps[number, at]
                ended = got is not None and got.finished
                first = got.first_error if got is not None else None
                again = first is not None and expected.first_error is None
                if step.optimize and again:  # the first attempt may have come as far as that
                    self.steps.add((number, at))
                if step.optimize and (not ended or again or (got and got.error != expected.error)):
                    unknown = True
            if unknown:
                self.leaves.update(trainer.optimizer.leaves)


def indefinite(run: Run) -> Indefinite:
    """What nobody can tell of a run, found once."""
    known: Indefinite | None = run.__dict__.get("_indefinite")
    if known is None:
        known = run.__dict__["_indefinite"] = Indefinite(run)
    return known


def faults_of(run: Run) -> FaultEffects:
    """The faults of a run, found once."""
    known: FaultEffects | None = run.__dict__.get("_faults")
    if known is None:
        known = run.__dict__["_faults"] = FaultEffects(run)
    return known


def own_time(run: Run) -> set[int]:
    """The workers that stood still, were slow, or have a clock of their own."""
    found: set[int] = set(run.names) if run.conditions.busy else set()
    for n in run.of(tracing.FAULT_INJECTED):
        kind, _, worker = run.records[n][4][:3]
        if EFFECTS.get(kind) == "own time":
            found.add(worker)
    return found


def explained(error: str) -> bool:
    """Whether the text of an error says which fault it came of."""
    return EXPLAINED.search(error) is not None
