"""Rules about values, texts and ends: what a step, a pass or a story comes to."""

from __future__ import annotations

import re

from squall.model.checks.compiled import first_line
from squall.model.program.acts.act import every
from squall.model.program.operations import KINDS, planted
from squall.model.program.program import Op
from squall.model.program.stories import PLANTED, on_torch
from squall.sim.diff.case import PASS_IS_OVER, Case, Predicts, bare_text
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import A_VALUE, NO_END
from squall.sim.diff.quirks import QUIRKS

_BACKWARD = "BACKWARD_AUTOGRAD_REQ"
_ENDINGS = ("outcome", "first error", "failed")
_TIMED_OUT = re.compile(
    r"(Error on Node \d+: )*RPCErr:1:RPC ran for more than set timeout \(60000 ms\) and will now "
    r"be marked with an error"
)
#: what a type that was read from nowhere leads to, and the process that read it
_MISREAD = re.compile(
    r"(Error on Node \d+: )*((MemoryError: )?std::bad_alloc|RuntimeError: On WorkerInfo\(id=\d+, "
    r"name=worker\d+\):.*|expected (ident|eof) but found.*|Unknown type name.*|.*codec can't decode.*"
    r"|(ValueError: )?std::length_error|.*basic_string.*|.*the connection to worker \d+.*"
    r"|.*is not connected.*)"
)
_LOST = re.compile(r".*(the connection to worker \d+ |is not connected).*")
_PLANTED_OR_LATE = re.compile(r"\w+: (planted|timed out after \d+ ms)")
#: the first line of what a function raised on another worker
_RAISED_THERE = re.compile(r"RuntimeError: On WorkerInfo\(id=\d+, name=worker\d+\):")
_RUNS_ALREADY = re.compile(
    r"(Error on Node \d+: )*A backward pass is already running in autograd context \d+ on worker \d+"
)
_ASSERTED = re.compile(
    r"(Error on Node \d+: )*initializedContextIds_\.find\(autogradContext->contextId\(\)\) == "
    r"initializedContextIds_\.end\(\) INTERNAL ASSERT FAILED at \".*dist_engine\.cpp\":\d+, please "
    r"report a bug to PyTorch\."
)
_DEPENDENCY_LOST = re.compile(
    r"RuntimeError: (Error on Node \d+: )*dependency not found for \w+(; .*|\n.*)?", re.DOTALL
)
#: stories whose line in torch is another one, known to the letter
_OTHER_LINES = {
    "confirmation": ("confirmed-after-its-future", "False"),
    "second pass": ("second-pass", "False; [2.0, 4.0]"),
}


_OF_QUIRKS = frozenset(quirk.name for quirk in QUIRKS)


# -- ends of steps --------------------------------------------------------------------------------


def _error_in_a_hook(case: Case, difference: Difference) -> bool:
    """Instead of the text of a hook's error, ``python_error``."""
    kind, ours, theirs = difference.place[0], difference.ours, difference.theirs
    if kind == "story":
        return case.story(difference.place).kind in (
            "stop at an error",
            "failed pass again",
        ) and theirs == ours.replace(PLANTED, "python_error")
    if kind not in _ENDINGS or difference.step is None:
        return False
    texts = [
        planted("hook", *difference.step, number)
        for number, op in enumerate(case.step(difference.step).ops)
        if op.fault == "hook"
    ]
    if bare_text(str(ours)) in texts and bare_text(str(theirs)) == "python_error":
        return True  # by whatever way it came
    return any(text in ours and theirs == ours.replace(text, "python_error") for text in texts)


def _second_pass(case: Case, difference: Difference) -> bool:
    """A pass that begins while one of its context runs fails by an internal assertion."""
    return (
        difference.place[0] == "failed"
        and _RUNS_ALREADY.fullmatch(str(difference.ours)) is not None
        and _ASSERTED.fullmatch(str(difference.theirs)) is not None
    )


