"""What a scenario and a command line may name: engines, devices, profiles, seeds, workers.

The command line needs these before anything runs: importing this imports no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from squall.real.ids import MAX_WORKER_ID

MAX_WORKERS = MAX_WORKER_ID + 1
MAX_SEED = 2**64 - 1
#: an engine is a module of sim/engines/, and has its name
EngineName = str
Device = Literal["cpu", "cuda", "stand-in"]
ENGINE_NAMES: tuple[EngineName, ...] = tuple(
    sorted(path.stem for path in (Path(__file__).parent / "engines").glob("[a-z]*.py"))
)
DEVICES: tuple[Device, ...] = get_args(Device)
#: why a device is refused
NOT_ON_TORCH = "{!r} is for the engine port: torch's own is carried on the CPU alone, expected cpu"
#: what stands before the seed of a training over process groups: ``groups:712``
GROUPS = "groups:"
#: how much goes wrong, as drawn from a seed (sim/search/draw.py)
#: whose order of the operations of process groups there is
BackendName = Literal["gloo", "nccl", "mpi"]
Profile = Literal["mild", "rough", "storm"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
#: where a page has plotly.js from: ``inline``: in the page, which needs nothing else; ``cdn``:
#: https://cdn.plot.ly, so that it needs a network; ``file``: a file beside it, which many pages share
PlotlyFrom = Literal["inline", "cdn", "file"]
PLOTLY_FROM: tuple[PlotlyFrom, ...] = get_args(PlotlyFrom)


def runs_on(engine: EngineName, device: Device) -> bool:
    """Whether an engine can have tensors on a device."""
    return engine != "torch" or device == "cpu"
