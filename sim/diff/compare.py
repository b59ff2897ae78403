"""One scenario on both engines and in one process, and how the results differ.

Differences come by step, then by story, then by counts of messages and of what is left. A
difference that sim/diff/rules.py knows carries the name of its rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from squall.model.checks.compiled import LEFT, TORN, first_line
from squall.model.events.run import Run
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome, StepOutcome
from squall.model.program.compare import compare, to_dense
from squall.model.program.program import Program
from squall.real.tracing import MESSAGE_SENT
from squall.sim.diff.difference import Difference
from squall.sim.diff.rules import with_rules
from squall.sim.faults.plan import Schedule
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES

#: where a sent message has its type, and the ids in it
_TYPE, _ABOUT = MESSAGE_SENT.fields.index("type"), MESSAGE_SENT.fields.index("about")


@dataclass
class Comparison:
    """What came of a scenario on both engines."""

    scenario: Scenario
    differences: list[Difference] = field(default_factory=list)
    messages: int = 0
    digest: str = ""

    @property
    def unknown(self) -> list[Difference]:
        return [each for each in self.differences if each.rule is None]

    @property
    def rules(self) -> list[str]:
        """The rules that apply, each once."""
        return list(dict.fromkeys(each.rule for each in self.differences if each.rule is not None))


def compare_engines(scenario: Scenario) -> Comparison:
    """Run the scenario of a program on both engines, and in one process.

    Tasks run first come, first served on both: the engine ``torch`` cannot follow another order.
    """
    program = scenario.program
    assert program is not None, "scripts are compared by what they print"
    plan = replace(scenario.faults, schedule=Schedule())
    scenario = scenario.in_world(faults=plan, skip_handshakes=False)
    expected = interpret(program)
    native = ENGINES["torch"].run(scenario)
    port = ENGINES["port"].run(scenario)
    found = list(_differences(program, expected, port, native))
    return Comparison(
        scenario,
        with_rules(program, found),
        messages=sum(native.messages.values()),
        digest=native.digest,
    )


def _differences(
    program: Program, expected: Outcome, port: Run, native: Run
) -> Iterator[Difference]:
    assert port.got is not None and native.got is not None
    for death in native.deaths:
        yield Difference("death", f"worker {death.worker}", "lives", str(death))
    for worker in native.torn:
        yield Difference("death", f"memory of worker {worker}", "lives", TORN)
    if native.crash is not None and not native.deaths:
        yield Difference("death", "the run", port.crash or "ends", native.crash)
    for trainer, number, _ in program.steps:
        key = (trainer, number)
        ours = port.got.steps.get(key, StepOutcome())
        theirs = native.got.steps.get(key, StepOutcome())
        yield from _step(program, key, expected.steps[key], ours, theirs)
    for place, line in port.got.stories.items():
        trainer, number, index = place
        kind = program.trainers[trainer].steps[number].stories[index].kind
        other = native.got.stories.get(place)
        if first_line(line) != first_line(other):
            yield Difference("story", kind, line, other or "it did not end", step=place[:2])
    for place, values in port.got.kept.items():
        others = native.got.kept.get(place)
        if others is None:
            yield Difference("kept", str(place), "a value", "none", step=place[:2])
            continue
        for value, tensor in zip(values, others, strict=True):
            complaint = compare(tensor, value, exact=program.mode == "exact").complaint
            if complaint is not None:
                yield Difference("kept", str(place), "a value", complaint, step=place[:2])
    if native.waits and not port.waits:
        shown = "\n".join([*native.waits, *_under_way(native)])
        yield Difference("hang", "the run", "ends", native.waits[0], detail=shown)
    for worker, table in enumerate(native.tables):
        left = {name: table[name] for name in LEFT if table.get(name)}
        if left and not port.waits:
            said = ", ".join(f"{name} {count}" for name, count in left.items())
            yield Difference("left", f"worker {worker}", "nothing", said)
    ours_sent, theirs_sent = _sent(port), _sent(native)
    same_kinds = _kinds(ours_sent) == _kinds(theirs_sent)
    for sort in sorted({*ours_sent, *theirs_sent}, key=lambda each: (each[1] or (-1, -1), each[0])):
        if ours_sent[sort] != theirs_sent[sort]:
            name, of = sort
            said = "as many of both kinds" if same_kinds else ""
            where = name if of is None else f"{name} of trainers[{of[0]}].steps[{of[1]}]"
            ours_count, theirs_count = str(ours_sent[sort]), str(theirs_sent[sort])
            yield Difference("messages", where, ours_count, theirs_count, step=of, detail=said)


#: messages whose first id is that of a context
_OF_A_CONTEXT = (
    "FORWARD_AUTOGRAD_REQ",
    "FORWARD_AUTOGRAD_RESP",
    "BACKWARD_AUTOGRAD_REQ",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ",
    "RREF_BACKWARD_REQ",
)
#: numbers of messages by type and step; None: they belong to no step, or to an attempt before the
#: last
_Sent = Counter[tuple[str, tuple[int, int] | None]]


def _sent(run: Run) -> _Sent:
    assert run.got is not None
    steps = {step.context: key for key, step in run.got.steps.items() if step.context >= 0}
    sent: _Sent = Counter()
    for record in run.records:
        if record[3] is MESSAGE_SENT:
            name, about = record[4][_TYPE], record[4][_ABOUT]
            of = steps.get(about[0]) if about and name in _OF_A_CONTEXT else None
            sent[name, of] += 1
    return sent


def _under_way(native: Run) -> list[str]:
    """Counters of the workers that should be zero at the end and are not."""
    lines = []
    for worker, table in enumerate(native.stuck_tables):
        names = (*LEFT, "agent.client_active_calls", "agent.server_active_calls")
        lines += [f"worker {worker}: {name} {table[name]}" for name in names if table.get(name)]
    return lines


def _kinds(sent: _Sent) -> _Sent:
    """Numbers of messages, whether TorchScript or Python made them."""
    kinds: _Sent = Counter()
    for (name, of), count in sent.items():
        kinds[name.replace("SCRIPT_", "PYTHON_"), of] += count
    return kinds


def _step(
    program: Program,
    key: tuple[int, int],
    expected: StepOutcome,
    ours: StepOutcome,
    theirs: StepOutcome,
) -> Iterator[Difference]:
    where = f"trainers[{key[0]}].steps[{key[1]}]"
    for one, other in (
        (_ending(ours), _ending(theirs)),
        (first_line(ours.first_error), first_line(theirs.first_error)),
    ):
        if one != other:
            reference = _ending(expected)
            detail = f"{theirs.error or ''}\n{theirs.first_error or ''}"
            yield Difference("outcome", where, one, other, reference, step=key, detail=detail)
            return
    exact = program.mode == "exact"
    for op, value in ours.roots.items():
        if op in theirs.roots:
            complaint = compare(theirs.roots[op], value, exact=exact).complaint
            if complaint is not None:
                yield Difference("gradient", f"{where}, root {op}", "", complaint, step=key)
                return
    if ours.error is not None or not ours.finished:
        return
    if len(ours.passes) != len(theirs.passes):
        said = f"{len(theirs.passes)} passes"
        yield Difference("gradient", where, f"{len(ours.passes)} passes", said, step=key)
    for number, (grads, others) in enumerate(zip(ours.passes, theirs.passes, strict=False)):
        for leaf in sorted({**grads, **others}):
            ours_grad, theirs_grad = grads.get(leaf), others.get(leaf)
            if ours_grad is not None and theirs_grad is not None:
                complaint = compare(theirs_grad, ours_grad, exact=exact).complaint
            else:
                only = ours_grad if ours_grad is not None else theirs_grad
                assert only is not None
                if not bool(to_dense(only).any()):
                    continue
                complaint = "is missing" if theirs_grad is None else "is there, too many"
            if complaint is not None:
                place = f"{where} after pass {number}, leaves[{leaf}]"
                right = (
                    "as in one process"
                    if not _wrong(expected, number, leaf, ours_grad)
                    else "wrong"
                )
                yield Difference("gradient", place, right, complaint, step=key)
                return


def _wrong(expected: StepOutcome, number: int, leaf: int, got: Any) -> bool:
    if number >= len(expected.passes) or got is None:
        return True
    reference = expected.passes[number].get(leaf)
    return reference is None or compare(got, reference, exact=False).complaint is not None


def _ending(step: StepOutcome) -> str:
    if not step.finished:
        return "it does not end"
    return "a value" if step.error is None else first_line(step.error)
