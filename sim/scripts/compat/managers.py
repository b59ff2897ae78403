"""``multiprocessing.Manager``: dictionaries, lists and namespaces that processes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence
from functools import partial
from multiprocessing.managers import AutoProxy, public_methods  # type: ignore[attr-defined]
from typing import Any, Self

from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.shared import (
    JoinableQueue,
    Shared,
    SharedValue,
    Synchronizer,
    make_array,
    make_value,
)


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


class ManagedObject(Shared):
    """What a registered class or function has made: its methods take copies and give copies."""

    def __init__(self, made: Any, exposed: Iterable[str]) -> None:
        super().__init__()
        self._made = made
        for name in exposed:
            setattr(self, name, partial(self._call, name))

    def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _copied((args, kwargs))
        return _copied(getattr(self._made, name)(*args, **kwargs))

    def _callmethod(self, methodname: str, args: Any = (), kwds: Any = None) -> Any:
        return self._call(methodname, *args, **(kwds or {}))

    def _getvalue(self) -> Any:
        return _copied(self._made)

    def __str__(self) -> str:
        return str(self._made)


def _copied(value: Any) -> Any:
    return Parcel(value, current_process().space).open()


class BaseManager:
    """``multiprocessing.managers.BaseManager``: makes shared objects; needs no process of its own."""

    def __init__(
        self,
        address: Any = None,
        authkey: bytes | None = None,
        serializer: str = "pickle",
        ctx: Any = None,
        *,
        shutdown_timeout: float = 1.0,
    ) -> None:
        if address is not None:
            raise NotImplementedError(
                "a manager with an address, which processes of other machines connect to, is not "
                "simulated"
            )

    @classmethod
    def register(
        cls,
        typeid: str,
        callable: Callable[..., Any] | None = None,
        proxytype: Any = None,
        exposed: Iterable[str] | None = None,
        method_to_typeid: dict[str, str] | None = None,
        create_method: bool = True,
    ) -> None:
        """Let managers of this class make what ``callable`` makes. Raises NotImplementedError for proxies
        of the script's own."""
        if callable is None or proxytype not in (None, AutoProxy) or method_to_typeid:
            raise NotImplementedError(
                "BaseManager.register is simulated for a callable and its public methods: without "
                "proxytype and method_to_typeid"
            )

        def make(self: BaseManager, /, *args: Any, **kwds: Any) -> ManagedObject:
            made = callable(*args, **kwds)
            return ManagedObject(made, exposed or public_methods(made))

        if create_method:
            make.__name__ = typeid
            setattr(cls, typeid, make)

    def start(
        self, initializer: Callable[..., object] | None = None, initargs: Iterable[Any] = ()
    ) -> None:
        """Nothing to start."""
        if initializer is not None:
            raise NotImplementedError(
                "a manager is no process of its own in the simulation, and has no initializer"
            )

    def shutdown(self) -> None:
        """Nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _makes(kind: str) -> Callable[..., Synchronizer]:
    def make(self: BaseManager, /, *args: Any, **kwargs: Any) -> Synchronizer:
        return Synchronizer(kind, *args, **kwargs)

    make.__name__ = make.__qualname__ = kind
    return make


class SyncManager(BaseManager):
    """``multiprocessing.managers.SyncManager``, which ``multiprocessing.Manager`` gives."""

    Barrier = _makes("Barrier")
    BoundedSemaphore = _makes("BoundedSemaphore")
    Condition = _makes("Condition")
    Event = _makes("Event")
    Lock = _makes("Lock")
    RLock = _makes("RLock")
    Semaphore = _makes("Semaphore")

    def dict(self, *args: Any, **kwargs: Any) -> ManagedDict:
        return ManagedDict(*args, **kwargs)

    def list(self, values: Any = ()) -> ManagedList:
        return ManagedList(values)

    def Namespace(self, **values: Any) -> Namespace:  # noqa: N802
        namespace = Namespace()
        for name, value in values.items():
            setattr(namespace, name, value)
        return namespace

    def Queue(self, maxsize: int = 0) -> JoinableQueue:  # noqa: N802
        return JoinableQueue(maxsize)

    def JoinableQueue(self, maxsize: int = 0) -> JoinableQueue:  # noqa: N802
        return JoinableQueue(maxsize)

    def Value(self, typecode: Any, value: Any, lock: bool = True) -> SharedValue:  # noqa: N802
        return make_value(typecode, value, lock=lock)

    def Array(self, typecode: Any, sequence: Any, lock: bool = True) -> SharedValue:  # noqa: N802
        return make_array(typecode, sequence, lock=lock)
