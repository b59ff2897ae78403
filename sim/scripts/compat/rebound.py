"""PyTorch's own functions around process groups, over the groups of this engine."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.distributed import distributed_c10d

from squall.sim.scripts.backends import numbered
from squall.sim.scripts.compat import groups
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.process_pickling import Parcel, opened_alone

_REAL: Any = vars(distributed_c10d)
#: what they call, which knows of groups
_HELPERS = (
    *("_canonicalize_group_rank", "_check_op", "_group_or_default_group", "_rank_not_in_group"),
    *("_warn_not_in_group", "all_gather_single", "reduce_scatter_single"),
)
_PUBLIC = (
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all"),
    *("all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list"),
    *("gather", "gather_object", "irecv", "isend", "monitored_barrier", "recv_object_list"),
    *("reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list"),
    *("send", "send_object_list"),
)


def _object_to_tensor(obj: Any, device: object, group: object) -> tuple[Tensor, Tensor]:
    """Bytes, and how many: uint8 and int64 of one dimension."""
    parcel = Parcel(obj, current_process().space, share=False)
    data = torch.frombuffer(bytearray(parcel.alone()), dtype=torch.uint8).clone()
    return data, torch.tensor([data.numel()])


def _tensor_to_object(tensor: Tensor, size: int, group: object) -> Any:
    return opened_alone(tensor.numpy().tobytes()[:size])


#: what they find by its name, and the module that they are pickled as functions of
known: dict[str, Any] = {
    **_REAL,
    **groups.NAMES,
    "__name__": "squall.sim.scripts.compat.collectives",
    "_get_object_coll_device": lambda group=None: "cpu",
    "_object_to_tensor": _object_to_tensor,
    "_tensor_to_object": _tensor_to_object,
}


def rebound(function: Any) -> Any:
    """The function with the names of this engine, and without what logs its errors or says that it is old."""
    real = inspect.unwrap(function)
    made = FunctionType(real.__code__, known, real.__name__, real.__defaults__, real.__closure__)
    for name in ("__kwdefaults__", "__doc__", "__annotations__", "__qualname__"):
        setattr(made, name, getattr(real, name))
    return made


known.update({name: rebound(_REAL[name]) for name in (*_HELPERS, *_PUBLIC) if name in _REAL})
known["batch_isend_irecv"] = numbered(known["batch_isend_irecv"])
#: by name: those for scripts
NAMES = {name: known[name] for name in _PUBLIC if name in known}


def member_meant(group: Any, rank: int | None, group_rank: int | None) -> int:
    """The member meant by a global rank, the first one if there is none, or by a rank within the group. Raises
    ValueError."""
    rank = 0 if rank is None and group_rank is None else rank
    member: int = known["_canonicalize_group_rank"](groups.resolve(group), rank, group_rank)
    return member
