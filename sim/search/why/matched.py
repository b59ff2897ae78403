"""Operations of members of a group that go together: collectives of one number, and messages of one tag."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from squall.sim.search.why.doing import name
from squall.sim.search.why.seen import Operation, Site
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import CodePlace


class Hint(NamedTuple):
    """A sentence, and the lines that it names."""

    text: str
    places: tuple[CodePlace, ...] = ()


def by_member(witness: Witness) -> list[dict[int, list[Operation]]]:
    """The collectives of each group, by the worker of each member, in the order in which they go together with those of others."""
    groups: dict[str, dict[int, list[Operation]]] = {}
    for each in sorted(witness.operations, key=lambda each: each.number):
        came = groups.setdefault(each.group, {}).setdefault(each.worker, [])
        if each.kind not in ("send", "recv") and each.place.file:
            came.append(each)
    return list(groups.values())


def collectives(
    witness: Witness, names: Mapping[int, str], *, callers: bool = False
) -> Iterator[Hint]:
    """The first collective of a group for which its members came from different lines, or to which some have not
    come. ``callers``: the lines that have called these functions tell them apart, too."""
    for members in by_member(witness):
        # Who has raised the error comes to nothing any more, which is no cause of it.
        raised = {each.worker for each in witness.errors}
        for number in range(max(map(len, members.values()))):
            hint = _collective(number, members, names, callers, raised)
            if hint is not None:
                yield hint
                break


def mixed_up(failing: Witness, passing: Witness, names: Mapping[int, str]) -> Hint | None:
    """Members of a group whose collectives do not go together, where they do in a run that passes."""
    for callers in (False, True):
        if next(collectives(passing, names, callers=callers), None) is None:
            for hint in collectives(failing, names, callers=callers):
                if len(hint.places) > 1:
                    return hint
    return None


def swapped(failing: Witness, passing: Witness, names: Mapping[int, str]) -> list[Hint]:
    """The first message of a member with a tag that comes from another line than in a run that passes: what it is in
    each."""
    for callers in (False, True):
        there = _sends(passing, callers)
        for (group, member, tag), lines in _sends(failing, callers).items():
            others = there.get((group, member, tag), [])
            for number, (here, other) in enumerate(zip(lines, others, strict=False), 1):
                if here != other and here in others and other in lines:
                    what = f"Message {number} with tag {tag} of {name(member, names)}"
                    return [
                        Hint(f"{what} is that of {here}.", here.places),
                        Hint(f"In runs that pass it is that of {other}.", other.places),
                    ]
    return []


def taken(failing: Witness, passing: Witness, step: int, names: Mapping[int, str]) -> list[Hint]:
    """The first receive from any member that takes the message of another one than in a run that passes, if that step is of
    one of these three: what it takes in each."""
    where = failing.worker_of(step)
    there = dict(_taken(passing))
    for key, (receive, here) in _taken(failing):
        _, other = there.get(key, (receive, here))
        if other.worker != here.worker and where in (receive.worker, here.worker, other.worker):
            first, second = (f"{name(each.worker, names)} ({each.place})" for each in (here, other))
            who = f"`{receive.kind}` of {name(receive.worker, names)} from any rank"
            return [
                Hint(
                    f"{who} ({receive.place}) took the message of {first}.",
                    (receive.place, here.place),
                ),
                Hint(f"In runs that pass it took that of {second}.", (other.place,)),
            ]
    return []


def _taken(witness: Witness) -> Iterator[tuple[tuple[object, ...], tuple[Operation, Operation]]]:
    """Receives from any member, which name they have in each run, and the message that each takes."""
    sends: defaultdict[tuple[object, ...], deque[Operation]] = defaultdict(deque)
    for each in witness.operations:
        if each.kind == "send":
            sends[each.group, each.number, each.member, each.peer].append(each)
    counts: Counter[tuple[object, ...]] = Counter()
    received = [each for each in witness.operations if each.kind == "recv" and each.good]
    for each in sorted(received, key=lambda each: each.ended):
        queue = sends[each.group, each.number, each.peer, each.member]
        sent = queue.popleft() if queue else None
        if each.is_from_any and sent is not None:
            site = each.group, each.number, each.member, each.place
            counts[site] += 1
            yield (*site, counts[site]), (each, sent)


def _sends(witness: Witness, callers: bool) -> dict[tuple[str, int, int], list[Site]]:
    """By group, member and tag: the lines that its messages come from, in the order in which they go."""
    found: dict[tuple[str, int, int], list[Site]] = {}
    for each in witness.operations:
        if each.kind == "send":
            key = each.group, each.worker, each.number
            found.setdefault(key, []).append(each.site(callers=callers))
    return found


def _collective(
    number: int,
    members: Mapping[int, list[Operation]],
    names: Mapping[int, str],
    callers: bool,
    raised: Collection[int | None],
) -> Hint | None:
    """What is wrong with a collective of a group, if anything."""
    came = {member: each[number] for member, each in members.items() if number < len(each)}
    sites = {member: each.site(callers=callers) for member, each in came.items()}
    usual = Counter(sites.values()).most_common(1)[0][0]
    others = {member: site for member, site in sites.items() if site != usual}
    if others:
        told = ", ".join(
            f"that of {name(member, names)} is `{site.kind}` at {site}"
            for member, site in others.items()
        )
        text = f"Collective {number + 1} of the group is `{usual.kind}` at {usual}, and {told}."
        places = (place for site in (*others.values(), usual) for place in site.places)
        return Hint(text, tuple(dict.fromkeys(places)))
    missing = [
        name(member, names) for member in members if member not in came and member not in raised
    ]
    if missing and not any(each.good for each in came.values()):
        return Hint(
            f"`{usual.kind}` at {usual} waits for {', '.join(missing)}, which {'do' if len(missing) > 1 else 'does'} not come to it.",
            usual.places,
        )
    return None
