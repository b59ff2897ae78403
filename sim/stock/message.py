"""Messages of PyTorch's own, as the simulated network carries them, and what is said around them.

Commands to a worker process and batches from it are plain little-endian fields, one after the
other; real/native/link.cpp and agent.cpp have the other side.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.sim.stock.memory_file import MemoryFile

_COMMAND = struct.Struct("<cd")
_SIZE = struct.Struct("<I")
_BATCH = struct.Struct("<Iii")
_ITEM = struct.Struct("<ciI")
_SENT = struct.Struct("<hHqdQi")
_QUESTION = struct.Struct("<qc")
_GUID = struct.Struct("<qq")
_NUMBER = struct.Struct("<q")


class NativeMessage(Message):
    """A message whose content is what PyTorch serialised: payload and tensors in one.

    ``id`` is the number that a trace shows; ``native_id`` the one that the sender's agent gave.
    ``memory`` has the elements of large tensors, None if there are none, and ``places`` tells where.
    """

    __slots__ = ("memory", "native_id", "native_size_bytes", "places")

    memory: MemoryFile | None
    places: bytes

    native_id: int
    native_size_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.native_size_bytes

    def copy(self) -> NativeMessage:
        # Bytes are shared safely: nobody can write to them.
        copy = NativeMessage(
            self.type, self.payload, id=self.id, src=self.src, dst=self.dst, about=self.about
        )
        copy.native_id = self.native_id
        copy.native_size_bytes = self.native_size_bytes
        copy.memory, copy.places = self.memory, self.places
        return copy


class Sent(NamedTuple):
    """What an agent wants to have sent: a request, or the reply to one (``id`` is its sender's).

    ``fd``: the sender's open file with the elements of large tensors; -1 if there are none.
    """

    dst: int
    type: MessageType
    id: int
    timeout_s: float
    size_bytes: int
    fd: int
    about: tuple[object, ...]
    places: bytes
    wire: bytes


class Item(NamedTuple):
    """One thing that a worker process said, and by which thread (its lane)."""

    kind: bytes
    lane: int
    what: bytes


class Batch(NamedTuple):
    """Everything that a worker process said until it was quiet. ``calls`` and ``requests``: how
    many of its own and of others' it has under way."""

    calls: int
    requests: int
    items: list[Item]


def read_batch(data: bytes | memoryview) -> Batch:
    count, calls, requests = _BATCH.unpack_from(data)
    at = _BATCH.size
    items = []
    for _ in range(count):
        kind, lane, size = _ITEM.unpack_from(data, at)
        at += _ITEM.size
        items.append(Item(kind, lane, bytes(data[at : at + size])))
        at += size
    return Batch(calls, requests, items)


def read_sent(what: bytes) -> Sent:
    dst, type, id, timeout_s, size_bytes, fd = _SENT.unpack_from(what)
    at = _SENT.size
    (size,) = _SIZE.unpack_from(what, at)
    at += _SIZE.size
    about = tuple(_read_about(what[at : at + size]))
    at += size
    (size,) = _SIZE.unpack_from(what, at)
    at += _SIZE.size
    places = what[at : at + size]
    at += size + _SIZE.size
    return Sent(dst, MessageType(type), id, timeout_s, size_bytes, fd, about, places, what[at:])


def _read_about(data: bytes) -> Iterator[object]:
    at = 0
    while at < len(data):
        tag = data[at : at + 1]
        at += 1
        if tag == b"g":
            yield _GUID.unpack_from(data, at)
            at += _GUID.size
        elif tag == b"s":
            (size,) = _SIZE.unpack_from(data, at)
            at += _SIZE.size
            yield data[at : at + size].decode("utf-8", "replace")
            at += size
        else:
            (number,) = _NUMBER.unpack_from(data, at)
            at += _NUMBER.size
            yield MessageType(number).name if tag == b"t" else number


def read_question(what: bytes) -> tuple[int, bytes, bytes]:
    """(number of the question, its kind, what it says)"""
    number, kind = _QUESTION.unpack_from(what)
    return number, kind, what[_QUESTION.size + _SIZE.size :]


def command(kind: bytes, now_s: float, *fields: bytes) -> bytes:
    body = b"".join((_COMMAND.pack(kind, now_s), *fields))
    return _SIZE.pack(len(body)) + body


def is_call(command: bytes) -> bool:
    """Whether it asks the process something."""
    return command[_SIZE.size : _SIZE.size + 1] == b"C"


def in_bytes(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def request(src: int, message: NativeMessage) -> bytes:
    return struct.pack("<hHq", src, message.type, message.native_id) + _content(message)


def response(message: NativeMessage) -> bytes:
    return struct.pack("<Hq", message.type, message.native_id) + _content(message)


def _content(message: NativeMessage) -> bytes:
    path = b"" if message.memory is None else message.memory.path
    return in_bytes(message.payload) + in_bytes(message.places) + in_bytes(path)


def failure(id: int, text: str) -> bytes:
    return _NUMBER.pack(id) + in_bytes(text.encode())


def answer(question: int, data: bytes) -> bytes:
    return _NUMBER.pack(question) + in_bytes(data)


def read_number(what: bytes) -> int:
    (number,) = _NUMBER.unpack(what)
    return int(number)


def read_time(what: bytes) -> float:
    (at_s,) = struct.unpack("<d", what)
    return float(at_s)
