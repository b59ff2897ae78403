"""Replicas on the engine ``torch``: programs that bring them apart are told, others are not."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.properties.support.scripts import script_scenario
from squall.sim.scenarios.engines import ENGINES

pytestmark = pytest.mark.usefixtures("compiled_engine")

FOLDER = Path(__file__).parent / "groups"
#: what is to be said of each program of replicas_apart.py
APART = [
    ("used.weight of DistributedDataParallel 0", "after step 1 of SGD"),
    ("weight of DistributedDataParallel 1", "after step 2 of SGD"),
    ("weight (and 1 more of 2) of DistributedDataParallel 2", "at a forward pass"),
    ("weight (and 1 more of 2) of DistributedDataParallel 3", "at a forward pass"),
    ("weight (and 1 more of 2) of DistributedDataParallel 4", "after step 1 of SGD"),
    ("variance (and 1 more of 4) of DistributedDataParallel 5", "at a forward pass"),
    ("1.bias of DistributedDataParallel 6", "after step 4 of SGD"),
    ("0.weight (and 1 more of 8) of the parameters of optimizer 0", "after step 1 of Adam"),
    ("0.weight (and 3 more of 4) of the parameters of optimizer 1", "after step 1 of SGD"),
    ("_flat_param of the parameters of optimizer 2", "after step 1 of SGD"),
]


def test_programs_whose_replicas_come_apart_are_told() -> None:
    run, _ = _run("replicas_apart", go_on=True)
    texts = run.process_groups.found["replicas differ"]
    assert (run.outcome, list(run.process_groups.found)) == ("replicas differ", ["replicas differ"])
    assert [tuple(text.partition(": ")[0].split(" differs ")) for text in texts] == APART
    line = r"rank [01] at t=0\.\d+ s, replicas_apart\.py:\d+: (optimizer\.step|model\(inputs)\("
    assert all(len(re.findall(line, text)) == 2 for text in texts)
    assert "the last all_reduce among them: none" in texts[0]
    assert "rank 0 calls all_reduce(" in texts[1] and texts[1].endswith(", before step 1")
    assert "rank 0 calls broadcast(" in texts[5]
    assert not any(text.endswith(", before step 3") for text in texts)

    without, _ = _run("replicas_apart", replicas=False)
    assert (
        without.outcome,
        without.process_groups.replicas_compared,
        without.process_groups.found,
    ) == ("ok", 0, {})
    assert without.digest == run.digest


def test_the_first_difference_ends_the_run() -> None:
    run, printed = _run("replicas_apart")
    (text,) = run.process_groups.found["replicas differ"]
    assert text.startswith(APART[0][0]) and "hybrid" not in printed


def test_nothing_is_said_of_others() -> None:
    run, printed = _run("replicas_agree")
    assert (run.outcome, run.process_groups.found) == ("ok", {}), printed
    assert run.process_groups.replicas_compared > 30


def _run(name: str, **options: bool) -> tuple[Run, str]:
    """Of two ranks; and what it printed."""
    scenario = script_scenario(FOLDER / f"{name}.py", workers=2, engine="torch", check=False)
    assert scenario.script is not None
    printed = io.StringIO()
    scenario = replace(scenario, work=replace(scenario.script, **options))
    return ENGINES["torch"].run(scenario, stdout=printed, stderr=printed), printed.getvalue()
