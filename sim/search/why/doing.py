"""One step of a run in words: a function runs, an answer comes, a thread goes on, a time limit is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from squall.model.events.names import request_named
from squall.sim.search.why.seen import Call
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import NOWHERE, CodePlace
from squall.sim.world.steering import Entry

Kind = Literal["runs", "answer", "thread", "timeout", "message"]


#: functions of PyTorch's own that it calls on other workers, in words
_PYTORCHS = {
    "_local_optimizer_step": "the optimizer's step",
    "_script_local_optimizer_step": "the optimizer's step",
}


class Doing(NamedTuple):
    """What a step does: ``who`` (a phrase), and what becomes of it (``did``), on ``worker``. ``event``: when, in the run
    that it is of. ``call``: the call that it is about, if any."""

    kind: Kind
    worker: int
    who: str
    did: str
    event: int
    call: Call | None = None
    place: CodePlace = NOWHERE


def doing(witness: Witness, step: int, names: Mapping[int, str]) -> Doing:
    """What that step of the run does. ``names``: of workers."""
    kind, number = witness.entries[step]
    first = witness.events_at[step]
    last = witness.events_at[step + 1] if step + 1 < len(witness.events_at) else first + 1
    ended = [call for event, call in witness.timeouts if first <= event < last]
    if ended:
        call = ended[0]
        return Doing(
            "timeout",
            call.src,
            f"the time limit of {called(call, names)}",
            "was over",
            first,
            call,
            call.place,
        )
    if kind == "message":
        return _message(witness, number, first, names)
    task = witness.tasks.get(number) if kind == "task" else None
    if task is not None and task.cause in witness.sent and task.parent < 0:
        return _message(witness, task.cause, first, names)
    thread = witness.threads.get(step)
    if thread is not None:
        place = thread.to if thread.to.file else thread.at
        where = f" to `{place.function}` ({place})" if place.file else ""
        begun = witness.begun.get(number, NOWHERE)
        if begun.file and not where:
            kinds = [each.kind for each in witness.operations if each.place == begun]
            what = f"`{kinds[0]}`" if kinds else "what was begun"
            place, where = begun, f" with {what} ({begun})"
        worker = witness.worker_of(step)
        owner = name(worker, names) if thread.owner is None or worker >= 0 else thread.owner.name
        return Doing("thread", worker, thread.who(owner), f"went on{where}", first, None, place)
    return Doing(
        "thread",
        witness.worker_of(step),
        f"a {kind}{on(witness.worker_of(step), names)}",
        "went on",
        first,
    )


def event_of(what: Doing, entry: Entry, witness: Witness, since: int) -> int:
    """When the same happens in the run that ``witness`` saw, -1 if it does not. ``entry``: the step that it was in its
    own run; ``since``: the step from which on it is looked for where no call says which one it is."""
    call = what.call
    if call is None:
        later = range(since, len(witness.entries))
        return next((witness.events_at[n] for n in later if witness.entries[n] == entry), -1)
    if what.kind == "timeout":
        return next((event for event, each in witness.timeouts if each.key == call.key), -1)
    ran = witness.calls.get(call.key)
    if what.kind == "runs" and ran is not None and ran.began >= 0:
        return ran.began
    return witness.arrival(call, is_reply=what.kind == "answer")


def _message(witness: Witness, number: int, event: int, names: Mapping[int, str]) -> Doing:
    sent = witness.sent.get(number)
    if sent is None:
        return Doing("message", -1, "a message", "arrived", event)
    call, src, dst = sent.call, name(sent.src, names), name(sent.dst, names)
    if call is None:
        what = request_named(sent.type)
        where = f" ({sent.place})" if sent.place.file else ""
        return Doing(
            "message",
            sent.dst,
            f"{what} of {src}{where}",
            f"reached {dst}",
            event,
            None,
            sent.place,
        )
    if sent.is_reply:
        return Doing(
            "answer",
            sent.dst,
            f"the answer to {called(call, names)}",
            f"reached {dst}",
            event,
            call,
            call.place,
        )
    did = f"ran on {dst}" if call.may_be_users else f"reached {dst}"
    place = call.place if call.place.file else call.made
    return Doing("runs", sent.dst, called(call, names), did, event, call, place)


def called(call: Call, names: Mapping[int, str]) -> str:
    """A call as a phrase: its function, who called it, and where."""
    where = f" ({call.place})" if call.place.file else ""
    where += f", made at {call.made}," if call.made.file else ""
    what = _PYTORCHS.get(call.function, f"`{call.function}`" if call.function else call.name)
    return f"{what} of {name(call.src, names)}{where}"


def name(worker: int, names: Mapping[int, str]) -> str:
    return names.get(worker) or (f"worker {worker}" if worker >= 0 else "a process")


def on(worker: int, names: Mapping[int, str]) -> str:
    return f" of {name(worker, names)}" if worker >= 0 else ""
