"""The names of torch.distributed.rpc.internal, for whoever imports them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from torch import Tensor

from squall.real.rpc import serialization
from squall.real.rpc.serialization import PythonUDF, RemoteException
from squall.real.rpc.state import rpc_state
from squall.real.worker import current_worker

__all__ = ["PythonUDF", "RPCExecMode", "RemoteException", "deserialize", "serialize"]

_handle_exception = serialization.handle_exception


class RPCExecMode(Enum):
    """How a call was made."""

    SYNC = "sync"
    ASYNC = "async"
    ASYNC_JIT = "async_jit"
    REMOTE = "remote"


class _InternalRPCPickler:
    """The pickler of calls, to be subclassed for ``_use_rpc_pickler``."""

    def _register_reducer(self, obj_class: type, reducer: Callable[[Any], Any]) -> None:
        """Reduce objects of exactly this class by ``reducer``, on this worker; the first counts."""
        rpc_state(current_worker()).class_reducers.setdefault(obj_class, reducer)

    def serialize(self, obj: Any) -> tuple[bytes, list[Tensor]]:
        return serialization.serialize(current_worker(), obj)

    def deserialize(self, binary_data: bytes, tensor_table: list[Tensor]) -> Any:
        return serialization.deserialize(current_worker(), binary_data, tensor_table)


_internal_rpc_pickler = _InternalRPCPickler()


def serialize(obj: Any) -> tuple[bytes, list[Tensor]]:
    """Pickle for a message of the running worker; see :mod:`squall.real.rpc.serialization`."""
    return serialization.serialize(current_worker(), obj)


def deserialize(binary_data: bytes, tensor_table: list[Tensor]) -> Any:
    return serialization.deserialize(current_worker(), binary_data, tensor_table)


def _run_function(python_udf: Any) -> Any:
    return serialization.run_function(current_worker(), python_udf)


def _build_rpc_profiling_key(
    exec_type: RPCExecMode, func_name: str, current_worker_name: str, dst_worker_name: str
) -> str:
    return f"rpc_{exec_type.value}#{func_name}({current_worker_name} -> {dst_worker_name})"
