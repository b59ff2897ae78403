"""The stand-in device as PyTorch has devices: ``torch.get_device_module("standin")``.

The names are those of ``torch.cuda``: current_stream, stream, Stream, Event, synchronize and so on.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import backend_registration

from squall.real.autograd.node_streams import forget_streams, note_streams
from squall.real.rpc.serialization import register_tensor_type
from squall.sim.world.stand_in.streams import DEVICES, STAND_IN, Queue, Work
from squall.sim.world.stand_in.tensors import DEVICE_TYPE, Kernels, StandInTensor, index_of
from squall.sim.world.torch_settings import watch_device

_Device = torch.device | str | int | None


def _index(device: _Device) -> int:
    return device if isinstance(device, int) else index_of(device)


class Stream:
    """A stream of one stand-in device; a new one is taken from the device's pool."""

    __slots__ = ("queue",)

    def __init__(self, device: _Device = None, priority: int = 0, *, queue: Any = None) -> None:
        self.queue: Queue = STAND_IN.from_pool(_index(device)) if queue is None else queue

    @property
    def device(self) -> torch.device:
        return torch.device(DEVICE_TYPE, self.queue.device)

    @property
    def device_index(self) -> int:
        return self.queue.device

    @property
    def stream_id(self) -> int:
        return self.queue.id

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        STAND_IN.synchronize_stream(self.queue)

    def query(self) -> bool:
        """Whether all that is queued is done; nobody may rely on what it says."""
        return not self.queue.pending

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.queue is self.queue

    def __hash__(self) -> int:
        return hash((self.queue.device, self.queue.id))

    def __repr__(self) -> str:
        return f"<{self.queue!r}>"