def _after_a_timeout(case: Case, difference: Difference) -> bool:
    """A pass after one that failed waits for gradients that were taken for the failed one's."""
    key = difference.step
    if difference.place[0] != "outcome" or key is None or key not in case.open_from:
        return False
    passes = sum(backward.times for backward in case.step(key).backwards)
    return case.open_from[key] < passes - 1 and case.never_ends(difference)


def _lost_on_the_way(case: Case, difference: Difference) -> bool:
    """Torch sends a lost message of the RRef protocol again after a whole timeout, which whoever
    waits for it has too; the port sooner."""
    return (
        difference.place[0] in _ENDINGS
        and case.trace("lost") > 0
        and _TIMED_OUT.fullmatch(str(difference.theirs)) is not None
    )


def _makes_tuple_reference(op: Op) -> bool:
    return op.call == "rref" and KINDS[op.kind].outputs > 1


def _rref_of_a_tuple(case: Case, difference: Difference) -> bool:
    """A call that carries an RRef of a tuple fails, is never answered, or ends the process that
    reads it; other steps fail by that end alone."""
    makers = [key for key in case.keys if case.has(key, _makes_tuple_reference)]
    if not makers:
        return False
    kind, theirs = difference.place[0], difference.theirs
    if kind == "death":
        return _died(theirs)
    if kind not in (*_ENDINGS, "story"):
        return False
    if kind != "story" and difference.step in makers:
        return case.never_ends(difference) or _MISREAD.fullmatch(theirs) is not None
    return case.dies and (theirs == NO_END or _LOST.fullmatch(theirs) is not None)


def _home_before_creation(case: Case, difference: Difference) -> bool:
    """A function waits for a value that is not made, and its caller for as long as it has time."""
    key = difference.step
    if difference.place[0] != "outcome" or key is None or not case.comes_home(key):
        return False
    late = _TIMED_OUT.fullmatch(str(difference.theirs)) is not None and not case.ends
    return late or case.never_ends(difference)


def _other_error(case: Case, difference: Difference) -> bool:
    """Of two errors of a step, or of acts, the other one is told: which comes first, messages
    decide; also where one is that time is up, or that the pass is over by an error elsewhere."""
    if difference.place[0] == "story" and case.story(difference.place).acts:
        parts = [str(side).split("; ") for side in (difference.ours, difference.theirs)]
        limited = any(act.limit_s for act in every(case.story(difference.place).acts))
        return (
            limited
            and len(parts[0]) == len(parts[1])
            and all(
                one == other or (_PLANTED_OR_LATE.match(one) and _PLANTED_OR_LATE.match(other))
                for one, other in zip(*parts, strict=True)
            )
        )
    if difference.place[0] not in _ENDINGS or difference.step is None:
        return False
    key = difference.step
    ops = case.step(key).ops
    texts = [
        planted(op.fault, *key, number) for number, op in enumerate(ops) if op.fault is not None
    ]
    bare = [bare_text(str(side)) for side in (difference.ours, difference.theirs)]
    if difference.place[0] == "failed" and bare[0] == bare[1]:
        return _TIMED_OUT.fullmatch(bare[0]) is not None
    if PASS_IS_OVER in bare[0] and texts:
        return bare[1] in (*texts, "python_error")
    if difference.place[0] == "failed" and any(op.sleep for op in ops):
        return all(text in texts or _TIMED_OUT.fullmatch(text) for text in bare)
    return bare[0] != difference.ours and all(text in texts for text in bare)


def _late_gradients(case: Case, difference: Difference) -> bool:
    """The port says at once that a pass is over; torch takes its gradients for a new one."""
    return PASS_IS_OVER in str(difference.ours) and str(difference.theirs) in (
        A_VALUE,
        NO_END,
        "none",
    )


def _untyped_value(case: Case, difference: Difference) -> bool:
    """``RRef.backward`` of a value whose function raised: torch looks at its type first."""
    return (
        difference.place[0] in _ENDINGS
        and difference.theirs == "RRef should contain a tensor for .backward()"
        and "On WorkerInfo(" in str(difference.ours)
        and case.has(difference.step, lambda op: op.fault == "udf")
    )


