"""Torch's settings of a thread and of a process: taken out, and put back later.

PyTorch keeps grad mode, autocast, modes, hooks on saved tensors and the current CUDA stream once a
thread; random state, default dtype and the like once a process. All of a simulation runs in one
thread of one process: :mod:`squall.sim.world.isolation` swaps these when a task is switched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

_C = torch._C
_autograd: Any = _C._autograd

_is_grad_enabled = torch.is_grad_enabled
_set_grad_enabled = _C._set_grad_enabled
_is_inference = torch.is_inference_mode_enabled
_any_autocast: Any = _C._is_any_autocast_enabled
_function_modes = _C._len_torch_function_stack
_dispatch_modes = _C._len_torch_dispatch_stack
_top_hooks: Any = _autograd._top_saved_tensors_default_hooks
_hooks_enabled: Any = _autograd._saved_tensors_hooks_is_enabled
_untyped: Any = _C
_function_state = _untyped._get_torch_function_state
_FUNCTION_STATE = _function_state()
_functions_enabled = _C._is_torch_function_enabled
_is_anomaly_enabled = torch.is_anomaly_enabled
_get_default_dtype = torch.get_default_dtype
_get_deterministic = _C._get_deterministic_algorithms
_get_generator_state = torch.default_generator.get_state
_set_generator_state = torch.default_generator.set_state

_AUTOCAST_DEVICES = ("cpu", "cuda")
_AUTOCAST_DTYPES = {device: torch.get_autocast_dtype(device) for device in _AUTOCAST_DEVICES}
_NO_ANOMALY = (False, True)


class OwnDevice(Protocol):
    """A device that keeps a current stream a thread in Python."""

    def differs(self) -> bool: ...

    def take(self) -> Any:
        """What is current, with the defaults in its place afterwards."""

    def put(self, taken: Any) -> None: ...


_own_device: OwnDevice | None = None


def watch_device(device: OwnDevice) -> None:
    """Swap what is current on a device, too, when a task is switched."""
    global _own_device
    _own_device = device


_changed: Callable[[Any], object] | None = None


def tell_of_streams(changed: Callable[[Any], object] | None) -> None:
    """Call this with each stream of CUDA that becomes current as a task is switched; None: nobody."""
    global _changed
    _changed = changed


# -- of a thread ----------------------------------------------------------------------------------


class Taken(Protocol):
    """A thread's settings that differ from the defaults, while the defaults are in place."""

    def restore(self) -> None:
        """Put them back. To be called once."""


def take_thread_settings() -> Taken | None:
    """Put torch's defaults in place of this thread's settings; None if that changes nothing."""
    if (
        _any_autocast()
        or _is_inference()
        or _function_modes()
        or _dispatch_modes()
        or _top_hooks(True) is not None
        or not _hooks_enabled()
        or not _functions_enabled()
        or (torch.cuda._initialized and _cuda_differs())
        or (_own_device is not None and _own_device.differs())
    ):
        return ThreadSettings()
    if not _is_grad_enabled():
        _set_grad_enabled(True)
        return _NO_GRAD
    return None


class _NoGrad:
    """All as by default, but grad mode is off: much the commonest difference."""

    __slots__ = ()

    def restore(self) -> None:
        _set_grad_enabled(False)


_NO_GRAD = _NoGrad()


class FreshSettings:
    """The settings of a task that has not run yet, where there is a default device, or a mode
    that all tasks have, of dispatch or of functions."""

    __slots__ = ("device", "function_mode", "mode")

    def __init__(
        self, device: torch.device | None, mode: Any = None, function_mode: Any = None
    ) -> None:
        self.device = device
        self.mode = mode
        self.function_mode = function_mode

    def restore(self) -> None:
        if self.device is not None:
            torch.set_default_device(self.device)
        if self.mode is not None:
            _push_dispatch_mode(self.mode)
        if self.function_mode is not None:
            _C._push_on_torch_function_stack(self.function_mode)


