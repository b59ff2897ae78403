"""PyTorch's own tests of CUDA, on the stand-in: what their source is there.

They name the device in their texts and call ``torch.cuda``. Both are replaced in the source of the
test modules as a simulated process loads them, and nothing else is.
"""

from __future__ import annotations

import re
from typing import Any

from squall.sim.world.stand_in.streams import DEVICES
from squall.sim.world.stand_in.tensors import DEVICE_TYPE

_REPLACED = (
    (re.compile(r"\btorch\.cuda\."), f"torch.{DEVICE_TYPE}."),
    (re.compile(r"(?<=[\"' /])cuda(?=:|[\"'])"), DEVICE_TYPE),
    (re.compile(r"\.cuda\((\d+)\)"), rf'.to("{DEVICE_TYPE}:\1")'),
    (re.compile(r"\.cuda\(\)"), f'.to("{DEVICE_TYPE}")'),
    (re.compile(r"\b(\w+)\.is_cuda\b"), rf'(\1.device.type == "{DEVICE_TYPE}")'),
)


def rewritten(source: str) -> str:
    """The source of a test of CUDA that uses the stand-in instead."""
    for pattern, text in _REPLACED:
        source = pattern.sub(text, source)
    return source


def count_stand_ins(common_distributed: Any, common_utils: Any) -> None:
    """The conditions under which tests of CUDA skip themselves ask for the stand-in's devices, and a
    kernel that is to take a while takes no time to find out how long that is."""

    def skip_if_lt_x_gpu(count: int, **kwargs: Any) -> Any:
        if count <= DEVICES:
            return lambda method: method
        return asks_for_gpus(count, **kwargs)

    asks_for_gpus = common_distributed.skip_if_lt_x_gpu
    common_distributed.skip_if_lt_x_gpu = skip_if_lt_x_gpu
    common_utils.get_cycles_per_ms = lambda: 1.0
