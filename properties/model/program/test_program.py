"""Programs as data: what a file may say, and what is told about one that may not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from squall.model.generate.generator import generate
from squall.model.generate.keyed import KeyedChoices
from squall.model.program.file import ProgramError, dump_program, load_program, program_from_json
from squall.model.program.kind import LAST
from squall.model.program.operations import KINDS, in_order
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.properties.strategies import programs

#: y = a * 2 on worker 1, backward from its sum
SMALL = Program(
    workers=2,
    leaves=(Leaf(owner=0, shape=(3,)), Leaf(owner=1, shape=(3,))),
    trainers=(
        Trainer(
            worker=0,
            steps=(
                Step(
                    ops=(
                        Op(kind="mul", inputs=(Input(1), Input(2)), worker=1, call="remote"),
                        Op(kind="total", inputs=(Input(1),), worker=0),
                    ),
                    backwards=(Backward(roots=(1,)),),
                ),
            ),
        ),
    ),
)

Change = Callable[[Any], object]


def test_a_program_survives_its_file(tmp_path: Path) -> None:
    for seed in range(300):
        program = generate(KeyedChoices(seed))
        assert load_program(dump_program(program)) == program
    path = tmp_path / "program.json"
    path.write_text(dump_program(SMALL, indent=1), encoding="utf-8")
    assert load_program(path) == SMALL


@given(programs())
def test_whatever_hypothesis_draws_is_valid(program: Program) -> None:
    assert load_program(dump_program(program)) == program


def first_op(data: Any) -> Any:
    return data["trainers"][0]["steps"][0]["ops"][0]


OP = "program.trainers[0].steps[0].ops[0]"
BACKWARD = "program.trainers[0].steps[0].backwards[0]"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: first_op(d).update(worker=9), f"{OP}.worker: 9 is not one of the 2 workers"),
        (lambda d: first_op(d).update(via=[0, -1]), f"{OP}.via[1]: -1 is not one of"),
        (lambda d: first_op(d).update(via=[0] * 4), f"{OP}.via: is longer than 3"),
        (lambda d: first_op(d).update(wroker=1), f"{OP}.wroker: is no field of a program"),
        (lambda d: first_op(d).pop("worker"), f"{OP}.worker: is missing"),
        (lambda d: first_op(d).update(worker="1"), f"{OP}.worker: '1' is wrong: should be a valid"),
        (lambda d: first_op(d).update(worker=1.0), f"{OP}.worker: 1.0 is wrong: should be a valid"),
        (lambda d: first_op(d).update(kind="div"), f"{OP}.kind: 'div' is no operation; there are"),
        (lambda d: first_op(d).update(kind="tanh"), f"{OP}.kind: tanh does not keep integers"),
        (lambda d: first_op(d).update(kind="sum"), f"{OP}.inputs: sum takes 1, not 2"),
        (
            lambda d: first_op(d).update(call="push"),
            f"{OP}.call: 'push' is wrong: should be 'local'",
        ),
        (
            lambda d: first_op(d).update(call="local"),
            f"{OP}.worker: a local operation is on worker 0",
        ),
        (lambda d: first_op(d).update(builtin=True, hooks=["look"]), f"{OP}.builtin: an operator"),
        (
            lambda d: first_op(d)["inputs"][0].update(back=0),
            f"{OP}.inputs[0].back: 0 is no earlier",
        ),
        (
            lambda d: first_op(d)["inputs"][1].update(back=-1),
            f"{OP}.inputs[1].back: -1 is no earlier",
        ),
        (lambda d: first_op(d)["inputs"][1].update(back=3), f"{OP}.inputs[1].back: 3 is too far"),
        (
            lambda d: first_op(d)["inputs"][1].update(output=1),
            f"{OP}.inputs[1].output: 1 is not one",
        ),
        (lambda d: first_op(d).update(keep="now"), "ops[1].inputs[0].back: ops[0] is dropped"),
        (lambda d: first_op(d).update(call="sync", keep="use"), f"{OP}.keep: a call of kind sync"),
        (lambda d: d["trainers"][0].update(worker=2), "program.trainers[0].worker: 2 is not one"),
        (lambda d: d["trainers"].clear(), "program.trainers: there are 0, not 1 to"),
        (lambda d: d["leaves"].clear(), "program.leaves: there is none"),
        (lambda d: d["leaves"][1].update(shape=[-1]), "program.leaves[1].shape[0]: -1 is negative"),
        (lambda d: d["leaves"][0].update(dtype="float32"), "program.leaves[0].dtype: is float32"),
        (lambda d: d.update(version=3), "program.version: 3 is not supported"),
        (lambda d: d.update(workers=0), "program.workers: 0 is not between 1 and"),
        (lambda d: d.update(workers=10**9), "program.workers: 1000000000 is not between 1 and"),
        (lambda d: d.update(extra=1), "program.extra: is no field of a program"),
        (
            lambda d: d["trainers"][0]["steps"][0]["backwards"][0].update(roots=[2]),
            f"{BACKWARD}.roots[0]: is a mul, which is no scalar sum",
        ),
        (
            lambda d: d["trainers"][0]["steps"][0]["backwards"][0].update(roots=[5]),
            f"{BACKWARD}.roots[0]: 5 is not one of the step's 2 operations",
        ),
        (
            lambda d: d["trainers"][0]["steps"][0]["backwards"][0].update(where="rref"),
            f"{BACKWARD}.where: rref needs one root",
        ),
        (
            lambda d: d["trainers"][0]["steps"][0].update(optimize=True),
            "program.trainers[0].steps[0].optimize: the trainer has no optimizer",
        ),
        (
            lambda d: d["trainers"][0]["steps"][0].update(
                stories=[{"kind": "timeout", "worker": 9}]
            ),
            "program.trainers[0].steps[0].stories[0].worker: 9 is not one of the 2 workers",
        ),
        (
            lambda d: d["trainers"][0]["steps"][0].update(stories=[{"kind": "tea", "worker": 0}]),
            "program.trainers[0].steps[0].stories[0].kind: ",
        ),
        (lambda d: d.update(gathers=-1), "program.gathers: -1 is not between 0 and"),
        (
            lambda d: d["trainers"][0].update(optimizer={"leaves": [0, 2]}),
            "program.trainers[0].optimizer.leaves[1]: 2 is not one of the 2 leaves",
        ),
    ],
)
def test_one_message_names_the_place(change: Change, message: str) -> None:
    data = json.loads(dump_program(SMALL))
    change(data)
    with pytest.raises(ProgramError) as caught:
        program_from_json(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_leaf_that_one_trainer_changes_is_not_for_another() -> None:
    data = json.loads(dump_program(SMALL))
    data["trainers"].append(data["trainers"][0] | {"optimizer": {"leaves": [1]}})
    with pytest.raises(
        ProgramError, match=r"trainers\[1\].optimizer.leaves\[0\]: trainers\[0\] uses"
    ):
        program_from_json(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "program: is not JSON: Expecting value in line 1, column 1"),
        (dump_program(SMALL)[:60], "program: is not JSON: "),
        ("[]", "program: is not an object"),
        ("[" * 100_000, "program: is not JSON: "),
        (
            '{"workers": NaN, "leaves": [], "trainers": []}',
            "program: is not JSON: NaN is no number",
        ),
    ],
)
def test_a_broken_file_is_told_so(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        load_program(text)
    assert str(caught.value).startswith(message)


def test_kinds_are_in_the_order_of_their_ranks() -> None:
    late, early = KINDS["mul"], KINDS["scale"]
    unranked = replace(late, name="a", rank=LAST)
    assert list(in_order([unranked, late, early])) == ["scale", "mul", "a"]
    with pytest.raises(ValueError, match="two kinds of operations called 'mul'"):
        in_order([late, replace(early, name="mul")])
