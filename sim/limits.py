"""What a scenario may name: seeds, numbers of workers, devices, engines. Importing this is quick."""

from __future__ import annotations

from typing import Literal, get_args

from squall.real.ids import MAX_WORKER_ID

MAX_WORKERS = MAX_WORKER_ID + 1
MAX_SEED = 2**64 - 1
EngineName = Literal["port", "torch"]
Device = Literal["cpu", "cuda"]
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
DEVICES: tuple[Device, ...] = get_args(Device)
