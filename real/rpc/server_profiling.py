"""Profiles of whatever a worker does for others, all its tasks together.

``rpc._server_process_global_profile`` turns one on and off; they nest, and a request that is handled
within several belongs to each. (torch/csrc/distributed/rpc/profiler/server_process_global_profiler.h)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._C._profiler import ProfilerConfig

from squall.real.rpc.profiling import LegacyProfiler, Mark, ProfilerOptions
from squall.real.worker import current_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from squall.real.future import Future
    from squall.real.process import Process
    from squall.real.rpc.message import Message
    from squall.real.rpc.profiling import Facts


_PROFILES = "server process global profiles"


class ServerProfile:
    """What the requests that began while it was on have done, each by itself."""

    def __init__(self, config: ProfilerConfig) -> None:
        self.config = config
        self.requests: list[list[list[Facts]]] = []


def server_profiles(process: Process) -> tuple[ServerProfile, ...]:
    """The profiles of all requests that are on now, the innermost last."""
    profiles: list[ServerProfile] | None = process.locals.get(_PROFILES)
    return tuple(profiles) if profiles else ()


def profiled_request(
    concerned: tuple[ServerProfile, ...],
    process_rpc: Callable[[Any, Any], Future[Message]],
    rpc: Any,
    type: Any,
) -> Future[Message]:
    """Handle a request, for the profiles that are on as it begins: ``concerned``.

    Recorded is what its own task does, with the settings of the innermost profile.
    """
    profiler = LegacyProfiler(current_worker(), ProfilerOptions(), concerned[-1].config)
    with profiler.here():
        profiler.mark_start()
        reply = process_rpc(rpc, type)
    seen = profiler.finish()
    for profile in concerned:
        profile.requests.append(seen)
    return reply


def _enable_server_process_global_profiler(config: ProfilerConfig) -> None:
    """Profile the requests that begin from here on."""
    profiles = current_worker().locals.setdefault(_PROFILES, [])
    profiles.append(ServerProfile(config))


def _disable_server_process_global_profiler() -> list[list[list[Mark]]]:
    """End the profile that was turned on last: for each request, the marks of each thread.

    Raises RuntimeError if none is on.
    """
    try:
        ended: ServerProfile = current_worker().locals.get(_PROFILES, []).pop()
    except IndexError:
        raise RuntimeError("The server process-global profiler is not running") from None
    return [[[Mark(facts) for facts in thread] for thread in request] for request in ended.requests]
