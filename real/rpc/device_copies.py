"""Tensors of a message on their way to another worker's devices
(torch/csrc/distributed/rpc/tensorpipe_agent.cpp, tensorpipe_cuda.cpp).

They are copied on a stream of the receiver's pool, which waits for the sender's current streams and
which all that uses the copies waits for in turn. The host waits for nothing, but for what goes to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from squall.real.rpc.tensor_copies import copy_tensor
from squall.real.streams import has_streams, on_streams, streams_of

_CPU = torch.device("cpu")


def all_on_cpu(tensors: Sequence[Tensor]) -> bool:
    return all(tensor.is_cpu for tensor in tensors)


def targets_of(
    tensors: Sequence[Tensor],
    device_map: Mapping[torch.device, torch.device],
    *,
    destination: str,
) -> list[torch.device]:
    """Where each tensor goes on ``destination``.

    Raises RuntimeError for one on a device that the map does not have, with torch's text, which
    speaks of requests also where it is a reply (torch/csrc/distributed/rpc/tensorpipe_agent.cpp).
    """
    found = []
    for tensor in tensors:
        device = tensor.device
        target = device_map.get(device)
        if target is None:
            if device.type != "cpu":
                found_on = (
                    f" for device {device} but received a tensor on that device."
                    if device_map
                    else f", but found tensor on device: {device}"
                )
                raise RuntimeError(
                    "TensorPipe RPC backend only supports CPU tensors by default, please move your "
                    "tensors to CPU before sending them over RPC, or call `set_device_map` on "
                    "`TensorPipeRpcBackendOptions` to explicitly configure device mapping. "
                    f"Request device mapping is not available for destination {destination}{found_on}"
                )
            target = _CPU
        found.append(target)
    return found


def move_tensors(
    tensors: Sequence[Tensor], targets: Sequence[torch.device]
) -> tuple[list[Tensor], tuple[Any, ...]]:
    """Copies of tensors, each on the device that it goes to, and the streams on which they are ready.

    Those that are views of one storage share one there too, if they go to the same device.
    """
    streams: dict[torch.device, Any] = {}
    moved: dict[tuple[int, torch.device], Tensor] = {}
    copies = [
        _move(tensor, to, streams, moved, tensors)
        for tensor, to in zip(tensors, targets, strict=True)
    ]
    return copies, tuple(streams[device] for device in streams)


def _move(
    tensor: Tensor,
    target: torch.device,
    streams: dict[torch.device, Any],
    moved: dict[tuple[int, torch.device], Tensor],
    tensors: Sequence[Tensor],
) -> Tensor:
    requires_grad = tensor.requires_grad
    source = tensor.detach()
    if not has_streams(target):
        copied = copy_tensor(source) if source.is_cpu else source.to(target)
        return copied.requires_grad_() if requires_grad else copied
    stream = streams.get(target)
    if stream is None:
        stream = streams[target] = streams_of(target).Stream(device=target)
    if has_streams(source.device):
        here = streams_of(source.device).current_stream(source.device)
        stream.wait_event(here.record_event())
        source.record_stream(stream)
    with torch.no_grad(), on_streams(_on_both(source.device, stream)):
        copied = _copied(source, target, moved, tensors)
    return copied.requires_grad_() if requires_grad else copied


def _on_both(device: torch.device, stream: Any) -> tuple[Any, ...]:
    """A copy between devices is queued on the stream of its source: one that nobody else uses."""
    if not has_streams(device) or device == stream.device:
        return (stream,)
    here = streams_of(device).current_stream(device)
    copying = streams_of(device).Stream(device=device)
    copying.wait_event(here.record_event())
    return (stream, copying)


def _copied(
    source: Tensor,
    target: torch.device,
    moved: dict[tuple[int, torch.device], Tensor],
    tensors: Sequence[Tensor],
) -> Tensor:
    if source.layout is not torch.strided or not _shares(source, tensors):
        return source.clone() if source.device == target else source.to(target)
    key = source.untyped_storage()._cdata, target
    whole = moved.get(key)
    if whole is None or whole.dtype is not source.dtype:
        length = source.untyped_storage().nbytes() // source.element_size()
        flat = source.as_strided((length,), (1,), 0)
        whole = moved[key] = flat.clone() if source.device == target else flat.to(target)
    return whole.as_strided(source.size(), source.stride(), source.storage_offset())


def _shares(source: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Whether another tensor of the message is in the same storage, or this one is a part of it."""
    key = source.untyped_storage()._cdata
    sharing = sum(
        tensor.layout is torch.strided and tensor.untyped_storage()._cdata == key
        for tensor in tensors
    )
    return bool(sharing > 1)
