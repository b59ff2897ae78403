"""Does once, in the process that is copied, what every worker with an optimizer would do: an optimizer
imports half of torch when it is made."""

from __future__ import annotations

import torch


def _step() -> None:
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1).step()


_step()
