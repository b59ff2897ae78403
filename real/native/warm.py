"""Does once, in the process that is copied, what every worker with an optimizer would do: an optimizer
imports half of torch when it is made, and a seed reads files of it for a traceback."""

from __future__ import annotations

import linecache
import sys

import torch
import torch.distributed.pipelining


def _step() -> None:
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1).step()


_step()
#: whose lines are in the traceback that torch keeps of each ``torch.manual_seed``, if it was built for no device
_SEEDING = (
    "random",
    "_compile",
    "_dynamo.eval_frame",
    "cuda",
    "cuda.random",
    "xpu",
    "xpu.random",
)
for _name in _SEEDING:
    if (_module := sys.modules.get(f"torch.{_name}")) is not None and _module.__file__:
        linecache.getlines(_module.__file__)
