"""``multiprocessing.Manager``: dictionaries, lists and namespaces that processes share."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any

from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.shared import Queue, Shared, SharedValue, Synchronizer, make_value


class ManagedDict(Shared, MutableMapping[Any, Any]):
    """``Manager().dict()``: what is stored and read is a copy."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._items: dict[Any, Parcel] = {}
        self.update(dict(*args, **kwargs))

    def __getitem__(self, key: Any) -> Any:
        return self._items[key].open()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._items[key] = Parcel(value, current_process().space)

    def __delitem__(self, key: Any) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._items))

    def __len__(self) -> int:
        return len(self._items)

    def copy(self) -> dict[Any, Any]:
        return dict(self)

    def __repr__(self) -> str:
        return repr(self.copy())


class ManagedList(Shared, MutableSequence[Any]):
    """``Manager().list()``: what is stored and read is a copy."""

    def __init__(self, values: Any = ()) -> None:
        super().__init__()
        self._items: list[Parcel] = []
        self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        found = self._items[index]
        return [each.open() for each in found] if isinstance(found, list) else found.open()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._items[index] = Parcel(value, current_process().space)

    def __delitem__(self, index: Any) -> None:
        del self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def insert(self, index: int, value: Any) -> None:
        self._items.insert(index, Parcel(value, current_process().space))

    def __repr__(self) -> str:
        return repr(list(self))


class Namespace(Shared):
    """``Manager().Namespace()``."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_key":
            super().__setattr__(name, value)
        else:
            super().__setattr__(name, Parcel(value, current_process().space))

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return value.open() if isinstance(value, Parcel) else value


class Manager:
    """``multiprocessing.Manager``: makes shared objects; needs no process of its own."""

    def dict(self, *args: Any, **kwargs: Any) -> ManagedDict:
        return ManagedDict(*args, **kwargs)

    def list(self, values: Any = ()) -> ManagedList:
        return ManagedList(values)

    def Namespace(self, **values: Any) -> Namespace:  # noqa: N802
        namespace = Namespace()
        for name, value in values.items():
            setattr(namespace, name, value)
        return namespace

    def Queue(self, maxsize: int = 0) -> Queue:  # noqa: N802
        return Queue(maxsize)

    def Value(self, typecode: Any, value: Any, lock: bool = True) -> SharedValue:  # noqa: N802
        return make_value(typecode, value, lock=lock)

    def __getattr__(self, name: str) -> Any:
        if name in ("Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock",
                    "Semaphore"):  # fmt: skip
            return lambda *args, **kwargs: Synchronizer(name, *args, **kwargs)
        raise AttributeError(name)

    def shutdown(self) -> None:
        """Nothing to stop."""

    def start(self) -> None:
        """Nothing to start."""

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
