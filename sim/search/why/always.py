"""What is told of a failure that no other order avoids: who waits where, what was not over yet, collectives that do
not go together, calls whose gradients no context records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from squall.model.events.run import Run
from squall.sim.search.why.doing import called, name
from squall.sim.search.why.witness import Place, Witness

#: the user's line in a line of ``Run.waits``, and where those wait who only wait for others
_LINE = re.compile(
    r", at (?P<file>[^:]+):(?P<line>\d+): .*?(?P<other>\(in [\w.]*(?:spawn|start_processes|shutdown|join)\))?$"
)


class Hint(NamedTuple):
    """A sentence, and the lines that it names."""

    text: str
    places: tuple[Place, ...]


def hints(run: Run, witness: Witness, names: Mapping[int, str]) -> list[Hint]:
    """What may be the cause, the most certain first."""
    found = [*_collectives(witness, names), *_not_over(witness, names)]
    found += _without_context(witness, names)
    if run.waits and not found:
        found += _waits(run)
    return found


def _waits(run: Run) -> Iterator[Hint]:
    lines = [match for line in run.waits if (match := _LINE.search(line)) and not match["other"]]
    places = dict.fromkeys(Place(match["file"], int(match["line"])) for match in lines)
    if places:
        said = ", ".join(map(str, places))
        yield Hint(f"Nothing can go on: these wait at {said}.", tuple(places))


def _collectives(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """The first collective of a group for which its members came from different lines, or to which some have not
    come."""
    groups: dict[str, dict[int, list[tuple[str, Place]]]] = {}
    for each in witness.operations:
        if each.kind not in ("send", "recv") and each.place.file:
            groups.setdefault(each.group, {}).setdefault(each.member, []).append(
                (each.kind, each.place)
            )
    for members in groups.values():
        for number in range(max(map(len, members.values()))):
            came = {member: each[number] for member, each in members.items() if number < len(each)}
            if len(set(came.values())) > 1:
                (_, often), *_ = Counter(came.values()).most_common(1)[0][0], None
                others = [(m, each) for m, each in came.items() if each[1] != often]
                kind = Counter(came.values()).most_common(1)[0][0][0]
                told = ", ".join(
                    f"that of {name(m, names)} is `{k}` at {p}" for m, (k, p) in others
                )
                text = f"Collective {number + 1} of the group is `{kind}` at {often}, and {told}."
                yield Hint(text, (*(p for _, (_, p) in others), often))
                return


def _not_over(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """Operations of the process that raised which had begun and were not over then."""
    for error in witness.errors[:1]:
        for each in witness.operations:
            if (
                each.member == error.worker
                and each.began < error.event
                and not 0 <= each.ended < error.event
            ):
                text = f"`{each.kind}` of {name(each.member, names)} ({each.place}) was not over when it was raised."
                yield Hint(text, (each.place,))


def _without_context(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """Calls whose result has a graph that no pass reaches, made outside of any context by who has contexts."""
    found = {
        call.place: call
        for call in witness.calls.values()
        if call.function
        and call.graph
        and not call.in_context
        and call.src in witness.with_contexts
    }
    for place, call in found.items():
        if place.file:
            text = f"{called(call, names)} was called outside of any `dist_autograd.context()`: no gradient crosses it."
            yield Hint(text, (place,))