class ThreadSettings:
    """The thread-local settings of torch that differ from the defaults."""

    __slots__ = ("autocast", "cuda", "device", "dispatch_modes", "function_modes", "function_state",
                 "grad", "hooks", "hooks_off", "inference", "own_device")  # fmt: skip

    def __init__(self) -> None:
        """Capture the settings and put the defaults in their place."""
        self.function_state = _function_state()
        if not _functions_enabled():
            _untyped._set_torch_function_state(_FUNCTION_STATE)
        # Modes first: the calls below should not go through them.
        self.function_modes = [_C._pop_torch_function_stack() for _ in range(_function_modes())]
        self.dispatch_modes = _pop_dispatch_modes()
        self.device = _take_default_device()
        self.inference: Any = None
        self.grad = _is_grad_enabled()
        if _is_inference():
            # The guard notes the whole state, and puts it back when it is left.
            self.inference = _C._InferenceMode(False)
            self.inference.__enter__()
        elif not self.grad:
            _set_grad_enabled(True)
        self.autocast = _take_autocast() if _any_autocast() else None
        self.hooks_off: str | None = None
        if not _hooks_enabled():
            self.hooks_off = _autograd._saved_tensors_hooks_get_disabled_error_message()
            _autograd._saved_tensors_hooks_enable()
        self.hooks: list[Any] = []
        while (top := _top_hooks(True)) is not None:
            self.hooks.append(top)
            _autograd._pop_saved_tensors_default_hooks()
        self.cuda = _take_cuda() if torch.cuda._initialized else None
        self.own_device = None if _own_device is None else _own_device.take()

    def restore(self) -> None:
        if self.cuda is not None:
            _put_cuda(self.cuda)
        if _own_device is not None and self.own_device is not None:
            _own_device.put(self.own_device)
        while self.hooks:
            _autograd._push_saved_tensors_default_hooks(*self.hooks.pop())
        if self.hooks_off is not None:
            _autograd._saved_tensors_hooks_disable(self.hooks_off)
        if self.autocast is not None:
            _put_autocast(self.autocast)
        if self.inference is not None:
            self.inference.__exit__(None, None, None)
        elif not self.grad:
            _set_grad_enabled(False)
        if self.device is not None:
            torch._GLOBAL_DEVICE_CONTEXT.device_context = self.device
        while self.dispatch_modes:
            _push_dispatch_mode(self.dispatch_modes.pop())
        while self.function_modes:
            _C._push_on_torch_function_stack(self.function_modes.pop())
        if self.function_state != _FUNCTION_STATE:
            _untyped._set_torch_function_state(self.function_state)


# -- of a process ---------------------------------------------------------------------------------


class ProcessSettings:
    """Torch's settings of one process: random state, default dtype, deterministic algorithms, and
    whether anomalies are detected. :meth:`remove` takes note of them, :meth:`install` puts them
    in place."""

    __slots__ = ("anomaly", "cuda", "deterministic", "dtype", "random", "seed", "warn_only")

    def __init__(self, seed: int | None = None) -> None:
        #: used at the first switch, unless the state is captured from what is there
        self.seed = seed
        self.random: torch.Tensor | None = None
        self.cuda: list[torch.Tensor] | None = None
        self.dtype = torch.float32
        self.deterministic = False
        self.warn_only = False
        #: whether it is on, and whether it looks for NaN
        self.anomaly = _NO_ANOMALY

    def remove(self) -> None:
        self.random = _get_generator_state()
        self.dtype = _get_default_dtype()
        self.deterministic = _get_deterministic()
        if self.deterministic:
            self.warn_only = _C._get_deterministic_algorithms_warn_only()
        self.anomaly = _NO_ANOMALY
        if _is_anomaly_enabled():
            self.anomaly = (True, torch.is_anomaly_check_nan_enabled())
        if torch.cuda._initialized:
            self.cuda = [generator.get_state() for generator in torch.cuda.default_generators]

    def install(self) -> None:
        if self.random is not None:
            _set_generator_state(self.random)
        elif self.seed is not None:
            torch.default_generator.manual_seed(self.seed)
        if self.dtype is not _get_default_dtype():
            torch.set_default_dtype(self.dtype)
        if self.deterministic or _get_deterministic():
            _C._set_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)
        if self.anomaly[0] or _is_anomaly_enabled():
            torch.autograd.set_detect_anomaly(*self.anomaly)
        if torch.cuda._initialized:
            self._install_cuda()

    def _install_cuda(self) -> None:
        if self.cuda is not None:
            for generator, state in zip(torch.cuda.default_generators, self.cuda, strict=True):
                generator.set_state(state)
        elif self.seed is not None:
            for generator in torch.cuda.default_generators:
                generator.manual_seed(self.seed)