# -- stories --------------------------------------------------------------------------------------


def _other_line(name: str) -> tuple[str, Predicts]:
    lines = {kind: line for kind, (rule, line) in _OTHER_LINES.items() if rule == name}

    def predicts(case: Case, difference: Difference) -> bool:
        if difference.place[0] != "story":
            return False
        return bool(difference.theirs == lines.get(case.story(difference.place).kind))

    return name, predicts


def told_on_torch(case: Case, difference: Difference) -> str | None:
    """The rule that a story declares beside its line on torch, if that is what came. A quirk makes the same line on
    the port."""
    if difference.place[0] != "story":
        return None
    home = case.home((difference.place[1], difference.place[2]))
    known = on_torch(case.story(difference.place), home)
    if known is None or known[0] in _OF_QUIRKS or difference.theirs != known[1]:
        return None
    return known[0]


def _overtaken_pass(case: Case, difference: Difference) -> bool:
    """The first pass fails with another text than that of the hook; the second one is right, or
    fails by what comes late of the first."""
    if difference.place[0] != "story" or case.story(difference.place).kind != "overtaken pass":
        return False
    first, _, rest = difference.theirs.partition("; ")
    right = difference.ours.partition("; ")[2]
    return first == "False" and (rest == right or _DEPENDENCY_LOST.fullmatch(rest) is not None)


def _without_stacks(text: str) -> str:
    """A text of torch without the stacks of C++ and of Python in it."""
    text = re.sub(r"\nException raised from .*(\nframe #\d+: .*)*\n?", "", text)
    return re.sub(r"\n\nAt:(\n  .*\(\d+\): .*)+\n?", "", text).strip()


def _text_with_stack(case: Case, difference: Difference) -> bool:
    """The same text, but for stacks."""
    return difference.place[0] in ("story", "beside", *_ENDINGS) and _parts(
        _without_stacks(str(difference.theirs))
    ) == _parts(str(difference.ours))


def _parts(text: str) -> list[str]:
    return [first_line(part.strip()) for part in text.split(";")]


# -- processes ------------------------------------------------------------------------------------


def _died(text: str) -> bool:
    return re.fullmatch(r"worker \d+ died of (SIGSEGV|SIGABRT)", text) is not None


def _process_death(case: Case, difference: Difference) -> bool:
    """A worker of torch dies of memory that was freed; others lose their connection to it, and
    wait for what it had."""
    kind, theirs = difference.place[0], difference.theirs
    if kind == "death":
        return case.trace("late", difference.place[1]) > 0 and _died(theirs)
    if kind == "leaf":
        owner = case.program.leaves[difference.place[1]].owner
        return owner in case.dead and theirs.numel() == 0
    if kind == "left":  # what nobody told the others to let go
        return case.dies and bool(difference.theirs > 0)
    return (
        kind in (*_ENDINGS, "story", "beside")
        and case.anything_fails
        and case.dies
        and (theirs == NO_END or _LOST.fullmatch(str(theirs)) is not None)
    )


VALUE_RULES = (
    ("rref-of-a-tuple", _rref_of_a_tuple),
    ("lost-control-message", _lost_on_the_way),
    ("error-in-a-hook", _error_in_a_hook),
    ("second-pass", _second_pass),
    ("pass-after-a-timeout", _after_a_timeout),
    ("home-before-creation", _home_before_creation),
    ("error-text-with-stack", _text_with_stack),
    *(_other_line(name) for name in dict.fromkeys(rule for rule, _ in _OTHER_LINES.values())),
    ("overtaken-pass", _overtaken_pass),
    ("late-gradients-start-a-pass", _late_gradients),
    ("another-error-first", _other_error),
    ("type-before-the-error", _untyped_value),
    ("process-death", _process_death),
)
