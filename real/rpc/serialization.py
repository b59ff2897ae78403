"""Pickling for the wire: bytes, and the tensors beside them.

Functions and classes travel by reference. Where each worker has its own copies of the user's
modules, ``worker.modules`` resolves the references, since ``sys.modules`` knows only one copy.
RRefs travel as the data of a new fork, TorchScript modules as what ``torch.jit.save`` writes.
(torch/distributed/rpc/internal.py)
"""

from __future__ import annotations

import copyreg
import importlib
import io
import pickle
import sys
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from squall.real.future import FutureError
from squall.real.own_files import described
from squall.real.rpc.discard import discard_references
from squall.real.rpc.state import rpc_state
from squall.real.rpc.wire_names import find_by_wire_name, label_module, wire_name
from squall.real.tracing import UDF_ENDED, UDF_STARTED

if TYPE_CHECKING:
    from squall.real.process import Process

#: the first byte of a payload: a call, kept as a bare tuple, a tensor and nothing else, or any
#: object. A payload that starts otherwise is a plain pickle, made by a user's own pickler.
_UDF = b"U"
_TENSOR = b"T"
_OBJECT = b"O"

#: programs and torch's tests look for "Default RPC pickler does not serialize"
_HELP = (
    ". Default RPC pickler does not serialize the code of functions: they travel by name, and the "
    "module that is named must have them on the callee too."
)


class PythonUDF(NamedTuple):
    """A call of a Python function, as it travels."""

    func: Any
    args: Any
    kwargs: Any


class RemoteException(NamedTuple):
    """What a function raised on another worker: a value until the caller reads it."""

    msg: str
    exception_type: type[BaseException]


label_module(__name__, "rpc")

# The functions below stand for "an item of the message that is being read"; their names are
# what goes into the payload, and `_Unpickler.persistent_load` answers with its own methods.


def received_tensor(index: int) -> Tensor:
    raise RuntimeError("a tensor of a message was read outside the message")


def received_rref(fork_data: Any) -> Any:
    raise RuntimeError("an RRef of a message was read outside the message")


def user_global(module: str, qualname: str) -> Any:
    raise RuntimeError("a reference of a message was read outside the message")


def reduce_script_module(module: torch.jit.ScriptModule) -> Any:
    saved = io.BytesIO()
    torch.jit.save(module, saved)
    return load_script_module, (saved.getvalue(),)


def load_script_module(saved: bytes) -> torch.jit.ScriptModule:
    module: torch.jit.ScriptModule = torch.jit.load(io.BytesIO(saved))
    return module


#: beside torch's own: what tensors of a device are that is written in Python
_TENSOR_TYPES: set[type] = set()


def register_tensor_type(kind: type[Tensor]) -> None:
    """Tensors of exactly this type travel as those of torch's own do. For a device's module."""
    _TENSOR_TYPES.add(kind)


class _NoReference:
    """Stands for the class of RRefs until that is registered."""


_rref_type: Any = _NoReference


def register_rref_type(rref_type: Any) -> None:
    """Instances of ``rref_type`` travel as what their ``_serialize`` gives, a tuple of plain
    values, and come out as what its ``_deserialize`` makes of that. For the module of RRefs."""
    global _rref_type
    _rref_type = rref_type