# -- parts of a thread's settings -------------------------------------------------------------------


def _pop_dispatch_modes() -> list[Any]:
    """The stack of dispatch modes, topmost first; afterwards it is empty."""
    if _dispatch_modes() == 0:
        return []
    from torch.utils._python_dispatch import _pop_mode

    # Modes of torch's own (fake tensors, tracing) have slots instead of a place on the stack.
    own = [_C._unset_dispatch_mode(key) for key in _mode_keys()]
    return [mode for mode in reversed(own) if mode is not None] + [
        _pop_mode() for _ in range(_dispatch_modes())
    ]


def _push_dispatch_mode(mode: Any) -> None:
    from torch.utils._python_dispatch import _push_mode

    _push_mode(mode)


def _mode_keys() -> list[Any]:
    keys: Any = _C._TorchDispatchModeKey
    return [keys.FUNCTIONAL, keys.PROXY, keys.FAKE]


def default_device_context() -> Any:
    """What torch keeps of a default device in this thread; None if none has been set."""
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _take_default_device() -> Any:
    context = default_device_context()
    if context is not None:
        torch._GLOBAL_DEVICE_CONTEXT.device_context = None
    return context


def _take_autocast() -> Any:
    enabled = [
        (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        for device in _AUTOCAST_DEVICES
    ]
    # The counter can only be read by changing it.
    nesting = torch.autocast_increment_nesting()
    while torch.autocast_decrement_nesting() > 0:
        pass
    torch.clear_autocast_cache()
    for device, _, on in enabled:
        if on:
            torch.set_autocast_enabled(device, False)
            torch.set_autocast_dtype(device, _AUTOCAST_DTYPES[device])
    cache = torch.is_autocast_cache_enabled()
    if not cache:
        torch.set_autocast_cache_enabled(True)
    return enabled, nesting - 1, cache


def _put_autocast(state: Any) -> None:
    enabled, nesting, cache = state
    for device, dtype, on in enabled:
        if on:
            torch.set_autocast_dtype(device, dtype)
            torch.set_autocast_enabled(device, True)
    for _ in range(nesting):
        torch.autocast_increment_nesting()
    if not cache:
        torch.set_autocast_cache_enabled(False)


def _cuda_differs() -> bool:
    if _C._cuda_getDevice() != 0:
        return True
    count = len(torch.cuda.default_generators)
    current: Any = _C._cuda_getCurrentStream
    return any(current(index)[0] != 0 for index in range(count))


def _take_cuda() -> Any:
    """The current device, and the current stream of each; device 0 and the default streams after.

    A stream is (id, device index, device type), as torch's own binding has it.
    """
    device: int = _C._cuda_getDevice()
    count = len(torch.cuda.default_generators)
    streams = [_C._cuda_getCurrentStream(index) for index in range(count)]
    for stream in streams:
        if stream[0] != 0:
            _set_stream(0, *stream[1:])
    _C._cuda_setDevice(0)
    return device, streams


def _put_cuda(state: Any) -> None:
    device, streams = state
    for stream in streams:
        if stream[0] != 0:
            _set_stream(*stream)
    _C._cuda_setDevice(device)


def _set_stream(stream_id: int, device_index: int, device_type: int) -> None:
    ids = {"stream_id": stream_id, "device_index": device_index, "device_type": device_type}
    _C._cuda_setStream(**ids)
    if _changed is not None:
        _changed(torch.cuda.Stream(**ids))
