"""The frame check of a message: what tells the receiver that bytes have changed on the way."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

import torch
from torch import Tensor

from squall.real.rpc.message import Message


def checksum(message: Message) -> int:
    """CRC-32 over the head, the payload and the elements of all tensors."""
    head = (int(message.type), message.id, message.src, message.dst)
    check = zlib.crc32(message.payload, zlib.crc32(repr(head).encode()))
    for part in _parts(message):
        check = zlib.crc32(_bytes_of(part).numpy().tobytes(), check)
    return check


def flip(message: Message, flips: int, stream: random.Random) -> None:
    """Change ``flips`` bytes, each to another value: of the payload or of dense tensors, or of
    the message's id if there is neither."""
    parts = [part for part in _parts(message) if part.is_contiguous() and part.numel()]
    sizes = [len(message.payload), *(part.nbytes for part in parts)]
    for _ in range(flips):
        if not sum(sizes):
            message.id ^= 1 << int(stream.random() * 8)
            continue
        at, change = int(stream.random() * sum(sizes)), 1 + int(stream.random() * 255)
        for number, size in enumerate(sizes):
            if at >= size:
                at -= size
                continue
            if number == 0:
                payload = bytearray(message.payload)
                payload[at] ^= change
                message.payload = bytes(payload)
            else:
                elements = _bytes_of(parts[number - 1])
                elements[at] = int(elements[at]) ^ change
            break


def _bytes_of(part: Tensor) -> Tensor:
    """The elements as bytes: the same memory, if they lie there one after the other."""
    dense = part.resolve_conj().resolve_neg().contiguous()
    # By its strides, since a dimension of one element may have any.
    return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8)


def _parts(message: Message) -> Iterator[Tensor]:
    """The tensors whose elements travel, without history."""
    for tensor in message.tensors:
        plain = tensor.detach()
        if plain.device.type != "cpu":
            continue  # its bytes went another way
        if plain.layout is torch.strided:
            yield plain
        elif plain.layout is torch.sparse_coo:
            yield plain._indices()
            yield plain._values()
