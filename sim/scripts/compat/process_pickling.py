"""How an object goes from one simulated process to another: pickled, as between real processes.

Tensors, though, share their storage, as ``torch.multiprocessing`` puts them into shared memory, and so do maps
of memory. Functions and classes of a process's own modules go by reference and arrive as the receiver's
own copies.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from mmap import mmap
from types import (
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from squall.real.worker import current_worker
from squall.sim.scripts.compat.threads import ThreadLock, inherited

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace


class Parcel(bytes):
    """A pickled object; what is not copied travels beside it.

    ``share`` False copies tensors, unless they are in shared memory already: what fork does.
    ``forked``: what cannot be pickled is inherited as it is, and a function of the parent is one of the
    child, over its own globals. Raises what pickling raises.
    """

    beside: list[Any]

    def __new__(
        cls, obj: Any, space: ModuleSpace, *, share: bool = True, forked: bool = False
    ) -> Parcel:
        file = io.BytesIO()
        pickler = _Pickler(file, space, share, forked)
        pickler.dump(obj)
        parcel = super().__new__(cls, file.getvalue())
        parcel.beside = pickler.beside
        return parcel

    def open(self) -> Any:
        """The object, rebuilt by and for the current process."""
        return opened(self)

    def alone(self) -> bytes:
        """With nothing beside; for :func:`opened_alone`."""
        return pickle.dumps((bytes(self), self.beside))


def opened_alone(data: bytes) -> Any:
    """What :meth:`Parcel.alone` stands for in the current process."""
    pickled, beside = pickle.loads(data)
    return _Unpickler(io.BytesIO(pickled), beside).load()


def opened(data: Any) -> Any:
    """What pickled bytes stand for in the current process, whether they are a :class:`Parcel` or not."""
    return _Unpickler(io.BytesIO(data), getattr(data, "beside", [])).load()


def find_user_global(module: str, qualname: str) -> Any:
    """The current process's own function or class of that name."""
    modules = current_worker().modules
    assert modules is not None
    return modules.find(module, qualname)


#: what a class is made with, and what it then has by itself: descriptors of slots and of its dictionary
_FIRST = ("__slots__", "__module__", "__qualname__", "__doc__")
_BY_ITSELF = (MemberDescriptorType, GetSetDescriptorType)


class _AsItIs:
    """What is not copied."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, space: ModuleSpace, share: bool, forked: bool) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._space = space
        self._share = share
        self._forked = forked
        reduction: Any = space.loaded.get("multiprocessing.reduction")
        registered = {} if reduction is None else reduction.ForkingPickler._extra_reducers
        self.dispatch_table = {**copyreg.dispatch_table, **registered}
        self.beside: list[Any] = []

    def persistent_id(self, obj: Any) -> int | None:
        kind = type(obj)
        if kind is Tensor or kind is torch.nn.Parameter:
            self.beside.append(self._tensor(obj))
        elif kind is mmap:
            self.beside.append(obj)
        elif kind is _AsItIs:
            self.beside.append(obj.thing)
        else:
            return None
        return len(self.beside) - 1

    def _tensor(self, tensor: Tensor) -> Any:
        if tensor.requires_grad and not tensor.is_leaf:
            if self._forked:
                return tensor
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad: its history "
                "cannot follow it into another process. Send tensor.detach() to send the values."
            )
        data = tensor.detach()
        if not self._share and not tensor.is_shared():
            data = data.clone()
        return _SentTensor(data, tensor.requires_grad, type(tensor) is torch.nn.Parameter)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type):
            module = getattr(obj, "__module__", None)
            if isinstance(module, str) and self._space.owns(module):
                try:
                    return self._reference(obj, module)
                except (AttributeError, pickle.PicklingError):
                    if not self._forked:
                        raise
                if isinstance(obj, FunctionType):
                    return self._function(obj)
                return self._class(obj) if type(obj) is type else _inherited(obj)
            if self._forked and "<" in obj.__qualname__:
                return _inherited(obj)
        elif self._forked and type(obj) not in self.dispatch_table:
            try:
                if isinstance(obj, staticmethod | classmethod):
                    return type(obj), (obj.__func__,)
                if isinstance(obj, ThreadLock):
                    return inherited(obj)
                if type(obj) is property:
                    return property, (obj.fget, obj.fset, obj.fdel, obj.__doc__)
                return obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            except Exception:
                return _inherited(obj)
        return NotImplemented

    def _reference(self, obj: Any, module: str) -> Any:
        qualname = obj.__qualname__
        if "<locals>" in qualname.split("."):
            raise AttributeError(f"Can't pickle local object {qualname!r}")
        try:
            found = self._space.find(module, qualname)
        except (ImportError, AttributeError):
            raise pickle.PicklingError(
                f"Can't pickle {obj!r}: attribute lookup {qualname} on {module} failed"
            ) from None
        if found is not obj:
            raise pickle.PicklingError(
                f"Can't pickle {obj!r}: it's not the same object as {module}.{qualname}"
            )
        return find_user_global, (module, qualname)

    def _function(self, function: FunctionType) -> Any:
        """By its code, and what it refers to: it may refer to itself."""
        cells = [_content(cell) for cell in function.__closure__ or ()]
        made = (_AsItIs(function.__code__), function.__module__, function.__name__, len(cells))
        more = (function.__defaults__, function.__kwdefaults__, vars(function), cells)
        return _function, made, more, None, None, _fill

    def _class(self, kind: type) -> Any:
        """By its members, whose functions may refer to it."""
        own = {name: each for name, each in vars(kind).items() if type(each) not in _BY_ITSELF}
        first = {name: own.pop(name) for name in _FIRST if name in own}
        return type, (kind.__name__, kind.__bases__, first), own, None, None, _fill_class


def _inherited(thing: Any) -> Any:
    return _itself, (_AsItIs(thing),)


def _itself(thing: Any) -> Any:
    return thing


def _content(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing yet
        return ()


def _function(code: CodeType, module: str, name: str, cells: int) -> FunctionType:
    modules: Any = current_worker().modules
    own = vars(modules.load(module))
    return FunctionType(code, own, name, None, tuple(CellType() for _ in range(cells)))


def _fill(function: FunctionType, more: tuple[Any, ...]) -> None:
    function.__defaults__, function.__kwdefaults__, attributes, cells = more
    vars(function).update(attributes)
    for cell, content in zip(function.__closure__ or (), cells, strict=True):
        if content:
            (cell.cell_contents,) = content


def _fill_class(kind: type, members: dict[str, Any]) -> None:
    for name, each in members.items():
        setattr(kind, name, each)


class _SentTensor:
    """A tensor of the sender; the receiver's is on the same storage."""

    def __init__(self, data: Tensor, requires_grad: bool, is_parameter: bool) -> None:
        self._data = data
        self._requires_grad = requires_grad
        self._is_parameter = is_parameter

    def received(self) -> Tensor:
        fresh = self._data.detach()
        if self._is_parameter:
            return torch.nn.Parameter(fresh, requires_grad=self._requires_grad)
        return fresh.requires_grad_(self._requires_grad)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, beside: list[Any]) -> None:
        super().__init__(file)
        self._beside = beside
        self._built: dict[int, Tensor] = {}

    def persistent_load(self, index: int) -> Any:
        thing = self._beside[index]
        if not isinstance(thing, _SentTensor):
            return thing
        if index not in self._built:
            self._built[index] = thing.received()
        return self._built[index]
