"""Each test that PyTorch's wheel ships for RPC and distributed autograd, as a test of this engine.

pytest properties/conformance/pytorch                      all of them
pytest properties/conformance/pytorch -k test_nested_rpc   some
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squall.properties.conformance.pool import Player
from squall.properties.conformance.run import judge
from squall.properties.conformance.suites import collect
from squall.properties.conformance.tests import Test

TESTS = collect()


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    # PyTorch's test utilities load Hypothesis settings of their own: not in this process.
    with Player() as playing:
        yield playing


@pytest.mark.sampled(3)
@pytest.mark.parametrize("torch_test", TESTS, ids=[test.id for test in TESTS])
def test_pytorch(player: Player, torch_test: Test) -> None:
    result = judge(torch_test, player.play(torch_test))
    if result.verdict == "not_applicable":
        pytest.skip(result.why)
    if result.verdict == "failed":
        pytest.fail(f"{result.why}\n\n{result.log}", pytrace=False)
