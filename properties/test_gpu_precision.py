"""What ``make gpu`` says of operators: their distance from torch's engine, in ulps."""

import pytest
import torch

from benchmarks.gpu.precision import DTYPES, OPERATORS, by_port, by_torch, inputs, ulps
from squall.sim.scenarios.settings import campaign_settings


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("number", [1.0, 1.5, 2.0, -0.75])
def test_the_next_number_is_one_ulp_away(dtype, number):
    expected = torch.tensor([number], dtype=dtype)
    _, exponent = torch.tensor(abs(number), dtype=torch.float64).frexp()
    step = torch.finfo(dtype).eps * 2.0 ** (int(exponent) - 1)
    assert ulps(expected, expected) == 0
    assert ulps((expected.double() + step).to(dtype), expected) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_stand_in_computes_what_the_cpu_does(dtype):
    with campaign_settings("stand-in"):
        ours = by_port(OPERATORS["matmul"], inputs(dtype), "stand-in")
    expected = by_torch(OPERATORS["matmul"], inputs(dtype), "cpu")
    assert len(ours) == len(expected) == 3
    assert max(map(ulps, ours, expected)) == 0
