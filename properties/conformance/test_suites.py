"""Each test that PyTorch's wheel ships for RPC and distributed autograd, as a test of this engine.

pytest properties/conformance                      all of them
pytest properties/conformance -k test_nested_rpc   some
"""

from __future__ import annotations

import pytest

from sim.conformance import Test, collect, run

TESTS = collect()


@pytest.mark.parametrize("torch_test", TESTS, ids=[test.id for test in TESTS])
def test_pytorch(torch_test: Test) -> None:
    # Not imported here: PyTorch's test utilities load Hypothesis settings of their own.
    [result] = run([torch_test], preload=False)
    if result.verdict == "not_applicable":
        pytest.skip(result.why)
    if result.verdict == "failed":
        pytest.fail(f"{result.why}\n\n{result.log}", pytrace=False)
