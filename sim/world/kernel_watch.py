"""What kernels and streams of a device do, seen from outside: for a GPU, which tells nobody.

A dispatch mode sees each operator with the tensors that it reads and writes, and the stream that is
current; the device's own classes are asked to tell of each event that is recorded or waited for,
and of the host's waiting. The stand-in tells the same by itself (:mod:`.stand_in.streams`); watched
in this way it shows that the watch sees what it should.

What torch does inside one operator is not seen, and added here: a copy between two devices is
ordered with the current streams of both, one to the host waits for the current stream, as does an
operator whose result the host needs. Tensors are told apart by their storages; one that is freed
counts as written to by the next tensor of the stream that it was allocated on, unless
``record_stream`` was called.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from squall.model.events.stream_order import StreamEvent, StreamId
from squall.real.autograd.node_streams import forget_streams, note_streams
from squall.sim.world.callers import caller
from squall.sim.world.operators import operator
from squall.sim.world.torch_settings import tell_of_streams

#: operators that make memory and leave it unwritten
_ALLOCATE = frozenset(
    ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted")
)
#: operators that give the host a value
_TO_THE_HOST = frozenset(("_local_scalar_dense", "equal"))
#: number of the stream, of each device, on which memory is given back that others used as well
_FREED = -1
#: operators that run nothing
_NOTHING = frozenset(("is_same_size", "set_data", "set_", "resize_"))
_HOST_NEEDS_SHAPE = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class _Block:
    """The memory of a storage. ``used_on``: other streams on which it is (record_stream)."""

    __slots__ = ("id", "stream", "used_on")

    def __init__(self, id: int, stream: StreamId) -> None:
        self.id = id
        self.stream = stream
        self.used_on: dict[StreamId, None] = {}


class KernelWatch(TorchDispatchMode):
    """Sees the devices of one type, as ``torch.get_device_module(kind)`` has them, between
    :meth:`begin` and :meth:`end`; :attr:`log` is for model/events/stream_order.py.

    It has to be on the stack of dispatch modes of each task (:class:`.isolation.TorchIsolation`).
    ``who()`` is the rank of the worker that runs, or -1. ``tensor_type``: the class of the device's
    tensors where these are written in Python: PyTorch does not see what its methods do.
    """

    def __init__(
        self, kind: str, who: Callable[[], int], tensor_type: type[Tensor] | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.log: list[StreamEvent] = []
        self._kind, self._who, self._tensor_type = kind, who, tensor_type
        self._module: Any = torch.get_device_module(kind)
        self._blocks: dict[int, _Block] = {}
        self._made = 0
        #: by event: the number of its last record; events are kept, so that none takes their place
        self._marks: dict[int, tuple[Any, int]] = {}
        self._events = 0
        self._streams: dict[StreamId, None] = {}
        self._installed = ExitStack()
        self._sees = False

    # -- being told -------------------------------------------------------------------------

    def begin(self) -> None:
        """See what happens from here on."""
        module = self._module
        event, stream = module.Event, module.Stream
        self._wrap(event, "record", self._recorded)
        self._wrap(event, "wait", self._waits)
        self._wrap(event, "synchronize", self._host_waits_for_event)
        self._wrap(stream, "synchronize", self._host_waits_for_stream)
        self._wrap(module, "synchronize", self._host_waits_for_device)
        self._wrap(module, "set_stream", self._becomes_current)
        if self._tensor_type is not None:
            self._wrap(self._tensor_type, "record_stream", self._in_use_on)
        tell_of_streams(self._becomes_current)
        self._installed.callback(tell_of_streams, None)
        self._installed.callback(forget_streams)
        for index in range(module.device_count()):
            self._becomes_current(module.current_stream(index))
        self.__enter__()  # type: ignore[no-untyped-call]  # for what is made before any task runs
        self._sees = True

    def end(self) -> None:
        """See nothing any more. :attr:`log` stays."""
        self._sees = False
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._installed.close()
        self._marks.clear()
        self._blocks.clear()

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What happens in here is no part of the run."""
        before, self._sees = self._sees, False
        try:
            yield
        finally:
            self._sees = before

    def _wrap(self, place: Any, name: str, then: Callable[..., object]) -> None:
        """Have a method, or a function of the module, tell that it was called."""
        original, own = getattr(place, name), vars(place).get(name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if self._sees:
                then(*args, **kwargs)
            return found

        setattr(place, name, wrapped)
        if own is None:
            self._installed.callback(delattr, place, name)
        else:
            self._installed.callback(setattr, place, name, own)

    def _recorded(self, event: Any, stream: Any = None) -> None:
        self._marks[id(event)] = event, self._record(self._id_of(stream))

    def _waits(self, event: Any, stream: Any = None) -> None:
        marked = self._marks.get(id(event))
        if marked is not None:
            self._wait(self._id_of(stream), marked[1])

    def _host_waits_for_event(self, event: Any) -> None:
        marked = self._marks.get(id(event))
        if marked is not None:
            self.log.append(StreamEvent("host", (0, 0), event=marked[1]))

    def _host_waits_for_stream(self, stream: Any) -> None:
        self._host_waits(self._id_of(stream))

    def _host_waits_for_device(self, device: Any = None) -> None:
        index = self._index(device)
        for stream in [each for each in self._streams if each[0] == index]:
            self._host_waits(stream)

    @staticmethod
    def _becomes_current(stream: Any) -> None:
        if stream is not None:
            note_streams(stream.device, stream)

    def _in_use_on(self, tensor: Tensor, stream: Any) -> None:
        self._block(tensor).used_on[self._id_of(stream)] = None

    # -- operators --------------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._sees:
            return func(*args, **kwargs)
        given = self._ours((args, kwargs))
        # What an operator reads is known before it runs: it may be freed by that.
        reads = [self._block(tensor) for tensor in given]
        result = func(*args, **kwargs)
        self._tell(func, args, kwargs, given, reads, result)
        return result

    def _tell(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: list[Tensor],
        reads: list[_Block],
        result: Any,
    ) -> None:
        name = func._schema.name.removeprefix("aten::")
        about = operator(func)
        made = self._ours(result)
        if not given and not made:
            return
        if name == "record_stream":
            self._in_use_on(*args)
            return
        if about.is_view or name in _NOTHING:
            return
        if name in _ALLOCATE:
            for tensor in made:
                self._block(tensor)
            return
        if name in ("_to_copy", "copy_", "_copy_from"):
            self._tell_of_copy(name, args, kwargs, result)
            return
        written = self._ours(
            [args[i] if i < len(args) else kwargs.get(n) for i, n in about.written]
        )
        stream = self._current((*given, *made)[0].device)
        if name in _TO_THE_HOST:
            self._kernel(stream, "read by the host", reads, ())
            self._host_waits(stream)
            return
        if any(tag in func.tags for tag in _HOST_NEEDS_SHAPE):
            self._kernel(stream, name, reads, ())
            self._host_waits(stream)
        writes = [self._block(tensor) for tensor in written]
        # A result may be an argument, though the schema does not say so.
        writes += [block for block in map(self._block, made) if block not in reads]
        self._kernel(stream, name, reads, writes)

    def _tell_of_copy(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        target, source = result, args[0]
        if name == "copy_":
            target, source = args[:2]
        elif name == "_copy_from":
            source, target = args[:2]
        blocks = [
            None if each.device.type != self._kind else self._block(each)
            for each in (source, target)
        ]
        read, write = blocks
        if read is None and write is not None:
            self._kernel(self._current(target.device), "copy from the host", (), (write,))
        elif read is not None and write is None:
            here = self._current(source.device)
            self._kernel(here, "copy to the host", (read,), ())
            waits = not (
                kwargs.get("non_blocking") or (name != "_to_copy" and args[2:3] == (True,))
            )
            if waits:
                self._host_waits(here)
        elif read is not None and write is not None:
            here, there = self._current(source.device), self._current(target.device)
            if here != there:
                self._wait(here, self._record(there))
            self._kernel(here, name, (read,), (write,))
            if here != there:
                self._wait(there, self._record(here))

    # -- the log ------------------------------------------------------------------------------

    def _kernel(
        self, stream: StreamId, name: str, reads: Iterable[_Block], writes: Iterable[_Block]
    ) -> None:
        self._streams[stream] = None
        self.log.append(
            StreamEvent(
                "kernel",
                stream,
                name=name,
                reads=tuple(dict.fromkeys(block.id for block in reads)),
                writes=tuple(dict.fromkeys(block.id for block in writes)),
                worker=self._who(),
                where=caller(),
            )
        )

    def _record(self, stream: StreamId) -> int:
        self._streams[stream] = None
        self._events += 1
        self.log.append(StreamEvent("record", stream, event=self._events))
        return self._events

    def _wait(self, stream: StreamId, event: int) -> None:
        self._streams[stream] = None
        self.log.append(StreamEvent("wait", stream, event=event))

    def _host_waits(self, stream: StreamId) -> None:
        self.log.append(StreamEvent("host", stream))

    # -- what is what -------------------------------------------------------------------------

    def _ours(self, values: Any) -> list[Tensor]:
        """The tensors on the device among some values."""
        return [
            value
            for value in tree_leaves(values)
            if isinstance(value, Tensor) and value.device.type == self._kind
        ]

    def _block(self, tensor: Tensor) -> _Block:
        storage = tensor.untyped_storage()
        key = storage._cdata
        block = self._blocks.get(key)
        if block is None:
            self._made += 1
            block = self._blocks[key] = _Block(self._made, self._current(tensor.device))
            weakref.finalize(storage, self._freed, key, block).atexit = False
        return block

    def _freed(self, key: int, block: _Block) -> None:
        if self._blocks.get(key) is not block:
            return  # of a run that is over
        del self._blocks[key]
        if not self._sees:
            return
        lane = block.stream
        if block.used_on:  # the stream itself waits for nothing: such a wait would hide races
            lane = block.stream[0], _FREED
            for stream in (block.stream, *block.used_on):
                self._wait(lane, self._record(stream))
        self._kernel(lane, "memory given to the next tensor", (), (block,))

    def _current(self, device: torch.device) -> StreamId:
        return self._id_of(self._module.current_stream(device))

    def _id_of(self, stream: Any) -> StreamId:
        if stream is None:
            stream = self._module.current_stream()
        return stream.device_index, stream.stream_id

    def _index(self, device: Any) -> int:
        if device is None:
            index: int = self._module.current_device()
            return index
        if isinstance(device, int):
            return device
        found = torch.device(device).index
        return self._index(None) if found is None else found
