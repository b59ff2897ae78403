"""Torch's settings for a whole simulation: one thread for sums, and the default device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from squall.sim.world.stand_in import STAND_IN_NAME
from squall.sim.world.stand_in.backend import register
from squall.sim.world.torch_settings import default_device_context


@contextmanager
def quiet_torch(device: str) -> Iterator[None]:
    """One intra-op thread, for repeatable sums; and the default device of the run.

    Every task has that device by default if the run's ``TorchIsolation`` is made in here.
    """
    threads = torch.get_num_threads()
    before = default_device_context()
    torch.set_num_threads(1)
    if device == STAND_IN_NAME:
        register()  # only workers have tensors on it: nothing is there by default
    elif device != "cpu":
        torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if device not in ("cpu", STAND_IN_NAME):
            torch.set_default_device(None if before is None else before.device)
