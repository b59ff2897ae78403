"""A fault that decided a failure, in words: which message it met, and what the caller did then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from squall.model.events.fault_effects import NATURES
from squall.model.events.names import request_named
from squall.sim.search.why.doing import called, name
from squall.sim.search.why.seen import Call, Fault
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import CodePlace

_DID = {
    "drop": "was lost",
    "loss": "was lost",
    "partition": "was lost, since there was no way",
    "fail": "could not be sent",
    "reset": "was lost with its connection",
    "corrupt": "arrived damaged",
    "duplicate": "came twice",
}


def told(
    faults: Sequence[Fault], witness: Witness, names: Mapping[int, str]
) -> tuple[list[str], list[Call], list[CodePlace]]:
    """Sentences, the calls that they are about, and the lines of these."""
    said: list[str] = []
    calls: list[Call] = []
    for fault in faults:
        sent = fault.sent
        if sent is None:
            who = name(fault.worker, names) if fault.worker >= 0 else "a message"
            said.append(f"A fault ({fault.kind}) hit {who}.")
            continue
        call = sent.call
        if call is None:
            where = f" ({sent.place})" if sent.place.file else ""
            what = request_named(sent.type)
            who = f"{what}{where} from {name(sent.src, names)} to {name(sent.dst, names)}"
            said.append(f"{who[:1].upper()}{who[1:]} {_did(fault)}.")
            continue
        which = "The answer to" if sent.is_reply else "The call of"
        said.append(f"{which} {called(call, names)} {_did(fault)}.")
        same = [each for each in like(call, witness) if each.id >= call.id][:2]
        other = _but_for_one(call, witness) if len(same) == 1 else None
        if other is not None:
            again, before, now = other
            said.append(
                f"{name(call.src, names)} called it again ({again.place}), with {now} instead of {before}."
            )
            same.append(again)
        elif len(same) > 1:
            where = f" ({same[1].place})" if same[1].place.file else ""
            twice = all(each.began >= 0 for each in same)
            ran = f": `{call.said}` ran twice on {name(call.dst, names)}" if twice else ""
            said.append(f"{name(call.src, names)} called it again{where}{ran}.")
        calls += same
    places = [call.place for call in calls if call.place.file]
    return said, calls, list(dict.fromkeys(places))


def _but_for_one(call: Call, witness: Witness) -> tuple[Call, str, str] | None:
    """The next call of the same function from the same line, if one argument alone is another one: which it was, and
    which it is, as a retry has that draws an identity of its own."""
    line = (call.src, call.dst, call.function, call.task, call.place)
    for each in witness.calls.values():
        if each.id > call.id and (each.src, each.dst, each.function, each.task, each.place) == line:
            both = list(zip(call.arguments.split(", "), each.arguments.split(", "), strict=False))
            others = [pair for pair in both if pair[0] != pair[1]]
            return (each, *others[0]) if len(others) == 1 < len(both) else None
    return None


def _did(fault: Fault) -> str:
    nature = NATURES.get(fault.kind)
    if nature is not None and nature.in_groups == "late":
        return "came late"
    return _DID.get(fault.kind, f"met a fault ({fault.kind})")


def like(call: Call, witness: Witness) -> list[Call]:
    """The calls of the same function with the same arguments by the same worker, in the run that ``witness`` saw."""
    key = (call.src, call.dst, call.function, call.arguments)
    return [
        each
        for each in witness.calls.values()
        if each is call
        or (call.function and (each.src, each.dst, each.function, each.arguments) == key)
    ]
