"""Planted bugs of devices are noticed on the stand-in, which finds nothing without them."""

import pytest

from squall.properties.planted.devices import MUTANTS
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import judge

ON_DEVICE = Settings(device="stand-in")
#: where each is noticed; all others within the first few seeds
SEEDS = {"accumulated-on-an-unordered-stream": (190,), "resumed-request-on-other-streams": (12,)}


def test_nothing_is_found_without_a_bug():
    with campaign_settings("stand-in"):
        found = {seed: judge(seed, ON_DEVICE).violations for seed in range(25)}
    assert {seed: violations for seed, violations in found.items() if violations} == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.expected], ids=lambda m: m.name)
def test_a_planted_bug_is_noticed(mutant):
    with campaign_settings("stand-in"):
        for seed in SEEDS.get(mutant.name, range(10)):
            assert judge(draw(seed, ON_DEVICE)).ok
            with mutant.apply():
                if not judge(draw(seed, ON_DEVICE)).ok:
                    return
    pytest.fail("not noticed")
