"""The same scenario on both engines and in one process, and where they part.

What differs is told by step, then by story, then by counts of messages and of what is left. A
difference that sim/diff/rules.py knows carries the name of its rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome, StepOutcome
from squall.model.program.compare import compare, to_dense
from squall.model.program.program import Program
from squall.real.tracing import MESSAGE_SENT
from squall.sim.programs.faults import run_with_faults
from squall.sim.programs.run import ProgramRun, run_program
from squall.sim.search.judge import MAX_STEPS, Scenario
from squall.sim.stock.program import TORN, NativeRun, run_native
from squall.sim.stock.zygote import Zygote

#: where a sent message has its type, and the ids in it
_TYPE, _ABOUT = MESSAGE_SENT.fields.index("type"), MESSAGE_SENT.fields.index("about")
#: counters of torch's debug info that must be zero when nothing is under way
LEFT = (
    "num_owner_rrefs",
    "num_forks",
    "num_pending_users",
    "num_autograd_contexts",
    "num_current_backward_passes",
)


@dataclass(frozen=True)
class Difference:
    """Something that is not the same on both engines, or not what one process computes.

    ``kind``: outcome, gradient, story, kept, messages, left, hang or death. ``where``: the step,
    story or message type. ``rule``: the known difference that it is, or none.
    """

    kind: str
    where: str
    port: str
    torch: str
    one_process: str = ""
    #: (trainer, step) if it is about one
    step: tuple[int, int] | None = None
    #: all that torch says, where ``torch`` is the first line of it
    detail: str = ""
    rule: str | None = None

    def __str__(self) -> str:
        reference = f", one process: {self.one_process}" if self.one_process else ""
        return f"{self.kind} of {self.where}: port: {self.port}, torch: {self.torch}{reference}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "where": self.where,
            "port": self.port,
            "torch": self.torch,
            "one_process": self.one_process,
            "rule": self.rule,
        }


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


def first_line(text: str | None) -> str:
    """What two engines should say alike: the first line of an error, without what surrounds it."""
    if text is None:
        return "none"
    return text.strip().partition("\n")[0].strip()


def compare_engines(scenario: Scenario, zygote: Zygote) -> Comparison:
    """Run a scenario on both engines, and in one process."""
    from squall.sim.diff.rules import with_rules

    program = scenario.program
    options: dict[str, Any] = {
        "seed": scenario.seed,
        "latency": scenario.latency,
        "shut_down_early": scenario.shut_down_early,
        "max_steps": MAX_STEPS,
        "bandwidth_bytes_per_s": scenario.bandwidth_bytes_per_s,
        "rpc_timeout_s": scenario.rpc_timeout_s,
    }
    expected = interpret(program)
    native = run_native(program, zygote, plan=scenario.plan, **options)
    port = _run_port(scenario, options)
    found = list(_differences(program, expected, port, native))
    return Comparison(
        scenario,
        with_rules(program, found),
        messages=sum(native.cluster.trace.message_counts().values()),
        digest=native.cluster.trace.digest(),
    )


def _run_port(scenario: Scenario, options: dict[str, Any]) -> ProgramRun:
    if not scenario.plan:
        return run_program(scenario.program, raises=False, **options)
    options = {name: value for name, value in options.items() if name != "shut_down_early"}
    return run_with_faults(scenario.program, scenario.plan, raises=False, **options)


def _differences(
    program: Program, expected: Outcome, port: ProgramRun, native: NativeRun
) -> Iterator[Difference]:
    for death in native.deaths:
        yield Difference("death", f"worker {death.worker}", "lives", str(death))
    for worker in native.torn:
        yield Difference("death", f"memory of worker {worker}", "lives", TORN)
    if native.crash is not None and not native.deaths:
        yield Difference("death", "the run", port.crash or "ends", native.crash)
    for trainer, number, _ in program.steps:
        key = (trainer, number)
        ours = port.outcome.steps.get(key, StepOutcome())
        theirs = native.outcome.steps.get(key, StepOutcome())
        yield from _step(program, key, expected.steps[key], ours, theirs)
    for place, line in port.outcome.stories.items():
        trainer, number, index = place
        kind = program.trainers[trainer].steps[number].stories[index].kind
        other = native.outcome.stories.get(place)
        if first_line(line) != first_line(other):
            yield Difference("story", kind, line, other or "it did not end", step=place[:2])
    for place, values in port.outcome.kept.items():
        others = native.outcome.kept.get(place)
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


#: messages that name a context, first of all
_OF_A_CONTEXT = (
    "FORWARD_AUTOGRAD_REQ",
    "FORWARD_AUTOGRAD_RESP",
    "BACKWARD_AUTOGRAD_REQ",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ",
    "RREF_BACKWARD_REQ",
)
#: numbers of messages by type and step; None: of no step, or not of its last attempt
_Sent = Counter[tuple[str, tuple[int, int] | None]]


def _sent(run: ProgramRun | NativeRun) -> _Sent:
    steps = {step.context: key for key, step in run.outcome.steps.items() if step.context >= 0}
    sent: _Sent = Counter()
    for record in run.cluster.trace.records:
        if record[3] is MESSAGE_SENT:
            name, about = record[4][_TYPE], record[4][_ABOUT]
            of = steps.get(about[0]) if about and name in _OF_A_CONTEXT else None
            sent[name, of] += 1
    return sent


def _under_way(native: NativeRun) -> list[str]:
    """What the workers count that should be nothing at the end."""
    lines = []
    for worker, table in enumerate(native.stuck):
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
