"""Tensors of a message on their way to another worker's devices
(torch/csrc/distributed/rpc/tensorpipe_agent.cpp, tensorpipe_cuda.cpp).

They are copied on a stream of the receiver's pool, which waits for the sender's current streams and
which all that uses the copies waits for in turn. The host waits for nothing, but for what goes to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from squall.real.rpc.tensor_copies import copy_tensor, mostly_gaps
from squall.real.streams import has_streams, on_streams, streams_of

_CPU = torch.device("cpu")
#: by storage and where it goes: a tensor that is all of it there
_Moved = dict[tuple[int, torch.device], Tensor]


def all_on_cpu(tensors: Sequence[Tensor]) -> bool:
    return all(tensor.is_cpu for tensor in tensors)


def targets_of(
    tensors: Sequence[Tensor],
    device_map: Mapping[torch.device, torch.device],
    *,
    kind: Literal["Request", "Response"],
    destination: str,
) -> list[torch.device]:
    """Where each tensor of a message of that kind goes on ``destination``.

    Raises RuntimeError for one on a device that the map does not have, with torch's text; where there
    is a map it speaks of requests also for a reply (torch/csrc/distributed/rpc/tensorpipe_agent.cpp).
    """
    found = []
    for tensor in tensors:
        device = tensor.device
        target = device_map.get(device)
        if target is None:
            if device.type != "cpu":
                told, found_on = kind, f", but found tensor on device: {device}"
                if device_map:
                    told = "Request"
                    found_on = f" for device {device} but received a tensor on that device."
                raise RuntimeError(
                    "TensorPipe RPC backend only supports CPU tensors by default, please move your "
                    "tensors to CPU before sending them over RPC, or call `set_device_map` on "
                    "`TensorPipeRpcBackendOptions` to explicitly configure device mapping. "
                    f"{told} device mapping is not available for destination {destination}{found_on}"
                )
            target = _CPU
        found.append(target)
    return found


def move_tensors(
    tensors: Sequence[Tensor], targets: Sequence[torch.device]
) -> tuple[list[Tensor], tuple[Any, ...]]:
    """Copies of tensors, each on the device that it goes to, and the streams on which they are ready.

    They are laid out as they were, as on the CPU (:mod:`squall.real.rpc.tensor_copies`): whole storages
    travel, once for all tensors that use them and go to the same device.
    """
    streams: dict[torch.device, Any] = {}
    moved: _Moved = {}
    copies = [
        _move(tensor, to, streams, moved) for tensor, to in zip(tensors, targets, strict=True)
    ]
    return copies, tuple(streams[device] for device in streams)


def _move(
    tensor: Tensor, target: torch.device, streams: dict[torch.device, Any], moved: _Moved
) -> Tensor:
    if tensor.requires_grad:  # it shares its memory with no other
        return _move(tensor.detach(), target, streams, {}).requires_grad_()
    if not has_streams(target):
        if tensor.is_cpu:
            return copy_tensor(tensor)
        with torch.no_grad():
            return _copied(tensor, target, moved)
    stream = streams.get(target)
    if stream is None:
        stream = streams[target] = streams_of(target).Stream(device=target)
    if has_streams(tensor.device):
        here = streams_of(tensor.device).current_stream(tensor.device)
        stream.wait_event(here.record_event())
        tensor.record_stream(stream)
    with torch.no_grad(), on_streams(_on_both(tensor.device, stream)):
        return _copied(tensor, target, moved)


def _on_both(device: torch.device, stream: Any) -> tuple[Any, ...]:
    """A copy between devices is queued on the stream of its source: one that nobody else uses."""
    if not has_streams(device) or device == stream.device:
        return (stream,)
    here = streams_of(device).current_stream(device)
    copying = streams_of(device).Stream(device=device)
    copying.wait_event(here.record_event())
    return (stream, copying)


def _copied(source: Tensor, target: torch.device, moved: _Moved) -> Tensor:
    if source.layout is torch.sparse_coo:
        indices, values = (
            _copied(part, target, moved) for part in (source._indices(), source._values())
        )
        return torch.sparse_coo_tensor(indices, values, source.shape, check_invariants=False)
    if source.layout is not torch.strided or source.is_quantized:
        return _dense(source, target)
    storage = source.untyped_storage()
    nbytes = storage.nbytes()
    if mostly_gaps(source, nbytes):
        return _dense(source, target)
    key = storage._cdata, target
    whole = moved.get(key)
    bits = source.is_conj() or source.is_neg()
    if whole is None and nbytes == source.nbytes and source.is_contiguous() and not bits:
        copied = moved[key] = _dense(source, target)
        return copied
    plain = source.detach()
    if bits:  # they say how elements are read, and travel beside them
        torch._C._set_conj(plain, False)
        torch._C._set_neg(plain, False)
    if whole is None or nbytes % source.element_size():
        length = nbytes // source.element_size()
        whole = moved[key] = _dense(plain.as_strided((length,), (1,), 0), target)
    same = whole if whole.dtype is source.dtype else whole.reshape(-1).view(source.dtype)
    # .data: no view of another tensor, which nothing may be written to where gradients are recorded
    copied = same.as_strided(source.size(), source.stride(), source.storage_offset()).data
    if bits:
        torch._C._set_conj(copied, source.is_conj())
        torch._C._set_neg(copied, source.is_neg())
    return copied


def _dense(source: Tensor, target: torch.device) -> Tensor:
    return source.clone() if source.device == target else source.to(target)
