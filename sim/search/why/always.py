"""What is told of a failure that no other order avoids: who waits where, what was not over yet, collectives that do
not go together, calls whose gradients no context records."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import torch

from squall.model.events.run import Run
from squall.sim.search.why.doing import called, name
from squall.sim.search.why.matched import Hint, by_member, collectives
from squall.sim.search.why.origins import origin
from squall.sim.search.why.touched import growing
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import CodePlace

#: values and threads of one line that are many
_MANY = 3
#: of what becomes more and more
_STILL_THERE = {
    "references": "{} RRefs made at {} were not released.",
    "threads": "{} threads begun at {} still run.",
}
_NO_MEMORY = (MemoryError, torch.OutOfMemoryError)
#: what containers keep that a program leaks
_LEAKS = ("references", "threads", "futures", "contexts")
#: the user's line in a line of ``Run.waits``, and where those wait who only wait for others
_LINE = re.compile(
    r", at (?P<file>[^:]+):(?P<line>\d+): .*?(?P<other>\(in [\w.]*(?:spawn|start_processes|shutdown|join)\))?$"
)


def hints(run: Run, witness: Witness, names: Mapping[int, str]) -> list[Hint]:
    """What may be the cause, the most certain first."""
    found = [*_elsewhere(witness, names), *_no_context(witness), *_changed(witness, names)]
    found += [*_had_left(witness, names), *_tags(witness, names)]
    found += [*_in_another_order(witness, names)]
    found += [*_unwaited(witness), *collectives(witness, names), *_not_over(witness, names)]
    found += _without_context(witness, names)
    if run.rpc_groups.leaked_contexts:
        return [*found, *_left(run, witness)]
    found += _many(witness)
    if _is_leak(run, witness):
        return [*found, *_growing(witness, certain=False)]
    # A check of the user's may have found that there are too many.
    checked = witness.errors and witness.errors[0].kind is AssertionError
    return found if found or not checked else [*_growing(witness, certain=True)]


def _elsewhere(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """Where the error was raised, if that was on another worker, and where a file was removed that is not there."""
    for error in witness.errors[:1]:
        missing = error.missing
        calls = [c for c in witness.calls.values() if c.raised.file and c.dst == error.remote]
        if calls:
            call = max(calls, key=lambda call: call.ended)
            text = f"{called(call, names)} raised it on {name(call.dst, names)}, at {call.raised}."
            yield Hint(text, (call.raised,))
            missing = call.missing
        for each in reversed(witness.removed) if missing else ():
            if each.place.file and (missing + os.sep).startswith(each.path + os.sep):
                yield Hint(f"`{each.path}` was removed at {each.place}.", (each.place,))
                break


def _no_context(witness: Witness) -> Iterator[Hint]:
    """Where the context was begun that was not there any more."""
    for error in witness.errors[:1]:
        begun = witness.contexts.get(error.context)
        if error.context < 0:
            return
        if begun is None:
            yield Hint(f"Nobody has begun a context with the id {error.context}.", ())
        elif error.context in witness.over and begun.file:
            text = f"The context with that id, which was begun at {begun}, was over: its `with` had ended."
            yield Hint(text, (begun,))


def _changed(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """Memory was changed while it was sent."""
    for each in witness.operations:
        if each.changed:
            who = name(each.worker, names)
            text = (
                f"What {who} sends at {each.place} was changed before somebody had waited for that."
            )
            yield Hint(text, (each.place,))
            return


def _had_left(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """The worker that was called last had left already."""
    for error in witness.errors[:1]:
        calls = [call for call in witness.calls.values() if call.src == error.worker]
        for each in witness.left:
            if calls and each.worker == calls[-1].dst and each.event < error.event:
                who, last = name(each.worker, names), called(calls[-1], names)
                text = f"{who} had left its group ({each.place}) before the answer to {last}."
                if each.woken.file:
                    text += (
                        f" It had waited until `{each.woken.function}` ({each.woken}) let it go on."
                    )
                yield Hint(text, tuple(p for p in (each.woken, each.place) if p.file))
                return


def _tags(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """A message is waited for that nobody sends, and another lies there that is not received: they differ in their
    tags."""
    messages = [each for each in witness.operations if each.kind in ("send", "recv")]
    for waits in (each for each in messages if each.kind == "recv" and not each.good):
        # By tag: what was sent to it, and not received.
        under: Counter[int] = Counter()
        sent = []
        for each in messages:
            if each.group == waits.group and each.kind == "send" and each.peer == waits.member:
                under[each.number] += 1
                sent.append(each)
            elif (each.group, each.kind, each.member) == (waits.group, "recv", waits.member):
                under[each.number] -= each.good
        lying = [each for each in sent if under[each.number] > 0]
        if lying and under[waits.number] <= 0:
            other = lying[-1]
            text = (
                f"`recv` of {name(waits.worker, names)} ({waits.place}) waits for tag {waits.number}; "
                f"what {name(other.worker, names)} has sent ({other.place}) has tag {other.number}."
            )
            lines = [each for each in witness.lines.executed if each.task == waits.task]
            found = origin("tag", waits.place, lines)
            if found is not None:
                text += f" The tag was chosen at {found}."
            yield Hint(text, (*([found] if found else []), waits.place, other.place))
            return


def _many(witness: Witness) -> Iterator[Hint]:
    """What has become more and more."""
    for error in witness.errors[:1]:
        for what, text in _STILL_THERE.items():
            numbers: Counter[CodePlace] = Counter()
            for each in error.unended:
                if each.what == what:
                    numbers[each.place] += each.number
            for place, number in numbers.items():
                if number >= _MANY:
                    yield Hint(text.format(number, place), (place,))


def _left(run: Run, witness: Witness) -> Iterator[Hint]:
    """What was never left, and what grows in the functions that made it."""
    lines = {
        (str(place), place.function): place
        for each in witness.lines.executed
        if (place := CodePlace(each.code.co_filename, each.line, each.code.co_name))
    }
    made = [
        (each, lines[each.place, each.function])
        for each in run.processes.kept
        if each.what == "contexts" and (each.place, each.function) in lines
    ]
    functions = {(place.file, place.function) for _, place in made}
    holding = [
        hint
        for hint in _growing(witness, certain=False)
        if functions.intersection((place.file, place.function) for place in hint.places)
    ]
    yield from holding
    for each, place in [] if holding else made:
        yield Hint(
            f"{each.number} contexts of {each.worker} made at {place} were never left.", (place,)
        )


def _is_leak(run: Run, witness: Witness) -> bool:
    """Whether it may have failed of what has become more and more."""
    for error in witness.errors[:1]:
        numbers: Counter[CodePlace] = Counter()
        for each in error.unended:
            if each.what in _LEAKS:
                numbers[each.place] += each.number
        return issubclass(error.kind, _NO_MEMORY) or any(
            number >= _MANY for number in numbers.values()
        )
    return run.rpc_groups.leaks


def _growing(witness: Witness, *, certain: bool) -> Iterator[Hint]:
    """What may hold what has become more and more."""
    for container, places in growing(witness.lines, certain=certain).items():
        said = ", ".join(map(str, places))
        text = f"`{container}` grows: things are put into it at {said}, and never taken out."
        yield Hint(text, tuple(places))


def waiting_at(run: Run) -> list[CodePlace]:
    """Where those wait who cannot go on, but for those who only wait for others to end."""
    lines = [match for line in run.waits if (match := _LINE.search(line)) and not match["other"]]
    return list(dict.fromkeys(CodePlace(match["file"], int(match["line"])) for match in lines))


def _in_another_order(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """A variable has the same strings in all members at the collectives of a line, but not in the same order."""
    for members in by_member(witness):
        lines = dict.fromkeys((o.kind, o.place) for came in members.values() for o in came)
        for kind, place in lines:
            at = {
                m: [o.words for o in came if o.place == place and o.kind == kind]
                for m, came in members.items()
            }
            for variable in next((words[0] for words in at.values() if words), {}):
                values = {m: [w.get(variable, "") for w in words] for m, words in at.items()}
                number = _differ(list(values.values()))
                if number is not None:
                    told = ", ".join(
                        f"{v[number]!r} on {name(m, names)}" for m, v in sorted(values.items())
                    )
                    text = f"Call {number + 1} of `{kind}` at {place}: `{variable}` is {told}. Each does the same, in another order."
                    yield Hint(text, (place,))
                    break


def _differ(lists: Sequence[Sequence[str]]) -> int | None:
    """Where lists that have the same in them differ first; None if they do not, or are not such lists."""
    if len({tuple(sorted(each)) for each in lists}) != 1:
        return None
    return next((n for n, each in enumerate(zip(*lists, strict=True)) if len(set(each)) > 1), None)


def _not_over(witness: Witness, names: Mapping[int, str]) -> Iterator[Hint]:
    """Operations of the process that raised which had begun and were not over then."""
    for error in witness.errors[:1]:
        for each in witness.operations:
            if (
                each.worker == error.worker
                and each.began < error.event
                and not 0 <= each.ended < error.event
            ):
                text = f"`{each.kind}` of {name(each.worker, names)} ({each.place}) was not over when it was raised."
                yield Hint(text, (each.place,))


def _unwaited(witness: Witness) -> Iterator[Hint]:
    """Operations that nobody has waited for, in the process that raised, though others of the same line were."""
    for error in witness.errors[:1]:
        for each in error.own:
            if each.what == "operations":
                text = f"Nobody had waited for {each.number} operation{'s' * (each.number > 1)} begun at {each.place}"
                text += (
                    f", only for others of that line, at {each.others}."
                    if each.others.file
                    else "."
                )
                yield Hint(text, tuple(place for place in (each.others, each.place) if place.file))


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
            begun = witness.begun.get(call.task)
            thread = (
                f", in a thread that {begun} has begun" if begun is not None and begun.file else ""
            )
            text = f"{called(call, names)} was called outside of any `dist_autograd.context()`{thread}: no gradient crosses it."
            yield Hint(text, (place, begun) if thread and begun is not None else (place,))