class _Pickler(pickle.Pickler):
    """Built anew for each message; ``tensors`` and ``forks`` collect what left the payload."""

    def __init__(self, worker: Process, file: io.BytesIO) -> None:
        super().__init__(file, pickle.DEFAULT_PROTOCOL)
        self.tensors: list[Tensor] = []
        self.forks: list[Any] = []
        self._modules = worker.modules
        self._reducers = rpc_state(worker).class_reducers

    # Called of whatever is pickled: without a method of its own between.
    persistent_id = staticmethod(wire_name)

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is Tensor or kind in _TENSOR_TYPES:
            tensors = self.tensors
            tensors.append(obj)
            return received_tensor, (len(tensors) - 1,)
        reducer = self._reducers.get(kind)
        if reducer is not None:
            return reducer(obj)
        if issubclass(kind, _rref_type):
            fork_data = obj._serialize()
            self.forks.append(fork_data)
            return received_rref, (fork_data,)
        if self._modules is not None:
            module = getattr(obj, "__module__", None)
            if type(module) is str and self._modules.owns(module):
                return self._reduce_user_object(obj, module)
        if kind is torch.jit.ScriptFunction:
            return self._reduce_script_function(obj)
        return NotImplemented

    def _reduce_script_function(self, obj: Any) -> Any:
        """By the name of the Python function it was compiled from, which names it too."""
        source = getattr(obj, "_torchdynamo_inline", None)
        if not isinstance(source, FunctionType):
            raise pickle.PicklingError(f"Can't pickle {obj!r}: it was not made by torch.jit.script")
        return self._reference(obj, source.__module__, source.__qualname__)

    def _reduce_user_object(self, obj: Any, module: str) -> Any:
        """What pickle would do itself, with the worker's own copy of ``module``."""
        if isinstance(obj, type | FunctionType):
            return self._reference(obj, module, obj.__qualname__)
        reduce = copyreg.dispatch_table.get(type(obj))
        reduced: Any = obj.__reduce_ex__(pickle.DEFAULT_PROTOCOL) if reduce is None else reduce(obj)
        if isinstance(reduced, str):
            return self._reference(obj, module, reduced)
        return reduced

    def _reference(self, obj: Any, module: str, qualname: str) -> Any:
        if "<locals>" in qualname.split("."):
            raise AttributeError(f"Can't pickle local object {qualname!r}")
        modules = self._modules
        try:
            if modules is not None and modules.owns(module):
                found = modules.find(module, qualname)
            else:
                found = _import(module, qualname)
        except (AttributeError, KeyError, ImportError):
            raise pickle.PicklingError(
                f"Can't pickle {obj!r}: attribute lookup {qualname} on {module} failed"
            ) from None
        if found is not obj:
            raise pickle.PicklingError(
                f"Can't pickle {obj!r}: it's not the same object as {module}.{qualname}"
            )
        return user_global, (module, qualname)


