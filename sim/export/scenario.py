"""A scenario as a script that runs on stock PyTorch, and under squall."""

from __future__ import annotations

import re
import shlex

from squall.sim.export.faults import settings_of
from squall.sim.export.program import program_script
from squall.sim.scenario import Scenario, Script

#: the lines that have to come first in a file: how it is run, and its encoding (PEP 263)
_FIRST = re.compile(r"#!|[ \t\f]*#.*?coding[:=]")


def export(scenario: Scenario, origin: str, file: str = "FILE") -> str:
    """The scenario as a script. ``origin``: the command line that replays it. ``file``: where the
    script goes, for what it says of itself.

    Of a program all is written out. A script is that script, with comments before it that say in
    which world it ran. Raises NotPlainError for an operation that has no text outside squall.
    """
    work = scenario.work
    if isinstance(work, Script):
        return _with_comments(scenario, work, origin, file)
    steps = [step for _, _, step in work.steps]
    operations = sum(len(step.ops) for step in steps)
    header = [
        f"A scenario of squall: {_count(work.workers, 'worker')}, "
        f"{_count(len(work.trainers), 'trainer')}, {_count(len(steps), 'step')}, "
        f"{_count(operations, 'operation')}.",
        "",
        f"    python {file}    (stock PyTorch, a process for each worker)",
        f"    {_run(scenario, file)}",
        f"    {origin}",
        "",
        "It prints the gradients of each worker after each backward pass, and the leaves at the end.",
        *_world(scenario),
        *_failure(scenario),
    ]
    return program_script(scenario, work, header)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _run(scenario: Scenario, file: str) -> str:
    words = [f"squall run {file}", f"--seed {scenario.seed}", f"--latency {scenario.world.latency}"]
    if scenario.engine != "port":
        words.append(f"--engine {scenario.engine}")
    return " ".join(words)


def _world(scenario: Scenario) -> list[str]:
    """What else the scenario says of its world that a script cannot."""
    world, lines = scenario.world, []
    if world.bandwidth_bytes_per_s is not None:
        lines.append(f"Links carried {world.bandwidth_bytes_per_s:g} bytes a second under squall.")
    if world.shut_down_early:
        lines.append("Workers shut down as soon as their own trainers are done.")
    if scenario.expected.mutant is not None:
        lines.append(f"Found with a bug planted in squall: {scenario.expected.mutant}.")
    if scenario.note:
        lines += scenario.note.splitlines()
    return ["", *lines] if lines else []


def _failure(scenario: Scenario) -> list[str]:
    """That a script may show nothing of what squall found."""
    if scenario.expected.what is None:
        return []
    return [
        "",
        f"Under squall it fails: {scenario.expected.what}. This script need not: it has no order of",
        "messages, and of faults and stories that stock PyTorch cannot have only a comment.",
    ]


def _with_comments(scenario: Scenario, script: Script, origin: str, file: str) -> str:
    _, told = settings_of(scenario.faults, scenario.world.rpc_timeout_s)
    words = [_run(scenario, file)]
    if script.workers is not None:
        words.append(f"--workers {script.workers}")
    if script.args:
        words.append(shlex.join(["--", *script.args]))
    lines = ["A script that squall ran:", "", f"    {' '.join(words)}", f"    {origin}"]
    lines += [*_world(scenario), *told]
    comment = [f"# {line}".rstrip() for line in lines]
    body = script.text.splitlines()
    first = 0
    while first < min(2, len(body)) and _FIRST.match(body[first]):
        first += 1
    return "\n".join([*body[:first], *comment, "", *body[first:]]) + "\n"
