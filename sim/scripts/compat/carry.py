"""How ``multiprocessing`` takes an object from one simulated process to another.

Everything is pickled and unpickled, except tensors: as ``torch.multiprocessing`` puts them into
shared memory, both processes see one storage. Functions and classes go by reference and arrive as
the receiver's own copies.
"""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from squall.real.worker import current_worker

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace


class Parcel:
    """A pickled object; ``tensors`` travel beside it, sharing their storage with the sender's.

    ``share`` False copies them, unless they are in shared memory already: what fork does.
    Raises what pickling raises.
    """

    __slots__ = ("payload", "tensors")

    def __init__(self, obj: Any, space: ModuleSpace, *, share: bool = True) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file, space, share)
        pickler.dump(obj)
        self.payload = file.getvalue()
        self.tensors = pickler.tensors

    def open(self) -> Any:
        """The object, rebuilt by and for the current process."""
        return _Unpickler(io.BytesIO(self.payload), self.tensors).load()


def find_user_global(module: str, qualname: str) -> Any:
    """The current process's own function or class of that name."""
    modules = current_worker().modules
    assert modules is not None
    return modules.find(module, qualname)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, space: ModuleSpace, share: bool) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._space = space
        self._share = share
        self.tensors: list[tuple[Tensor, bool, bool]] = []

    def persistent_id(self, obj: Any) -> int | None:
        kind = type(obj)
        if kind is not Tensor and kind is not torch.nn.Parameter:
            return None
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad: its history "
                "cannot follow it into another process. Send tensor.detach() to send the values."
            )
        data = obj.detach()
        if not self._share and not obj.is_shared():
            data = data.clone()
        self.tensors.append((data, obj.requires_grad, kind is torch.nn.Parameter))
        return len(self.tensors) - 1

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type):
            module = getattr(obj, "__module__", None)
            if isinstance(module, str) and self._space.owns(module):
                return self._reference(obj, module)
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


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[tuple[Tensor, bool, bool]]) -> None:
        super().__init__(file)
        self._tensors = tensors
        self._built: dict[int, Tensor] = {}

    def persistent_load(self, index: int) -> Tensor:
        tensor = self._built.get(index)
        if tensor is None:
            data, requires_grad, is_parameter = self._tensors[index]
            fresh = data.detach()
            if is_parameter:
                tensor = torch.nn.Parameter(fresh, requires_grad=requires_grad)
            else:
                tensor = fresh.requires_grad_(requires_grad)
            self._built[index] = tensor
        return tensor
