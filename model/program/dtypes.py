"""The dtypes of programs, by the names that they have there."""

from __future__ import annotations

import torch

from squall.model.program.program import Dtype

DTYPES: dict[Dtype, torch.dtype] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "complex64": torch.complex64,
}
#: significant bits of each
BITS: dict[Dtype, int] = {"bfloat16": 8, "float32": 24, "complex64": 24, "float64": 53}
