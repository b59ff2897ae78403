"""Gradients of modules whose parameters are DTensors, and of stages of pipelines, beside those of one process, without a
word of the script.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from squall.model.one_process.reference import GradientSummary
from squall.properties.support.scripts import script_scenario
from squall.sim.scenarios.engines import ENGINES

SCRIPTS = Path(__file__).parent / "groups"
pytestmark = pytest.mark.usefixtures("compiled_engine")


def _gradients(which: str, workers: int, script: str = "sharded.py") -> GradientSummary:
    scenario = script_scenario(SCRIPTS / script, which, workers=workers, engine="torch")
    printed = io.StringIO()
    run = ENGINES["torch"].run(scenario, stdout=printed, stderr=printed)
    assert printed.getvalue().count("went on") == workers, printed.getvalue()
    assert run.gradients is not None
    return run.gradients


def test_they_are_those_of_one_process() -> None:
    """Sharded, parallel, both, replicated, accumulated, clipped afterwards; random numbers and buffers too."""
    found = _gradients("right", 4)
    # Ranks that have tensors parallel compare in groups of two where each has a batch of its own.
    assert (found.passes, found.compared) == (12, 12), found
    assert found.equal and 0 < found.max_deviation < 1e-5


def test_ranks_of_one_batch_have_others() -> None:
    found = _gradients("other data", 2)
    assert not found.equal and found.compared == 3
    assert "sharded.py:" in found.mismatches[0]
    assert "first.weight: rank 1: element [0, 0] is " in found.mismatches[0]


def test_a_sum_instead_of_a_mean() -> None:
    found = _gradients("summed", 2)
    text = "all gradients of FSDPModel 0 of several ranks, backward pass 1 are 2 times those of one process"
    assert text in found.mismatches[0]


def test_what_one_process_cannot_come_to_is_told() -> None:
    found = _gradients("unknown", 2)
    assert (found.passes, found.compared) == (7, 0)
    whole = "\n".join(found.not_comparable)
    assert "each rank draws random numbers for a part of a tensor" in whole
    assert "ranks call it with parts of what one process would call it with" in whole
    assert "one process cannot do it: RuntimeError: it calls other ranks" in whole


def test_stages_have_the_gradients_of_one_process() -> None:
    found = _gradients("right", 2, "stages.py")
    assert (found.passes, found.compared) == (4, 4), found
    assert found.equal


def test_stages_with_other_gradients() -> None:
    found = _gradients("doubled", 2, "stages.py")
    text = "all gradients of Schedule1F1B 0, backward pass 1 are 2 times those of one process"
    assert re.match(rf"stages\.py:\d+: .*: {text}$", found.mismatches[0]), found.mismatches[0]


def test_a_schedule_divides_what_was_there_before_once_more() -> None:
    """PyTorch's scale_grads divides all of a gradient by the number of microbatches, and not what the step has added."""
    found = _gradients("accumulated", 2, "stages.py")
    assert not found.equal and found.compared == 2
    assert all("Schedule1F1B 0, backward pass 2" in each for each in found.mismatches)


def test_stages_that_draw_random_numbers_are_not_compared() -> None:
    found = _gradients("unknown", 2, "stages.py")
    assert found.compared == 0
    assert "stages draw random numbers in another order" in found.not_comparable[0]
