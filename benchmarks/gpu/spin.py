"""A missing wait made visible: long work in front of a producer, and a consumer that does not wait.

The same program with the wait is the reference.
"""

from __future__ import annotations

import torch

from squall.real.streams import streams_of

_CYCLES = 400_000_000


def consume(device: str, *, waits: bool) -> list[float]:
    """What a consumer reads of [1, 1, 1] that a producer makes of zeros on another stream."""
    module = streams_of(device)
    made = torch.zeros(3, device=device)
    module.synchronize()
    producer, consumer = module.Stream(device=device), module.Stream(device=device)
    with module.stream(producer):
        if device.startswith("cuda"):
            torch.cuda._sleep(_CYCLES)
        made.add_(1)
    if waits:
        consumer.wait_stream(producer)
    with module.stream(consumer):
        read = made.clone()
        found: list[float] = read.cpu().tolist()
    module.synchronize()
    return found


def demonstration(device: str) -> dict[str, list[float]]:
    return {"waits": consume(device, waits=True), "does not wait": consume(device, waits=False)}