class Event:
    """What a stream had queued at a moment; nothing before it is recorded."""

    __slots__ = ("_mark",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._mark: tuple[int, Work] | None = None

    def record(self, stream: Stream | None = None) -> None:
        stream = current_stream() if stream is None else stream
        self._mark = STAND_IN.mark(stream.queue)

    def wait(self, stream: Stream | None = None) -> None:
        if self._mark is not None:
            stream = current_stream() if stream is None else stream
            STAND_IN.wait(stream.queue, self._mark)

    def synchronize(self) -> None:
        if self._mark is not None:
            STAND_IN.synchronize_event(self._mark)

    def query(self) -> bool:
        return self._mark is None or self._mark[1].done


class StreamContext:
    """Makes a stream the current one of its device, and its device the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> StreamContext:
        stream = self.stream
        if stream is not None:
            self._before = current_stream(stream.device), STAND_IN.chosen_device
            set_stream(stream)
            STAND_IN.chosen_device = stream.queue.device
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            set_stream(self._before[0])
            STAND_IN.chosen_device = self._before[1]


def current_stream(device: _Device = None) -> Stream:
    return Stream(queue=STAND_IN.current[_index(device)])


def default_stream(device: _Device = None) -> Stream:
    return Stream(queue=STAND_IN.defaults[_index(device)])


def set_stream(stream: Stream) -> None:
    """Make a stream the current one of its device."""
    STAND_IN.current[stream.queue.device] = stream.queue
    note_queue(stream.queue)


def note_queue(queue: Queue) -> None:
    """A stream has become the current one of its device."""
    note_streams(torch.device(DEVICE_TYPE, queue.device), Stream(queue=queue))


class device:  # noqa: N801 - as torch.cuda has it
    """Makes a device the current one."""

    def __init__(self, device: _Device) -> None:
        self.index = _index(device)

    def __enter__(self) -> None:
        self._before, STAND_IN.chosen_device = STAND_IN.chosen_device, self.index

    def __exit__(self, *args: object) -> None:
        STAND_IN.chosen_device = self._before


class Backend:
    """The module of the device."""

    Stream = Stream
    Event = Event
    StreamContext = StreamContext
    stream = StreamContext
    device = device
    current_stream = staticmethod(current_stream)
    default_stream = staticmethod(default_stream)
    set_stream = staticmethod(set_stream)
    _is_in_bad_fork = staticmethod(lambda: False)
    is_initialized = staticmethod(lambda: True)
    is_available = staticmethod(lambda: True)

    @staticmethod
    def device_count() -> int:
        return DEVICES

    @staticmethod
    def current_device() -> int:
        return STAND_IN.current_device

    @staticmethod
    def set_device(device: _Device) -> None:
        STAND_IN.chosen_device = _index(device)

    @staticmethod
    def synchronize(device: _Device = None) -> None:
        STAND_IN.synchronize(_index(device))

    @staticmethod
    def _sleep(cycles: int) -> None:
        """A kernel that takes a while: as late as any, on this device."""
        STAND_IN.kernel(STAND_IN.current[STAND_IN.current_device], "sleep", (), (), lambda: None)

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Random numbers are those of the CPU."""

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


#: what operators do there, once the device is known
_kernels: Kernels | None = None


def register(*, to_be_copied: bool = True) -> None:
    """Make the device known to PyTorch, once a process.

    ``to_be_copied``: torch's own engine, which is told first, knows nothing of it. The first pass of
    a process starts a thread for each device that is known by then, and no copy of the process may
    run a pass after that (torch/csrc/autograd/engine.cpp, start_device_threads). Raises RuntimeError
    where another device has taken the place (PrivateUse1).
    """
    global _kernels
    if _kernels is not None:
        return
    # PyTorch imports it for the first operator of some kinds that has to say a shape, and frames that are
    # under way then are kept until somebody collects garbage: those of a scenario, if it began there.
    importlib.import_module("torch._dynamo")
    if to_be_copied:
        torch.zeros(1, requires_grad=True).sum().backward()
    setup: Any = backend_registration._setup_privateuseone_for_python_backend
    setup(DEVICE_TYPE, backend_module=Backend())
    register_tensor_type(StandInTensor)
    watch_device(STAND_IN)
    _kernels = Kernels()


def begin_run(seed: int, workers: int, who: Any) -> None:
    """Start a run: its streams, and the home of each worker, follow from ``seed``. ``who()`` is the
    rank of the worker that runs, or -1."""
    register()
    STAND_IN.reset(seed)
    forget_streams()
    STAND_IN.changed = note_queue
    STAND_IN.who = who
    homes = random.Random(f"homes on the stand-in {seed}")
    STAND_IN.homes = [homes.randrange(DEVICES) for _ in range(workers)]
    for queue in STAND_IN.defaults:
        note_queue(queue)


def home_of(worker: int) -> torch.device:
    """Where a worker's tensors are in the run that has begun."""
    return torch.device(DEVICE_TYPE, STAND_IN.home(worker))


def at_home(leaf: torch.Tensor, worker: int) -> torch.Tensor:
    """A leaf where its worker has its tensors: as it is, unless a run on the device has begun."""
    if not STAND_IN.homes:
        return leaf
    moved = leaf.detach().to(home_of(worker))
    torch.get_device_module(DEVICE_TYPE).synchronize(STAND_IN.home(worker))
    return moved.requires_grad_(leaf.requires_grad)


@contextmanager
def beside_the_current_stream(
    inputs: Sequence[torch.Tensor], *, aside: bool
) -> Iterator[list[torch.Tensor]]:
    """What a user does who computes on a stream of his own: it waits for the current one, and is
    waited for by it. Whatever is made inside is to be added to the list. ``aside`` False: nothing."""
    made: list[torch.Tensor] = []
    if not aside:
        yield made
        return
    module = torch.get_device_module(inputs[0].device)
    here = module.current_stream(inputs[0].device)
    stream = module.Stream(device=inputs[0].device)
    stream.wait_stream(here)
    for tensor in inputs:
        tensor.record_stream(stream)
    with module.stream(stream):
        yield made
    here.wait_stream(stream)
    for tensor in made:
        tensor.record_stream(here)
