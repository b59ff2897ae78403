"""Streams of whatever device there is, by PyTorch's own names (``torch.get_device_module``).

Nobody asks which device it is: one has streams if its module gives the current one. What runs on the
CPU alone comes here for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch

_WITHOUT = frozenset({"cpu", "meta"})
_NOTHING = nullcontext()


def has_streams(device: torch.device) -> bool:
    """Whether work on a device is queued on streams."""
    return device.type not in _WITHOUT


def streams_of(device: torch.device | str) -> Any:
    """The module of a device, which has current_stream, stream, Stream, Event and synchronize."""
    return torch.get_device_module(device)


def device_type() -> str | None:
    """The type of the devices of this machine that have streams; None if it has none."""
    own: str = torch._C._get_privateuse1_backend_name()
    if hasattr(torch, own):
        return own
    return "cuda" if torch.cuda.is_available() else None


def some_device_has_streams() -> bool:
    return device_type() is not None


def device_count() -> int:
    """How many devices with streams there are."""
    kind = device_type()
    count: int = 0 if kind is None else streams_of(kind).device_count()
    return count


def current_streams() -> dict[torch.device, Any]:
    """The current stream of every device."""
    kind = device_type()
    if kind is None:
        return {}
    module = streams_of(kind)
    devices = [torch.device(kind, index) for index in range(module.device_count())]
    return {device: module.current_stream(device) for device in devices}


def on_streams(streams: Iterable[Any]) -> AbstractContextManager[object]:
    """Makes these streams, each of another device, the current ones; the device stays."""
    streams = tuple(streams)
    if not streams:
        return _NOTHING
    entered = ExitStack()
    module = streams_of(streams[0].device)
    here = module.current_device()
    for stream in streams:
        entered.enter_context(module.stream(stream))
    entered.enter_context(module.device(here))
    return entered


def wait_for_streams(waiting: Iterable[Any], awaited: Iterable[Any]) -> None:
    """Let each of some streams wait for all of the others that are of its device."""
    awaited = tuple(awaited)
    for stream in waiting:
        for other in awaited:
            if other != stream and other.device == stream.device:
                stream.wait_event(other.record_event())


def pool_streams(devices: Iterable[torch.device], given: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """A stream for each device: one of those given, or else one from its pool."""
    found = {stream.device: stream for stream in given}
    for device in devices:
        if device not in found:
            found[device] = streams_of(device).Stream(device=device)
    return tuple(found.values())
