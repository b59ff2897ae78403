"""A failure explains itself: the program as PyTorch code, who waits in which line, short errors."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from rich.console import Console

from squall.model.events.run import Violation
from squall.model.one_process.flow import forecast
from squall.sim.cli.reports.failing import folded, marked
from squall.sim.cli.reports.replay import KeptAs, Replayed, print_replay
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.failure import expecting
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import draw


def hanging() -> Scenario:
    """One in which a pass waits for ever, as is expected of it."""
    for scenario in map(draw, range(10_000)):
        program = scenario.program
        assert program is not None
        unfed = any(forecast(program, trainer, n).unfed for trainer, n, _ in program.steps)
        if unfed and replay(scenario).stuck:
            return scenario
    raise AssertionError("no program of 10,000 gets stuck")


STACK = """expected a tensor
Exception raised from check at ../torch/csrc/x.cpp:7 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation) + 0x80 (0x7f in libc10.so)
frame #1: <unknown function> + 0xdead (0x7f in libtorch_cpu.so)
the end"""


def printed(scenario: Scenario, replayed: Replayed | None = None) -> str:
    out = io.StringIO()
    console = Console(file=out, width=200, highlight=False)
    print_replay(replayed or Replayed(scenario, replay(scenario)), console)
    return out.getvalue()


def test_a_hang_shows_the_line_and_the_function_of_pytorch() -> None:
    text = printed(hanging())
    (line,) = [line for line in text.splitlines() if "# <- " in line]
    assert line.split("# <- ")[0].strip().startswith("dist_autograd.backward(context_id, [y")
    where = r"# <- worker\d+ waits here in torch\.distributed\.autograd\.backward"
    assert re.search(f"{where}$", line)
    assert "real/" not in text and "sim/" not in text


def test_what_waits_is_marked_at_its_own_line() -> None:
    lines = [
        "def trainer0_step(name, leaf0_rref):",
        "    leaf0_here = leaf0_rref.to_here()",
        '    y0 = rpc.rpc_async("worker1", scale_0, args=(leaf0_here,))',
        "    y0 = y0.wait()",
    ]
    place = "worker0 waits for x, at trainers[0].steps[0]"
    assert marked(lines, [f"{place} fetches leaf0"]) == {
        1: "worker0 waits here in torch.distributed.rpc.RRef.to_here"
    }
    assert marked(lines, [f"{place}.ops[0] calls (in f)"]) == {2: "worker0 waits here in f"}
    assert marked(lines, [f"{place} waits y0"]) == {
        3: "worker0 waits here in torch.futures.Future.wait"
    }


def test_a_stack_of_cpp_is_one_line_unless_all_is_asked_for() -> None:
    short = folded(STACK, full=False)
    assert "frame #" not in short
    assert "raised from check; a C++ stack of 2 frames, --full shows it" in short
    assert short.startswith("expected a tensor") and short.endswith("the end")
    assert folded(STACK, full=True) == STACK


def test_a_digest_is_as_expected_only_if_the_outcome_is() -> None:
    scenario = draw(12)
    run = replay(scenario)
    same = expecting(scenario, run)
    assert "as expected" in printed(same, Replayed(same, run))
    other = replace(
        same,
        expected=Expected(
            digest=run.digest, outcome="failed", property="rrefs", what="an owner was left"
        ),
    )
    text = printed(other, Replayed(other, run))
    assert "as expected" not in text
    assert "recorded was: failed, rrefs: an owner was left" in text
    assert "equal to the recorded one" in text


def test_with_the_files_as_they_are_nothing_is_as_expected() -> None:
    scenario = draw(12)
    run = replay(scenario)
    failed = Expected(digest="0" * 32, outcome="failed", property="script", what="it raised")
    kept = replace(scenario, expected=failed)
    mended = Replayed(kept, run, kept_as=KeptAs("0a1b2c3d", "AssertionError: 3 at a.py:9"))
    text = " ".join(printed(kept, mended).replace("│", "").split())
    assert mended.good and "as expected" not in text
    assert "AssertionError: 3 at a.py:9" in text
    assert "it does not show with the files as they are now" in text
    assert "squall replay 0a1b2c3d is the run as it was" in text
    assert f"{'0' * 32} with the files that were kept" in text
    run.violations = [Violation("script", "it raised", "none", "3")]
    text = printed(kept, mended)
    assert not mended.good
    assert "a failure of this kind shows with the files as they are now, too" in text


def test_what_does_not_hold_says_what_was_expected_and_what_came() -> None:
    scenario = draw(12)
    run = replay(scenario)
    where = "trainers[0].steps[0].ops[1]"
    run.violations = [Violation("outcome", "a value", f"{where}: 3", "4\n" + STACK, 1, 0.5, (7,))]
    text = printed(scenario, Replayed(scenario, run))
    assert "outcome: a value on worker1 at t=0.500000 s" in text
    assert "expected  trainer 0, step 0, y1: 3" in text
    assert "came      4" in text and "frame #" not in text
    assert "y1 = " in text  # the program
