"""One scenario file for each kind of fault: it shows that the fault happened, and what came of it.

All of them run the same three steps, through workers 1 and 2 and back, and then, when the faults
are over, a fresh one.
"""

from __future__ import annotations

import re

import pytest

from squall.properties.support.paths import CORPUS
from squall.properties.support.replay_lines import Replayable
from squall.real.tracing import FAULT_INJECTED
from squall.sim.faults.plan import KINDS
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import load_scenario
from squall.sim.scenarios.replay import replay

TIMEOUT = "RPC ran for more than set timeout"
GONE = "the connection to worker {} was closed"
#: by kind: how often it happens (None: more than once) and how each step ends, None: well
EXPECTED: dict[str, tuple[int | None, tuple[str | None, str | None, str | None]]] = {
    "delay": (None, (None, None, None)),
    "drop": (1, (TIMEOUT, None, None)),
    "duplicate": (None, (None, None, None)),
    "hold": (1, (None, None, None)),
    "corrupt": (1, (None, "a frame failed its check", None)),
    "fail": (1, ("connection reset by peer", None, None)),
    "reset": (1, ("the connection between workers 2 and 0 was lost", None, None)),
    "latency_spike": (None, (None, None, None)),
    "bandwidth": (None, (None, None, None)),
    "loss": (None, (None, None, None)),
    "flapping": (None, (None, None, None)),
    "fifo": (None, (None, None, None)),
    "partition": (1, (TIMEOUT, None, None)),
    "crash": (1, (GONE.format(1), "worker 1 is not connected", "worker 1 is not connected")),
    "restart": (1, (GONE.format(1), None, None)),
    "pause": (1, (None, None, None)),
    "slow_cpu": (1, (None, None, None)),
    "slow_start": (1, (None, None, None)),
    "shutdown": (1, (GONE.format(2), "worker 2 is not connected", "worker 2 is not connected")),
    "pool_size": (None, (None, None, None)),
    "allocation": (1, ("can't allocate memory for node 1 of worker 1", None, None)),
    "raise": (None, ("hook 1 of worker 0 fails", "udf 2 of worker 1 fails", None)),
    "garbage": (1, (None, None, None)),
    "clock_skew": (1, (TIMEOUT, None, None)),
}


def scenario(name: str) -> Scenario:
    return load_scenario(CORPUS / f"fault_{name}.json")


def test_no_kind_is_missing() -> None:
    assert set(EXPECTED) == set(KINDS)


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_scenario_of_each_kind(kind: str, replayable: Replayable) -> None:
    times, errors = EXPECTED[kind]
    result = replay(replayable(scenario(kind)))
    assert result.violations == []
    found = sum(record[3] is FAULT_INJECTED and record[4][0] == kind for record in result.records)
    assert found > 1 if times is None else found == times
    assert result.outcomes.got is not None
    steps = result.outcomes.got.steps.values()
    for step, error in zip(steps, errors, strict=True):
        if error is None:
            assert step.error is None
            assert len(step.passes) == 1
        else:
            assert step.error is not None
            assert re.search(re.escape(error), step.error)
    recovery = result.outcomes.recovery
    assert recovery is not None
    assert recovery.error is None


@pytest.mark.parametrize("name", ["random_order", "pct"])
def test_other_orders_end_as_well(name: str, replayable: Replayable) -> None:
    result = replay(replayable(scenario(name)))
    assert result.violations == []
    assert result.digest == replay(scenario(name)).digest


def test_healing_takes_effect_where_the_timeout_does_not() -> None:
    """A partition of a second, within the timeouts, costs one step and no more."""
    result = replay(scenario("partition"))
    (event,) = [record for record in result.records if record[3] is FAULT_INJECTED]
    assert event[4][:2] == ("partition", "partitions[0]")
    assert result.ended_s < 10.0
