"""Options of the RPC backend (torch/distributed/rpc/options.py, csrc/.../rpc_agent.h)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from squall.real.rpc.constants import (
    DEFAULT_INIT_METHOD,
    DEFAULT_NUM_WORKER_THREADS,
    DEFAULT_RPC_TIMEOUT_S,
)
from squall.real.streams import device_type

DeviceType = int | str | torch.device
DeviceMap = dict[torch.device, torch.device]

#: what TensorPipe can be told to use; here accepted and without effect
_TRANSPORTS = ("ibv", "shm", "uv")
_CHANNELS = ("basic", "cma", "cuda_basic", "cuda_gdr", "cuda_ipc", "cuda_xth", "mpt_uv", "xth")


def _incompatible(why: str) -> TypeError:
    return TypeError(f"__init__(): incompatible constructor arguments: {why}")


class RpcBackendOptions:
    """What every backend can be told: the default timeout (seconds) and where workers meet."""

    def __init__(
        self, rpc_timeout: Any = DEFAULT_RPC_TIMEOUT_S, init_method: Any = DEFAULT_INIT_METHOD
    ) -> None:
        if isinstance(rpc_timeout, str) or not hasattr(rpc_timeout, "__float__"):
            raise _incompatible(f"rpc_timeout must be a number of seconds, got {rpc_timeout!r}")
        if not isinstance(init_method, str):
            raise _incompatible(f"init_method must be a string, got {init_method!r}")
        if not rpc_timeout >= 0:
            raise RuntimeError("RPC Timeout must be non-negative")
        self.rpc_timeout: float = float(rpc_timeout)
        self.init_method: str = init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Options of torch's backend, which this engine takes too.

    ``num_worker_threads``: how many requests a worker serves at a time. ``device_maps``: for
    each callee, by name, where this worker's devices go on it. ``devices``: the CUDA devices
    used here. Raises TypeError, ValueError or RuntimeError where torch does.
    """

    def __init__(
        self,
        *,
        num_worker_threads: Any = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: Any = DEFAULT_RPC_TIMEOUT_S,
        init_method: str = DEFAULT_INIT_METHOD,
        device_maps: Mapping[str, Mapping[DeviceType, DeviceType]] | None = None,
        devices: Sequence[DeviceType] | None = None,
        _transports: Sequence[str] | None = None,
        _channels: Sequence[str] | None = None,
    ) -> None:
        maps = {name: _device_map(map_) for name, map_ in (device_maps or {}).items()}
        device_list = _device_list(devices or [])
        super().__init__(rpc_timeout, init_method)
        if not hasattr(num_worker_threads, "__index__") or num_worker_threads >= 2**31:
            raise _incompatible(
                f"num_worker_threads must be an integer, got {num_worker_threads!r}"
            )
        if num_worker_threads <= 0:
            raise RuntimeError(f"num_worker_threads must be positive, got {num_worker_threads}")
        for kind, names, known in (
            ("transport", _transports, _TRANSPORTS),
            ("channel", _channels, _CHANNELS),
        ):
            for name in names or ():
                if name not in known:
                    raise RuntimeError(f"Unknown {kind}: {name}")
        self.num_worker_threads: int = int(num_worker_threads)
        self.device_maps: dict[str, DeviceMap] = maps
        self.devices: list[torch.device] = device_list

    def set_device_map(self, to: str, device_map: Mapping[DeviceType, DeviceType]) -> None:
        """Add to the device map for callee ``to``. Raises ValueError if it contradicts it."""
        added = _device_map(device_map)
        current = self.device_maps.setdefault(to, {})
        for source, target in added.items():
            if current.get(source, target) != target:
                raise ValueError(
                    "`set_device_map` only supports 1-to-1 mapping, trying"
                    f" to map {source} to {target} and {current[source]}"
                )
        current.update(added)

    def set_devices(self, devices: Sequence[DeviceType]) -> None:
        """Set the CUDA devices used here. Raises ValueError for any other device."""
        self.devices = _device_list(devices)


def _device_map(device_map: Mapping[DeviceType, DeviceType]) -> DeviceMap:
    forward: DeviceMap = {}
    backward: DeviceMap = {}
    for key, value in device_map.items():
        source, target = torch.device(key), torch.device(value)
        if target in backward:
            raise ValueError(
                "`device_map` only supports 1-to-1 mapping, "
                f"trying to map {source} and {backward[target]} to {target}"
            )
        forward[source] = target
        backward[target] = source
    return forward


def _device_list(devices: Sequence[DeviceType]) -> list[torch.device]:
    found = [torch.device(device) for device in devices]
    for device in found:
        if device.type not in ("cuda", device_type()):
            raise ValueError(
                f"`set_devices` expect a list of CUDA devices, but got device type {device.type}."
            )
    return found
