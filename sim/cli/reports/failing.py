"""What failed, for people: the program as PyTorch code, what was expected, and what came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from squall.model.events.names import in_words
from squall.model.events.run import Violation
from squall.model.program.program import Program
from squall.model.program.source import NotPlainError
from squall.sim.export.program import step_code
from squall.sim.scenario import Scenario

#: lines of a program that are shown at most; squall export has all of them
MOST_LINES = 120
_STEP = re.compile(r"trainers\[(\d+)\]\.steps\[(\d+)\]")
_OPERATION = re.compile(r"(trainers\[\d+\]\.steps\[\d+\])\.ops\[(\d+)\]")
#: where a task of a program is (sim/programs/places.py)
_PLACE = re.compile(
    r"at trainers\[(?P<trainer>\d+)\]\.steps\[(?P<step>\d+)\](?:\.ops\[(?P<op>\d+)\])? "
    r"(?P<doing>calls|computes|hands on|fetches|waits|backward)(?: (?P<what>\w+))?"
    r"(?: \(in (?P<function>[\w.]+)\))?"
)
#: what is called in the lines of exported programs that can wait, the most special first
_CALLS = {
    "dist_autograd.backward(": "torch.distributed.autograd.backward",
    ".backward(context_id": "torch.distributed.rpc.RRef.backward",
    ".to_here(": "torch.distributed.rpc.RRef.to_here",
    ".wait(": "torch.futures.Future.wait",
    "rpc.rpc_sync(": "torch.distributed.rpc.rpc_sync",
    ".rpc_sync().": "torch.distributed.rpc.RRef.rpc_sync",
    ".rpc_async().": "torch.distributed.rpc.RRef.rpc_async",
    ".remote().": "torch.distributed.rpc.RRef.remote",
    "rpc.rpc_async(": "torch.distributed.rpc.rpc_async",
    "rpc.remote(": "torch.distributed.rpc.remote",
}
#: how C++ ends an error's text: where it was raised, and its stack
_RAISED = re.compile(r"Exception raised from (\S+) at [^\n]*(\n\s*frame #[^\n]*)+")
_FRAMES = re.compile(r"(\n?\s*frame #\d+:[^\n]*){2,}")


def folded(text: str, *, full: bool) -> str:
    """The text with each C++ stack in one line, unless ``full``."""
    if full:
        return text

    def fold(match: re.Match[str]) -> str:
        count = match[0].count("frame #")
        place = f" from {match[1]}" if match.re is _RAISED else ""
        return f" [raised{place}; a C++ stack of {count} frames, --full shows it]"

    return _FRAMES.sub(fold, _RAISED.sub(fold, text))


def readable(text: str) -> str:
    """The text with the names that the program has as PyTorch code."""
    text = _OPERATION.sub(r"\1, y\2", text)
    return _STEP.sub(r"trainer \1, step \2", text)


def code_of(scenario: Scenario, program: Program, told: Iterable[str]) -> str:
    """The steps that ``told`` names, as PyTorch code; all of them if it names none."""
    every = [(trainer, number) for trainer, number, _ in program.steps]
    named = {(int(t), int(s)) for text in told for t, s in _STEP.findall(text)}
    wanted = [place for place in every if place in named] or every
    try:
        lines = step_code(scenario, program, wanted).splitlines()
    except NotPlainError as error:
        return f"# not all of it can be written as PyTorch code: it uses {error}"
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES
        lines = [*lines[:MOST_LINES], "", f"# … {more} more lines: squall export has all of them"]
    return "\n".join(lines)


def print_program(
    scenario: Scenario, told: Iterable[str], waits: Iterable[str], console: Console
) -> None:
    """What ran, as PyTorch code: of a program those steps of it that ``told`` is about, with a
    mark at each line at which somebody ``waits``."""
    program = scenario.program
    if program is None:
        return
    console.print(Text("the program, as squall export writes it:", style="bold"))
    lines = code_of(scenario, program, told).splitlines()
    marks = marked(lines, waits)
    for number, line in enumerate(lines):
        mark = f"   # <- {marks[number]}" if number in marks else ""
        console.print(
            Text.assemble(f"    {line}" if line else "", (mark, "bold yellow")), soft_wrap=True
        )
    console.print()


def marked(lines: list[str], waits: Iterable[str]) -> dict[int, str]:
    """By number of a line of code: who waits there, and in which function."""
    found: dict[int, list[str]] = {}
    for wait in waits:
        match = _PLACE.search(wait)
        if match is None:
            continue
        number = _line_of(lines, match)
        if number is not None:
            who = wait.partition(" waits for ")[0]
            called = match["function"] or called_in(lines[number])
            function = f" in {called}" if called else ""
            found.setdefault(number, []).append(f"{who} waits here{function}")
    return {number: ", ".join(dict.fromkeys(texts)) for number, texts in found.items()}


def called_in(line: str) -> str:
    """PyTorch's name of the function that a line of an exported program waits in."""
    return next((name for text, name in _CALLS.items() if text in line), "")


def _line_of(lines: list[str], place: re.Match[str]) -> int | None:
    """The line of code that a place in a program is."""
    heads = (f"def trainer{place['trainer']}_step{place['step']}(", "def trainer0_step(")
    begin = next((n for n, line in enumerate(lines) if line.startswith(heads)), 0)
    op, what = place["op"], re.escape(place["what"] or "")
    wanted = {
        "calls": rf"y{op}(_rref)? = (?!y{op}\.)",
        "computes": rf"y{op}(_rref)? = (?!y{op}\.)",
        "hands on": rf"y{op}(_rref)? = (?!y{op}\.)",
        "fetches": rf"{what}_here = ",
        "waits": rf"{what} = {what}\.wait",
        "backward": r".*backward\w*(\(context_id|, args)",
    }[place["doing"]]
    for number in range(begin, len(lines)):
        if re.match(wanted, lines[number].strip()):
            return number
    return None


def print_violation(
    violation: Violation,
    console: Console,
    *,
    names: Mapping[int, str],
    full: bool,
    waits: Sequence[str] = (),
) -> None:
    """What does not hold: what was expected, and what came. ``names``: of workers; ``waits`` are told elsewhere."""
    where = "" if violation.worker is None else f" on worker {violation.worker}"
    when = "" if violation.time_s is None else f" at t={violation.time_s:.6f} s"
    head = in_words(f"{violation.property}: {violation.what}{where}{when}", names)
    console.print(Text(readable(folded(head, full=full)), style="bold red"), soft_wrap=True)
    seen = violation.seen
    if waits and seen == waits[0]:
        seen = "it waits for ever, see below"
    elif waits and all(line in seen for line in waits):
        seen = "nothing can happen any more, and these wait, see below: "
        seen += ", ".join(dict.fromkeys(line.partition(" waits for ")[0] for line in waits))
    rows = [("expected", violation.expected), ("came", seen)]
    if violation.events:
        rows.append(("events", " ".join(f"#{number}" for number in violation.events)))
    for name, value in rows:
        lines = in_words(readable(folded(value, full=full)), names).splitlines() or [""]
        console.print(Text(f"  {name:9} {lines[0]}", style="red"), soft_wrap=True)
        for line in lines[1:]:
            console.print(Text(f"  {'':9} {line}", style="red"), soft_wrap=True)
