"""Gradients of process groups beside those of one process."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from torch import nn

import squall
from squall.model.events.run import Run
from squall.properties.support.scripts import script_scenario
from squall.sim.scenarios.engines import ENGINES

SCRIPT = Path(__file__).parent / "groups" / "gradients.py"


def _run(which: str) -> Run:
    scenario = script_scenario(SCRIPT, which, workers=2, engine="torch")
    printed = io.StringIO()
    run = ENGINES["torch"].run(scenario, stdout=printed, stderr=printed)
    assert printed.getvalue().count("went on") == 2, printed.getvalue()
    return run


@pytest.mark.usefixtures("compiled_engine")
def test_wrapped_modules_have_the_gradients_of_one_process() -> None:
    run = _run("right")
    assert run.outcome == "ok" and run.gradients is not None
    # 12 passes through DistributedDataParallel and 16 through FullyShardedDataParallel, but for the two of each that
    # round, and 4 of DTensors; 6 comparisons of 2 ranks
    assert (run.gradients.passes, run.gradients.compared) == (44, 40), run.gradients
    *replicas, one, other = run.gradients.not_comparable
    assert all("fp16_compress_hook may round" in why for why in replicas)
    assert "mixed precision may round" in one and "mixed precision may round" in other


@pytest.mark.usefixtures("compiled_engine")
def test_other_gradients_are_told_with_the_line() -> None:
    run = _run("wrong")
    assert run.outcome == "gradients differ" and run.gradients is not None
    texts = run.gradients.mismatches
    factor = "all gradients of DistributedDataParallel 0, backward pass {} are 2 times those of one process"
    assert [factor.format(n) in text for n, text in zip((1, 2), texts, strict=False)] == [True] * 2
    assert all("gradients.py:" in text for text in texts)
    lines = {text.partition(": ")[0] for text in texts}
    assert len(lines) == 2  # of the passes, and of the comparisons
    # By each rank, of the module that is scaled and of the replicas that have exchanged nothing: 6 parameters
    assert len(texts) == 2 + 2 * 2 * 6


@pytest.mark.usefixtures("compiled_engine")
def test_what_fully_sharded_modules_reduce_wrongly_is_told() -> None:
    run = _run("flat")
    assert run.outcome == "gradients differ" and run.gradients is not None
    assert (run.gradients.compared, run.process_groups.found) == (4, {})
    *summed, first = run.gradients.mismatches[:3]
    factor = "all gradients of FullyShardedDataParallel 0, backward pass {} are 2 times those of one process"
    assert all(factor.format(n) in text for n, text in enumerate(summed, 1))
    assert "norm.weight of FullyShardedDataParallel 1, backward pass 1: rank 0: element" in first


def test_outside_of_a_run_what_differs_is_raised() -> None:
    model, batch = nn.Linear(3, 1), torch.ones(4, 3)
    model(batch).sum().backward()
    squall.reference(model, (batch,), torch.sum)
    squall.reference(model, {"input": batch}, torch.sum)
    assert model.weight.grad is not None
    model.weight.grad *= 1.01
    with pytest.raises(AssertionError, match=r"weight: element \[0, 0\] is 4\.0\d*, expected 4\.0"):
        squall.reference(model, batch, torch.sum)
    squall.reference(model, batch, torch.sum, tolerance=0.02)


def test_a_script_compares_on_the_port_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, squall\n"
        "model, batch = torch.nn.Linear(3, 1), torch.ones(4, 3)\n"
        "model(batch).sum().backward()\n"
        "squall.reference(model, batch, torch.sum)\n"
        "model.bias.grad += 1\n"
        "squall.reference(model, batch, torch.sum)\n",
        encoding="utf-8",
    )
    run = ENGINES["port"].run(script_scenario(script, workers=1))
    assert run.gradients is not None and run.gradients.compared == 2
    (text,) = run.gradients.mismatches
    assert text.startswith("script.py:6: squall.reference(model, batch, torch.sum)")
    assert text.endswith("bias: element [0] is 5.0, expected 4.0 (1 of 1 elements differ)")
