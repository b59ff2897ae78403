"""A new operation, check or story is one new file, and nothing else changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.support.copied import copied_package, run_copy

OPERATION = '''
"""Three times the input."""

from squall.model.program.kind import ALWAYS, Kind
from squall.model.program.sizes import like

KINDS = (
    Kind(
        name="triple",
        run=lambda op, x: x[0] * 3,
        sizes=lambda factor, x: [like(x[0], x[0].shape, 3)],
        features=(ALWAYS, "threefold"),
        shows=("tripled",),
    ),
)
'''

CHECK = '''
"""Runs are short."""

from squall.model.events.run import Property, named


@named("brevity")
def BREVITY(run):
    """A run of a program has at most ten events."""
    if len(run.records) > 10:
        yield run.violation("brevity", "a long run", "10 events", len(run.records))


PROPERTIES = (BREVITY,)
'''

STORY = '''
"""A sum, on another worker."""

import operator

from squall.model.program.stories import stories_of
from squall.real.rpc import api as rpc

story = stories_of(__name__)


@story("a sum", expected="3 from <to>")
def a_sum(to: int) -> str:
    return f"{rpc.rpc_sync(to, operator.add, args=(1, 2))} from {to}"
'''

USE = """
import random

from squall.model.checks.registry import PROPERTIES, check
from squall.model.coverage.features import features
from squall.model.generate.keyed import KeyedChoices
from squall.model.generate.generator import generate
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import differences
from squall.model.program.file import dump_program, load_program
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.model.program.stories import DRAWN, Story
from squall.sim.programs.run import run_program

ops = (
    Op(kind="triple", inputs=(Input(back=1),), worker=1, call="sync"),
    Op(kind="total", inputs=(Input(back=1),), worker=0),
)
step = Step(ops=ops, backwards=(Backward(roots=(1,)),), stories=(Story(kind="a sum", worker=1),))
trainers = (Trainer(worker=0, steps=(step,)),)
program = Program(workers=2, leaves=(Leaf(owner=0, shape=(2,)),), trainers=trainers)
assert load_program(dump_program(program)) == program

run = run_program(program)
run.outcomes.expected = interpret(program)
assert not differences(program, run.outcomes.expected, run.outcomes.got)
print(run.outcomes.got.steps[0, 0].passes[0][0].tolist())

print({violation.what for violation in check(run)}, PROPERTIES[-1].name)

found = features(program)
print(found["tripled"], found["story: a sum"], DRAWN[-1])

drawn = [generate(KeyedChoices(seed)) for seed in range(300)]
print(any(op.kind == "triple" for each in drawn for _, _, step in each.steps for op in step.ops))
"""


def test_an_operation_a_check_and_a_story_are_one_new_file_each(tmp_path: Path) -> None:
    package = copied_package(tmp_path)
    (package / "model/program/kinds/triple.py").write_text(OPERATION, encoding="utf-8")
    (package / "model/checks/brevity.py").write_text(CHECK, encoding="utf-8")
    (package / "sim/programs/stories/sums.py").write_text(STORY, encoding="utf-8")
    done = run_copy(tmp_path, "-c", USE)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[3.0, 3.0]",
        "{'a long run'} brevity",
        "1 1 a sum",
        "True",
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "module",
    ["squall.sim.search.draw", "squall.sim.scenarios.file", "squall.sim.programs.run"],
)
def test_whoever_draws_reads_or_runs_programs_knows_all_stories(module: str) -> None:
    """The stories are declared above the model, which refuses to go on without them."""
    code = (
        f"import {module}\nfrom squall.model.program.stories import KINDS\nprint(len(KINDS) > 40)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
