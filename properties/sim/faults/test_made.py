"""What makes no sense cannot be made in code either, and says which field of what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squall.model.program.program import Input, Leaf, Op, Program, Trainer
from squall.sim.cli.main import main
from squall.sim.faults import plan as p
from squall.sim.scenario import Scenario, Script, World

ANY: Any = None
TWO = Script(path="a.py", text="", workers=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: p.Drop(nth=(0,)), r"^Drop\.nth\[0\]: 0 is wrong: should be greater than 0$"),
        (lambda: p.Drop(types=("X",)), r"^Drop\.types\[0\]: 'X' is no message type; there are"),
        (lambda: p.Drop(probability=1.5), r"^Drop\.probability: 1\.5 is wrong: .*equal to 1$"),
        (lambda: p.Delay(seconds=-1), r"^Delay\.seconds: -1 is wrong: .*equal to 0$"),
        (lambda: p.Delay(seconds=10**400), r"^Delay\.seconds: an integer of many digits is wrong"),
        (lambda: p.Duplicate(after_s=()), r"^Duplicate\.after_s: \(\) is wrong"),
        (lambda: p.Drop(from_s=3, until_s=1), r"^Drop\.until_s: 1 is before from_s, 3$"),
        (lambda: p.Moment(event="x"), r"^Moment\.event: 'x' is no event"),
        (
            lambda: p.Moment(event="pass_started", type="RREF_ACK"),
            r"^Moment\.type: pass_started is about no message",
        ),
        (lambda: p.Schedule(order="random", yields=(1,)), r"deviations from fifo"),
        (lambda: p.Plan(workers=(p.PoolSize(threads=1),)), r"^Plan\.workers\[0\]: pool_size"),
        (lambda: p.Plan(heal_s=float("nan")), r"^Plan\.heal_s: nan is wrong"),
        (lambda: World(latency="soon"), r"^World\.latency: 'soon' is wrong"),
        (lambda: Scenario(work=ANY), r"^scenario\.work: None is no program and no script$"),
        (
            lambda: Scenario(work=TWO, world=World(faults=p.Plan(messages=(p.Drop(src=9),)))),
            r"^faults\.messages\[0\]\.src: 9 is not one of the 2 workers$",
        ),
        (lambda: Scenario(work=TWO, world=World(skip_handshakes=True)), r"is for a program"),
        (lambda: Scenario(work=TWO, seed=-1), r"^Scenario\.seed: -1 is wrong"),
        (lambda: Leaf(owner="a"), r"^Leaf\.owner: 'a' is wrong: should be a valid integer$"),  # type: ignore[arg-type]
        (lambda: Input(True), r"^Input\.back: True is wrong"),
        (lambda: Op(kind="mul", inputs=(), worker=0, call=ANY), r"^Op\.call: None is wrong"),
        (
            lambda: Program(
                workers=1, leaves=(Leaf(owner=3),), trainers=(Trainer(worker=0, steps=()),)
            ),
            r"^program\.leaves\[0\]\.owner: 3 is not the only worker, 0$",
        ),
    ],
)
def test_it_is_refused_when_it_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_a_worker_that_the_group_turns_out_not_to_have(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "messages": [{"kind": "drop", "src": 9}]}), encoding="utf-8"
    )
    example = Path(__file__).resolve().parents[3] / "examples" / "rref_sharing.py"
    with pytest.raises(SystemExit) as ended:
        main(["run", str(example), "--faults", str(plan), "--engine", engine, "--json"])
    assert ended.value.code == 2
    told = capsys.readouterr()
    message = "faults.messages[0].src: 9 is not one of the 4 workers of the group"
    assert message in told.err
    found = json.loads(told.out)
    assert (found["field"], found["value"]) == ("--faults", str(plan))
    assert message in found["message"]
