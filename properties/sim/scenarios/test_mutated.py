"""Files with something changed at random load, or are refused with the usual message."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from squall.properties.sim.scenarios.mutated import full_scenario, mutated, outcome
from squall.sim.scenarios.file import ScenarioError, scenario_from_json


def test_each_loads_or_is_refused() -> None:
    counts = Counter(map(outcome, mutated(500)))
    assert counts["refused"] > 200
    assert counts["loaded"] > 20


@pytest.mark.parametrize("name", ["rpc_timeout_s", "bandwidth_bytes_per_s"])
@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000, math.inf, math.nan], ids=range(5))
def test_numbers_beyond_all_bounds(name: str, value: float) -> None:
    said = full_scenario()
    said["world"][name] = value
    with pytest.raises(ScenarioError, match=rf"^scenario\.world\.{name}: .* should be "):
        scenario_from_json(said)