class _Unpickler(pickle.Unpickler):
    def __init__(self, worker: Process, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self._worker = worker
        self._tensors = tensors

    def persistent_load(self, name: str) -> Any:
        match name:
            case "rpc.received_tensor":
                return self._tensors.__getitem__
            case "rpc.received_rref":
                return _rref_type._deserialize
            case "rpc.user_global":
                # Not a method of this object: what is found goes into its memo, and an object in
                # a cycle would keep the RRefs of the message alive.
                return partial(_find_global, self._worker)
            case _:
                return find_by_wire_name(name)

    def find_class(self, module: str, name: str) -> Any:
        modules = self._worker.modules
        if modules is not None and modules.owns(module):
            return modules.find(module, name)
        return super().find_class(module, name)


def _find_global(worker: Process, module: str, qualname: str) -> Any:
    modules = worker.modules
    if modules is not None and modules.owns(module):
        return modules.find(module, qualname)
    return _import(module, qualname)


def _import(module: str, qualname: str) -> Any:
    found: Any = importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    return found


class Pickled(NamedTuple):
    """An object as it travels. ``forks`` are the RRefs that were forked for the journey."""

    payload: bytes
    tensors: list[Tensor]
    forks: list[Any]


def dump(worker: Process, obj: Any) -> Pickled:
    """:func:`serialize`, for a sender who may have to call :func:`discard_forks`."""
    if type(obj) is Tensor or type(obj) in _TENSOR_TYPES:
        return Pickled(_TENSOR, [obj], [])
    file = io.BytesIO()
    pickler = _Pickler(worker, file)
    try:
        if worker.interceptor is not None:
            worker.interceptor.at(worker, "pickle")
        if type(obj) is PythonUDF:
            file.write(_UDF)
            pickler.dump(tuple(obj))
        else:
            if isinstance(obj, torch.jit.ScriptModule):
                # As in torch: one that travels by itself makes way for those inside objects.
                rpc_state(worker).class_reducers.setdefault(type(obj), reduce_script_module)
            file.write(_OBJECT)
            pickler.dump(obj)
    except BaseException:
        discard_forks(worker, pickler.forks)
        raise
    return Pickled(file.getvalue(), pickler.tensors, pickler.forks)


def discard_forks(worker: Process, forks: list[Any]) -> None:
    """Take back forks whose message will not be sent."""
    context = worker.rref_context
    if context is not None:
        for fork_data in forks:
            context.undo_fork(fork_data)


def serialize(worker: Process, obj: Any) -> tuple[bytes, list[Tensor]]:
    """Pickle ``obj`` for a message that ``worker`` sends.

    Returns the payload and the tensors that travel beside it. Tensors of exactly the type
    ``torch.Tensor`` are taken out as they are; any other tensor is reduced by torch down to
    such ones. Each RRef inside is forked. Raises what pickle raises for an object that cannot
    be pickled, and then no fork is left behind.
    """
    pickled = dump(worker, obj)
    return pickled.payload, pickled.tensors


def deserialize(worker: Process, payload: bytes, tensors: list[Tensor]) -> Any:
    """Undo :func:`serialize` at the receiver, which makes its RRefs users (or owners).

    A name that the receiver's modules lack raises AttributeError with torch's advice. In a
    call the error takes the place of the :class:`PythonUDF`, for :func:`run_function` to raise.
    """
    if payload == _TENSOR:
        return tensors[0]
    file = io.BytesIO(payload)
    kind = file.read(1)
    if kind != _UDF and kind != _OBJECT:
        file.seek(0)
    try:
        if worker.interceptor is not None:
            worker.interceptor.at(worker, "unpickle")
        value = _Unpickler(worker, file, tensors).load()
    except Exception as error:
        discard_references(worker, payload)
        if not isinstance(error, AttributeError):
            raise
        explained = AttributeError(f"{error}{_HELP}")
        explained.__cause__ = error
        if kind == _OBJECT:
            try:
                raise explained from error
            finally:
                del explained  # its traceback refers to this frame: they would keep each other
        return explained
    return PythonUDF._make(value) if kind == _UDF else value


def run_function(worker: Process, udf: Any) -> Any:
    """Call the function of ``udf``: its result, or a :class:`RemoteException` if it raises.

    Raises FutureError if the function wants to end the process.
    """
    tracer = worker.tracer
    if tracer.enabled:
        tracer.emit(UDF_STARTED, _name_of(udf))
    error_name: str | None = None
    try:
        if isinstance(udf, AttributeError):
            raise udf
        if worker.interceptor is not None:
            worker.interceptor.at(worker, "udf")
        result = udf.func(*udf.args, **udf.kwargs)  # a watcher of the run reads it in this frame
        return result
    except Exception as error:
        error_name = type(error).__name__
        return capture_exception(worker, error)
    except (SystemExit, KeyboardInterrupt) as error:
        # Only the call ends, not the thread that serves it: the caller gets an error of its own.
        error_name = type(error).__name__
        raise FutureError(f"{error_name}: {error}") from None
    finally:
        if tracer.enabled:
            tracer.emit(UDF_ENDED, _name_of(udf), error_name)


def capture_exception(worker: Process, error: Exception) -> RemoteException:
    """The exception being handled, as it travels; also printed to standard error, as torch does.

    Its traceback is dropped: frames would keep alive what their variables hold, RRefs among it.
    """
    info = worker.agent.info if worker.agent is not None else None
    # It crosses the network: its size must not depend on where squall's files are, or their lines.
    kind = type(error)
    frames = "".join(described(error).format())
    if (name := wire_name(kind)) is not None:
        frames = frames.replace(f"{kind.__module__}.{kind.__qualname__}", name)
    text = f"On {info}:\n{error!r}\n{frames}"
    print(text, file=sys.stderr)
    captured = RemoteException(text, kind)
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and not any(link is other for other in seen):
        seen.append(link)
        link.__traceback__ = None
        link = link.__cause__ if link.__cause__ is not None else link.__context__
    return captured


def handle_exception(value: Any) -> Any:
    """``value``, unless it is a :class:`RemoteException`: that is raised, in its own type.

    A type that cannot be made from one string raises RuntimeError instead.
    """
    if not isinstance(value, RemoteException):
        return value
    text = value.msg.encode("utf-8").decode("unicode_escape")
    try:
        error = value.exception_type(text)
    except BaseException as why:
        raise RuntimeError(
            f"Failed to create original exception type. Error msg was {why!s}"
            f" Original exception on remote side was {text}"
        ) from why
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame: they would keep each other


def _name_of(udf: Any) -> str:
    func = getattr(udf, "func", None)
    name: Any = getattr(func, "__qualname__", None)
    return name if isinstance(name, str) else type(func).__name__
