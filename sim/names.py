"""What a scenario and a command line may name: engines, devices, profiles, seeds, workers.

The command line needs these before anything runs: importing this imports no torch.
"""

from __future__ import annotations

from typing import Literal, get_args

from squall.real.ids import MAX_WORKER_ID

MAX_WORKERS = MAX_WORKER_ID + 1
MAX_SEED = 2**64 - 1
EngineName = Literal["port", "torch"]
Device = Literal["cpu", "cuda"]
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
DEVICES: tuple[Device, ...] = get_args(Device)
#: how much goes wrong, as drawn from a seed (sim/search/draw.py)
Profile = Literal["mild", "rough", "storm"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
