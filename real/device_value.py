"""When the value of a future is ready on devices with streams
(ATen/core/ivalue_inl.h, Future: devices, events, synchronizeWithCurrentStreams)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from squall.real.streams import has_streams, on_streams, streams_of


class DeviceValue:
    """Events of the streams that were current where a future was completed.

    Who waits lets its current streams wait for them; callbacks run on streams of the pool, which
    wait too. Memory of the value is kept until the streams that use it have got so far.
    """

    __slots__ = ("_events", "devices")

    def __init__(self, devices: Iterable[Any]) -> None:
        """Raises ValueError for a device without an index."""
        found = [torch.device(device) for device in devices]
        for device in found:
            if device.index is None:
                raise ValueError(f"Expected devices to have indices, got {device}")
        self.devices = tuple(device for device in found if has_streams(device))
        self._events: list[tuple[torch.device, Any]] = []

    def problem(self, value: object) -> ValueError | None:
        """What is wrong with a value: it has tensors on devices that it may not be on, of a type that
        the others have."""
        types = {device.type for device in self.devices}
        used = {tensor.device for tensor in tensors_in(value) if tensor.device.type in types}
        others = sorted(used.difference(self.devices), key=str)
        if not others:
            return None
        found, allowed = (", ".join(map(str, each)) for each in (others, self.devices))
        return ValueError(
            f"The result contained tensors residing on device(s) {found} which are not among the "
            f"expected device(s) {allowed}"
        )

    def record(self) -> None:
        """The value is complete once the current streams have got here."""
        self._events = [
            (device, streams_of(device).current_stream(device).record_event())
            for device in self.devices
        ]

    def wait(self, value: object) -> None:
        """Let the current streams wait for the value."""
        for device, event in self._events:
            stream = streams_of(device).current_stream(device)
            stream.wait_event(event)
            for tensor in tensors_in(value):
                if tensor.device == device:
                    tensor.record_stream(stream)

    def on_fresh_streams(self, value: object) -> AbstractContextManager[object]:
        """Streams of the pool, which wait for the value."""
        streams = []
        for device, event in self._events:
            stream = streams_of(device).Stream(device=device)
            stream.wait_event(event)
            for tensor in tensors_in(value):
                if tensor.device == device:
                    tensor.record_stream(stream)
            streams.append(stream)
        return on_streams(streams)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in a value: a message, or containers of Python's."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    else:
        beside = getattr(value, "tensors", None)
        if isinstance(beside, list):
            yield from tensors_in(beside)
