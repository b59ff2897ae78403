"""Torch's settings for a whole simulation: one thread for sums, and the default device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch

from squall.sim.world.kernel_watch import KernelWatch
from squall.sim.world.stand_in import STAND_IN_NAME
from squall.sim.world.stand_in.backend import register
from squall.sim.world.stand_in.streams import STAND_IN
from squall.sim.world.stand_in.tensors import DEVICE_TYPE, StandInTensor
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


_as_a_gpu = False
#: what watches the run that has begun last
_watch: KernelWatch | None = None


@contextmanager
def seen_as_a_gpu() -> Iterator[None]:
    """What runs on the stand-in in here tells nothing by itself: it is watched as a GPU is."""
    global _as_a_gpu
    before, _as_a_gpu = _as_a_gpu, True
    try:
        yield
    finally:
        _as_a_gpu = before


def kernel_watch(device: str, who: Callable[[], int]) -> KernelWatch | None:
    """What watches the kernels of a run that begins, and does so from now on; None for the CPU, and
    for the stand-in, which tells of them by itself. ``who()``: the rank that runs, or -1."""
    global _watch
    _watch = None
    if device == STAND_IN_NAME:
        if _as_a_gpu:
            STAND_IN.recording = False
            _watch = KernelWatch(DEVICE_TYPE, who, StandInTensor)
    elif device != "cpu":
        _watch = KernelWatch(device, who)
    if _watch is not None:
        _watch.begin()
    return _watch


@contextmanager
def unseen() -> Iterator[None]:
    """What squall itself reads from a device in here is no part of the run that is watched."""
    with STAND_IN.unseen(), nullcontext() if _watch is None else _watch.unseen():
        yield
