"""The same program on workers and in one process: values, gradients, errors and hangs agree."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.model.events.run import Run
from squall.model.generate.generator import generate
from squall.model.generate.keyed import KeyedChoices
from squall.model.generate.profiles import Limits
from squall.model.one_process.flow import Sent, flow_of, forecast
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import differences
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.properties.strategies import programs
from squall.real.tracing import SEND_ATTACHED
from squall.sim.programs.run import run_program

SLOW = "lognormal:0.001:0.5"


def seeded(seed: int, limits: Limits | None = None) -> Program:
    return generate(KeyedChoices(seed), limits)


def agrees(program: Program, **options: Any) -> Run:
    run = run_program(program, **options)
    assert differences(program, interpret(program), run.outcomes.got) == []
    return run


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [{}, {"latency": SLOW}, {"latency": SLOW, "order": "random"}, {"order": "random"}],
    ids=lambda options: " ".join(map(str, options.values())) or "plain",
)
def test_seeded_programs_agree(options: dict[str, Any]) -> None:
    for seed in range(60):
        program = seeded(seed, Limits(unused=False))
        run = agrees(program, seed=seed, **options)
        assert run.waits == []


@given(programs(), st.integers(0, 99))
def test_programs_agree(program: Program, seed: int) -> None:
    run = agrees(program, seed=seed, latency=SLOW, order="random")
    stuck = any(forecast(program, t, s).unfed for t, s, _ in program.steps)
    assert stuck or not run.waits


def test_a_run_repeats_itself() -> None:
    for seed in range(10):
        program = seeded(seed)
        first, again = (run_program(program, seed=seed, latency=SLOW) for _ in range(2))
        assert first.cluster.trace.digest() == again.cluster.trace.digest()


def test_a_run_without_handshakes_sends_everything_else() -> None:
    for seed in range(20):
        program = seeded(seed, Limits(unused=False, groups=False))
        without, plain = (
            agrees(program, seed=seed, skip_handshakes=skip) for skip in (True, False)
        )
        assert all(worker.agent is None for worker in without.cluster.workers)
        sent, also = (Counter(run.cluster.trace.message_counts()) for run in (without, plain))
        # The handshakes: each worker and the leader, there and back, at the start and at the end.
        assert also - sent == Counter(
            dict.fromkeys(("PYTHON_CALL", "PYTHON_RET"), 4 * (program.workers - 1))
            if program.workers > 1
            else {}
        )
        assert not sent - also


def test_a_run_without_handshakes_may_shut_down_while_work_is_under_way() -> None:
    """Then the group ends with its usual calls, as in any run."""
    for seed in range(10):
        program = seeded(seed, Limits(unused=False))
        agrees(program, seed=seed, latency=SLOW, skip_handshakes=True, shut_down_early=True)


def test_the_flow_knows_every_recorded_message() -> None:
    """From whom to whom each context records messages is what the symbolic run says."""
    for seed in range(80):
        program = seeded(seed, Limits(unused=False, faults=False))
        run = run_program(program, latency=SLOW, order="random", seed=seed)
        seen: dict[int, Counter[tuple[int, int]]] = {}
        for event in run.cluster.trace.of(SEND_ATTACHED):
            seen.setdefault(event["context"], Counter())[event.worker, event["to"]] += 1
        for trainer, number, step in program.steps:
            flow = flow_of(program, trainer, step)
            for backward in step.backwards:
                for _ in range(backward.times if backward.where != "udf" else 1):
                    flow.backward(backward)
            expected = Counter((m.src, m.dst) for m in flow.marks if isinstance(m, Sent))
            context = run.outcomes.got.steps[trainer, number].context
            assert seen.get(context, Counter()) == expected, f"seed {seed}, step {number}"


def one_step(*ops: Op, **step: Any) -> Program:
    """Worker 0 trains, with a leaf of its own; worker 1 has one too."""
    step.setdefault("backwards", (Backward(roots=(1,)),))
    return Program(
        workers=3,
        leaves=(Leaf(owner=1, shape=(2,), seed=1), Leaf(owner=0, shape=(2,))),
        trainers=(Trainer(worker=0, steps=(Step(ops=ops, **step),)),),
    )


def test_an_output_that_nobody_uses_is_waited_for() -> None:
    program = one_step(
        Op(kind="mul", inputs=(Input(1), Input(2)), worker=1, call="sync"),
        Op(kind="scale", inputs=(Input(2),), worker=0),
        Op(kind="total", inputs=(Input(1),), worker=0),
    )
    # Its own send function of the arguments is never fed; worker 1 takes no part in the pass.
    (unfed,) = forecast(program, 0, 0).unfed
    assert (unfed.src, unfed.dst, unfed.what, unfed.op) == (0, 1, "arguments", 0)
    run = run_program(program)
    assert any("worker0" in line and "backward pass" in line for line in run.waits)
    assert differences(program, interpret(program), run.outcomes.got) == []


def test_a_fault_is_heard_where_it_is_waited_for() -> None:
    for fault, place in (("udf", "udf"), ("backward", "backward"), ("hook", "hook")):
        for call in ("sync", "async", "remote", "rref", "async_execution", "helper_async"):
            program = one_step(
                Op(kind="scale", inputs=(Input(1),), worker=1, call=call, fault=fault),
                Op(kind="total", inputs=(Input(1),), worker=2, call="sync"),
                retry=True,
            )
            run = agrees(program, latency=SLOW)
            outcome = run.outcomes.got.steps[0, 0]
            assert f"planted in the {place} of trainers[0].steps[0].ops[0]" in str(
                outcome.first_error
            )
            assert outcome.error is None and outcome.passes[0][1].tolist() == [1.0, 1.0]


def test_nobody_hears_of_a_fault_in_what_nobody_asks_for() -> None:
    program = one_step(
        Op(kind="scale", inputs=(Input(2),), worker=1, call="remote", fault="udf", keep="program"),
        Op(kind="scale", inputs=(Input(2),), worker=0),
        Op(kind="total", inputs=(Input(1),), worker=0),
    )
    run = agrees(program)
    assert run.outcomes.got.steps[0, 0].error is None
    assert run.outcomes.got.kept == {}


@pytest.mark.parametrize(
    ("relay", "gradient"),
    # Each of three relays doubles what it hands on; or adds the sum of both elements to both
    # elements of the result.
    [("pass", 1.0), ("double", 8.0), ("join", 7.0)],
)
def test_depth_four_and_back_again(relay: Any, gradient: float) -> None:
    program = one_step(
        Op(kind="flat", inputs=(Input(1),), worker=1, call="sync", via=(1, 0, 2), relay=relay),
        Op(kind="total", inputs=(Input(1),), worker=0),
    )
    (grads,) = agrees(program).outcomes.got.steps[0, 0].passes
    assert grads[1].tolist() == [gradient, gradient]
