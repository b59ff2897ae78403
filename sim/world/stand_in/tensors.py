"""Tensors on the stand-in device.

A tensor holds one on the CPU, which is its memory. An operator gives its result at once, with the
right shape and :data:`~squall.sim.world.stand_in.streams.POISON` in it, and queues a kernel on the
current stream that computes it on the CPU. What the host has to see (``item``, a copy to the CPU, a
result whose shape depends on values) waits for the current stream first, and for no other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from squall.sim.world.operators import operator
from squall.sim.world.stand_in.streams import STAND_IN, Block, Queue, poison

#: what the device is called in PyTorch
DEVICE_TYPE = "standin"

_aten: Any = torch.ops.aten
_wrap: Any = Tensor._make_wrapper_subclass
_share_storage: Any = torch._functionalize_unsafe_set


class StandInTensor(Tensor):
    """A tensor whose elements are in the memory of the stand-in device."""

    _inner: Tensor
    _block: Block

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, inner: Tensor, block: Block) -> StandInTensor:
        made: StandInTensor = _wrap(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(DEVICE_TYPE, block.stream.device),
        )
        made._inner = inner
        made._block = block
        return made

    def __init__(self, inner: Tensor, block: Block) -> None:
        pass

    def record_stream(self, stream: Any) -> None:
        """The memory is in use on ``stream`` too: it is not given away before that has got here."""
        self._block.used_on[stream.queue] = None

    def tolist(self) -> Any:  # PyTorch has none for tensors that are written in Python
        return self.cpu().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        shape = list(self.shape)
        return f"StandInTensor({shape}, dtype={self.dtype}, device='{self.device}')"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        special = _SPECIAL.get(func)
        if special is not None:
            return special(*args, **kwargs)
        return _dispatch(func, args, kwargs)


def empty(inner: Tensor, device: int) -> StandInTensor:
    """A tensor with ``inner``, which nobody else has, as its memory. It is not yet written."""
    poison(inner.untyped_storage())
    return StandInTensor(inner, Block(STAND_IN, STAND_IN.current[device], inner))


def index_of(device: torch.device | str | None) -> int:
    """The index of a stand-in device, the current one if none is named."""
    index = None if device is None else torch.device(device).index
    return STAND_IN.current_device if index is None else index


def _dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    flat, spec = tree_flatten((args, kwargs))
    ours = [value for value in flat if isinstance(value, StandInTensor)]
    device = _device_for(ours, flat, kwargs)
    about = operator(func)
    if about.is_view:
        return _view(func, args, kwargs, ours[0])
    queue = STAND_IN.current[device]
    written = [args[i] if i < len(args) else kwargs.get(name) for i, name in about.written]
    written_flat = [t for t in tree_flatten(written)[0] if isinstance(t, StandInTensor)]
    if written:
        outputs: list[StandInTensor] = []
        result: Any = written[0] if len(written) == 1 else tuple(written)
        if torch.Tag.inplace_view in func.tags:
            raise NotImplementedError(
                f"{func} changes the shape of a tensor of the stand-in device"
            )
    else:
        shaped = _shaped(func, flat, spec)
        if shaped is None:  # the shape depends on values: the host has to wait for them
            STAND_IN.synchronize_stream(queue)
            inner_args, inner_kwargs = tree_unflatten(list(map(_inner, flat)), spec)
            computed = func(*inner_args, **_on_cpu(inner_kwargs))
            return tree_map(lambda value: _uploaded(value, device, func, ours), computed)
        outputs = []

        def made(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            memory = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device="cpu"
            )
            outputs.append(empty(memory, device))
            return outputs[-1]

        result = tree_map(made, shaped)
    state = torch.get_rng_state() if about.random else None
    inner_flat = [
        value.clone()
        if isinstance(value, Tensor) and not isinstance(value, StandInTensor)
        else _inner(value)
        for value in flat
    ]
    if state is not None:  # the next operator draws the numbers that come after these
        _draw(func, inner_flat, spec)
    targets = [output._inner for output in outputs]
    STAND_IN.kernel(
        queue,
        func._schema.name.removeprefix("aten::"),
        [tensor._block for tensor in ours],
        [tensor._block for tensor in (*written_flat, *outputs)],
        functools.partial(_compute, func, inner_flat, spec, targets, state),
    )
    return result


def _device_for(ours: Sequence[Tensor], flat: list[Any], kwargs: dict[str, Any]) -> int:
    """The device of an operator. Raises RuntimeError if its tensors are on several."""
    if not ours:
        return index_of(kwargs.get("device"))
    device = ours[0].device
    for value in flat:
        if not isinstance(value, Tensor) or value.device == device:
            continue
        if value.dim() or not value.is_cpu:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two "
                f"devices, {device} and {value.device}!"
            )
    index: int = device.index
    return index


def _shaped(func: Any, flat: list[Any], spec: Any) -> Any:
    """The result of an operator, without elements; None if values decide on the shape."""
    if torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags:
        return None
    meta = [
        torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        if isinstance(value, Tensor)
        else torch.device("meta")
        if isinstance(value, torch.device)
        else value
        for value in flat
    ]
    args, kwargs = tree_unflatten(meta, spec)
    try:
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError, IndexError, ValueError):
        return None  # the CPU says what is wrong


def _inner(value: Any) -> Any:
    if isinstance(value, StandInTensor):
        return value._inner
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs


def _compute(
    func: Any, flat: list[Any], spec: Any, targets: list[Tensor], state: Tensor | None
) -> None:
    """A kernel: the operator on the CPU, into the memory of its results."""
    args, kwargs = tree_unflatten(flat, spec)
    before = None
    if state is not None:
        before = torch.get_rng_state()
        torch.set_rng_state(state)
    try:
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            computed = func(*args, **_on_cpu(kwargs))
    except (RuntimeError, IndexError):  # on garbage, as an index may be: results stay poisoned
        return
    finally:
        if before is not None:
            torch.set_rng_state(before)
    if targets:
        values = [value for value in tree_flatten(computed)[0] if isinstance(value, Tensor)]
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)


def _draw(func: Any, flat: list[Any], spec: Any) -> None:
    """Draw what the kernel will draw, from stand-ins for its arguments."""
    copies = [torch.zeros_like(v) if isinstance(v, Tensor) else v for v in flat]
    args, kwargs = tree_unflatten(copies, spec)
    func(*args, **_on_cpu(kwargs))


def _view(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], base: StandInTensor) -> Any:
    inner_args, inner_kwargs = tree_map(_inner, (args, kwargs))
    with torch._C._DisableTorchDispatch():
        viewed = func(*inner_args, **inner_kwargs)

    def made(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        tensor = StandInTensor(value, base._block)
        _share_storage(tensor, base)
        return tensor

    return tree_map(made, viewed)


def _uploaded(value: Any, device: int, func: Any, read: Sequence[StandInTensor]) -> Any:
    if not isinstance(value, Tensor):
        return value
    memory = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    made = empty(memory, device)
    STAND_IN.kernel(
        STAND_IN.current[device],
        func._schema.name.removeprefix("aten::"),
        [tensor._block for tensor in read],
        (made._block,),
        functools.partial(memory.copy_, value),
    )
    return made


# -- between devices, and to the host -------------------------------------------------------------


def _to_copy(tensor: Tensor, **kwargs: Any) -> Tensor:
    device = kwargs.pop("device", None)
    kwargs.pop("non_blocking", None)
    kwargs.pop("pin_memory", None)
    target = tensor.device if device is None else torch.device(device)
    if isinstance(tensor, StandInTensor) and target.type == DEVICE_TYPE:
        index = index_of(target)
        if index == tensor._block.stream.device:
            return _dispatch(_aten._to_copy.default, (tensor,), kwargs)  # type: ignore[no-any-return]
    meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    shaped = _aten._to_copy.default(meta, **kwargs)
    memory = torch.empty_strided(shaped.shape, shaped.stride(), dtype=shaped.dtype, device="cpu")
    if target.type == "cpu":
        return _copy(memory, tensor)
    return _copy(empty(memory, index_of(target)), tensor)


def _copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """As CUDA: to the host waits for the current stream; from the host has been read when it
    returns; between devices runs on the source's stream, which waits for the target's and is waited
    for by it."""
    if not isinstance(target, StandInTensor):
        assert isinstance(source, StandInTensor)
        queue = STAND_IN.current[source._block.stream.device]
        memory = source._inner
        landed = target
        STAND_IN.kernel(
            queue, "copy to the host", (source._block,), (), lambda: landed.copy_(memory)
        )
        STAND_IN.synchronize_stream(queue)
        return target
    there = STAND_IN.current[target._block.stream.device]
    if not isinstance(source, StandInTensor):
        read = source.detach().clone()
        STAND_IN.kernel(
            there,
            "copy from the host",
            (),
            (target._block,),
            functools.partial(target._inner.copy_, read),
        )
        return target
    here = STAND_IN.current[source._block.stream.device]
    if here is not there:
        STAND_IN.wait(here, STAND_IN.mark(there))
    STAND_IN.kernel(
        here,
        "copy_",
        (source._block,),
        (target._block,),
        functools.partial(target._inner.copy_, source._inner),
    )
    if here is not there:
        STAND_IN.wait(there, STAND_IN.mark(here))
    return target


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    return _copy(target, source)


def _on_host(func: Any) -> Callable[..., Any]:
    """What gives the host a value: it waits for the current stream."""

    def read(*tensors: Any, **kwargs: Any) -> Any:
        ours = [tensor for tensor in tensors if isinstance(tensor, StandInTensor)]
        queue: Queue = STAND_IN.current[ours[0]._block.stream.device]
        blocks = [tensor._block for tensor in ours]
        STAND_IN.kernel(queue, "read by the host", blocks, (), lambda: None)
        STAND_IN.synchronize_stream(queue)
        return func(*map(_inner, tensors), **kwargs)

    return read


def _record_stream(tensor: StandInTensor, stream: Any) -> None:
    tensor.record_stream(stream)


_SPECIAL: dict[Any, Callable[..., Any]] = {
    _aten._to_copy.default: _to_copy,
    _aten.copy_.default: _copy,
    # The bit that stands for it would be on the memory, where torch does not look for it.
    _aten._conj.default: lambda tensor: _dispatch(_aten._conj_physical.default, (tensor,), {}),
    _aten._neg_view.default: lambda tensor: _dispatch(_aten.neg.default, (tensor,), {}),
    _aten._local_scalar_dense.default: _on_host(_aten._local_scalar_dense.default),
    _aten._copy_from.default: _copy_from,
    _aten.equal.default: _on_host(_aten.equal.default),
    _aten.is_same_size.default: lambda one, other: one.shape == other.shape,
    _aten.record_stream.default: _record_stream,
}


class Kernels:
    """What operators without a tensor of the device do on it, while this is kept."""

    def __init__(self) -> None:
        self._library = torch.library.Library("aten", "IMPL")
        self._library.impl("empty.memory_format", _empty, "PrivateUse1")
        self._library.impl("empty_strided", _empty_strided, "PrivateUse1")
        # torch.tensor copies below what tensors written in Python are asked at.
        self._library.impl("_copy_from", _copy_from, "PrivateUse1")


def _empty(
    size: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Tensor:
    memory_format = torch.contiguous_format if memory_format is None else memory_format
    memory = torch.empty(size, dtype=dtype, device="cpu", memory_format=memory_format)
    return empty(memory, index_of(device))


def _empty_strided(
    size: Any,
    stride: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Tensor:
    return empty(torch.empty_strided(size, stride, dtype=dtype, device="cpu"), index_of(device))
