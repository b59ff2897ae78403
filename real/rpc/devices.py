"""Checking the device maps of a group (torch/distributed/rpc/backend_registry.py).

Each worker says which maps and devices it was given; all check all of them, and each works out from
the maps to it where its replies go (_tensorpipe_exchange_and_check_all_device_maps).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from squall.real.streams import device_count, device_type

if TYPE_CHECKING:
    from squall.real.rpc.options import DeviceMap, TensorPipeRpcBackendOptions
    from squall.real.rpc.store import Store
    from squall.real.rpc.worker_info import WorkerInfo


class DeviceInfo(NamedTuple):
    """What one worker says of its devices."""

    name: str
    device_count: int
    maps: dict[str, DeviceMap]
    devices: list[torch.device]


def tell_devices(store: Store, name: str, rank: int, options: TensorPipeRpcBackendOptions) -> None:
    """Say what devices this worker has; to be done before it joins its group."""
    # Workers without devices say nothing, so that a group without any has nothing to read.
    if options.device_maps or options.devices:
        mine = DeviceInfo(name, device_count(), options.device_maps, options.devices)
        store.set(f"devices/{rank}", mine)
        store.add("devices/some", 1)


class GroupDevices(NamedTuple):
    """Where one worker's tensors go, by the name of who gets them; of a call's, and of a reply's.
    ``devices`` are all of its own that are in use for messages."""

    maps: dict[str, DeviceMap]
    reverse_maps: dict[str, DeviceMap]
    devices: tuple[torch.device, ...]


NO_DEVICES = GroupDevices({}, {}, ())


def tell_devices_anew(
    store: Store, name: str, rank: int, options: TensorPipeRpcBackendOptions
) -> None:
    """As :func:`tell_devices`, for a group that workers leave and whose ranks are taken again."""
    if options.device_maps or options.devices:
        tell_devices(store, name, rank, options)
    elif store.peek(f"devices/{rank}") is not None:
        store.set(f"devices/{rank}", None)


def check_device_maps(
    store: Store, infos: Sequence[WorkerInfo], name: str, *, static: bool = True
) -> GroupDevices:
    """Check the maps of all workers of a group, which have told of them, against each other.

    Gives those of worker ``name``. Raises ValueError, on every worker, if some map is invalid.
    ``static`` False: maps may lead to workers that are not there yet.
    """
    if store.peek("devices/some", 0) == 0:
        return NO_DEVICES
    here = device_count()  # of who said nothing: all are on this machine
    every: list[DeviceInfo] = []
    for info in infos:
        said: DeviceInfo | None = store.peek(f"devices/{info.id}")
        every.append(said if said is not None else DeviceInfo(info.name, here, {}, []))
    validate_device_maps(every, static=static)
    return devices_of_worker(every, name)


def devices_of_worker(every: Sequence[DeviceInfo], name: str) -> GroupDevices:
    """What the maps of a whole group come to for one worker of it."""
    maps: dict[str, DeviceMap] = {}
    reverse: dict[str, DeviceMap] = {}
    devices: dict[torch.device, None] = {}
    for info in every:
        if info.name == name:
            maps = dict(info.maps)
            devices.update(dict.fromkeys(info.devices))
            for map_ in info.maps.values():
                devices.update(dict.fromkeys(map_))
        if name in info.maps:
            reverse[info.name] = {to: source for source, to in info.maps[name].items()}
            devices.update(dict.fromkeys(reverse[info.name]))
    used = sorted((d for d in devices if d.type != "cpu"), key=lambda device: device.index or 0)
    return GroupDevices(maps, reverse, tuple(used))


def _valid(devices: Iterable[torch.device], device_count: int) -> bool:
    return all(
        d.type == "cpu" or (d.type == device_type() and 0 <= (d.index or 0) < device_count)
        for d in devices
    )


def validate_device_maps(every: list[DeviceInfo], *, static: bool = True) -> None:
    """Raises ValueError with torch's text for the first thing that is wrong."""
    by_name = {info.name: info for info in every}
    names = list(by_name)
    for info in every:
        if len(dict.fromkeys(info.devices)) != len(info.devices):
            raise ValueError(f"Node {info.name} has duplicated devices\ndevices = {info.devices}")
        if not _valid(info.devices, info.device_count):
            raise ValueError(
                f"Node {info.name} has devices with invalid indices\n"
                f"devices = {info.devices}\ndevice count = {info.device_count}"
            )
    for info in every:
        if static and not all(target in by_name for target in info.maps):
            raise ValueError(
                f"Node {info.name} has invalid target node names in its device maps\n"
                f"device maps = {info.maps.keys()}\nnode names = {names}"
            )
        for target, map_ in info.maps.items():
            unknown = DeviceInfo(target, info.device_count, {}, [])
            _validate_map(info, by_name.get(target, unknown), map_)


def _validate_map(source: DeviceInfo, target: DeviceInfo, map_: DeviceMap) -> None:
    where = f"in its device map for {target.name}\ndevice map = {map_}"
    if len(dict.fromkeys(map_.values())) != len(map_):
        raise ValueError(f"Node {source.name} has duplicated target devices {where}")
    for kind, used, owner in (
        ("source", list(map_), source),
        ("target", list(map_.values()), target),
    ):
        if owner.devices:
            if not all(device in owner.devices for device in used):
                raise ValueError(
                    f"Node {source.name} has unexpected {kind} devices {where}\n"
                    f"devices = {owner.devices}"
                )
        elif not _valid(used, owner.device_count):
            raise ValueError(
                f"Node {source.name} has {kind} devices with invalid indices {where}\n"
                f"device count = {owner.device_count}"
            )
