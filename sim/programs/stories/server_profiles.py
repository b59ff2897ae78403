"""Stories about profiles of all that a worker does for others, within each other."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

from squall.model.program.stories import stories_of
from squall.real.rpc import api as rpc
from squall.real.rpc.server_profiling import (
    _disable_server_process_global_profiler,
    _enable_server_process_global_profiler,
)
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told, whoami
from squall.sim.programs.stories.mutual_exclusion import turn

label_module(__name__, "server profiles")
story = stories_of(__name__, rank=90)

#: an operator that nothing else in a program uses
_MARK = "aten::lgamma"


def begin_profile() -> None:
    config = ProfilerConfig(
        ProfilerState.CPU, False, False, False, False, False, _ExperimentalConfig()
    )
    _enable_server_process_global_profiler(config)


def end_profile() -> int:
    """How many of the requests in the profile that was begun last did what is looked for."""
    requests: Any = _disable_server_process_global_profiler()
    return sum(_is_marked(request) for request in requests)


def _is_marked(request: Any) -> bool:
    # PyTorch gives the events of one request and thread each, squall a list by request of such.
    threads = request if request and isinstance(request[0], list) else [request]
    return any(event.name() == _MARK for thread in threads for event in thread)


def mark() -> float:
    return float(torch.lgamma(torch.ones(2)).sum())


def mark_by(worker: int) -> float:
    """What is done here is done on another worker, too."""
    found: float = rpc.rpc_sync(worker, mark)
    return found + mark()


@story(
    "server profiles",
    numbers={"depth": (1, 3), "calls": (0, 2), "after": (0, 2)},
)
def server_profiles(to: int, depth: int, calls: int, after: int) -> str:
    """Each profile has the requests that began while it was on, those in the ones inside it too."""
    seen: list[int] = []
    home = whoami()
    with turn(to, "server profile"):
        rpc.rpc_sync(to, mark)
        for level in range(depth):
            rpc.rpc_sync(to, begin_profile)
            for number in range(calls + level):
                if number % 2 and home != to:
                    rpc.rpc_sync(to, mark_by, args=(home,))
                else:
                    rpc.rpc_sync(to, mark)
        for _ in range(depth):
            seen.append(rpc.rpc_sync(to, end_profile))
            for _ in range(after):
                rpc.rpc_sync(to, mark)
    return told(counted=seen == _counted(depth, calls, after))


def _counted(depth: int, calls: int, after: int) -> list[int]:
    """Of each profile, the innermost first: its calls, those inside, and those between ends."""
    found: list[int] = []
    inside = 0
    for level in reversed(range(depth)):
        inside += calls + level
        found.append(inside)
        inside += after
    return found
