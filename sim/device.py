"""How torch is set up while a simulation runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def quiet_torch(device: str) -> Iterator[None]:
    """One intra-op thread, for repeatable sums; and the default device of the run."""
    threads = torch.get_num_threads()
    before = torch.get_default_device()
    torch.set_num_threads(1)
    if device != "cpu":
        torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if device != "cpu":
            torch.set_default_device(before)
