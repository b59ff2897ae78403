"""What the inputs of a C++ node look like, read from the node's memory.

``node._input_metadata`` makes a Python object for each input, which is registered, asked through
pybind11 and destroyed: a fifth of what a node costs. A node keeps a ``SmallVector<InputMetadata>``
(torch/csrc/autograd/function.h), and an InputMetadata (input_metadata.h) its TensorOptions and a
SmallVector of sizes. Where they are is found as in :mod:`node_abi`, by looking at scratch nodes
whose sizes are known. What is not as expected is answered with "not known", and the caller asks
torch: nothing depends on it that a build of torch lays things out in this way.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squall.real.autograd.node_abi import MEMORY, NodeAbi, node_abi, read_word, safe_words

_WORD = 8
_NODE_WORDS = 40
#: words of a metadata object at most
_METADATA_WORDS = 40
#: sizes up to so many dimensions are kept in the metadata object itself
_DIMENSIONS = 5
#: a size that is nowhere by accident
_MAGIC = 7919
#: how many kinds of tensors are remembered at most
_KINDS_MAX = 256

_strided = torch.strided


class _Layout(NamedTuple):
    #: bytes from the node to its vector of metadata
    vector: int
    #: bytes from one metadata object to the next
    stride: int
    #: bytes from a metadata object to its vector of sizes
    sizes: int


class _Offsets(dict[type, int]):
    """Type of a node -> bytes from its Python object to the pointer to the C++ node."""

    def __init__(self, abi: NodeAbi) -> None:
        super().__init__()
        self._abi = abi

    def __missing__(self, node_type: type) -> int:
        python = issubclass(node_type, torch._C._FunctionBase)
        offset = self[node_type] = self._abi.python_offset if python else self._abi.cpp_offset
        return offset


class InputAbi:
    """Whether a gradient is what an input expects. Get the one instance from :func:`input_abi`."""

    def __init__(self, abi: NodeAbi, layout: _Layout) -> None:
        self._offsets = _Offsets(abi)
        self._stride = layout.stride
        #: begin of a node's vector, and how many inputs it has
        self._read_vector = struct.Struct(f"={layout.vector}xQI").unpack_from
        #: options, begin of the sizes, how many there are
        self._read_input = struct.Struct(f"=Q{layout.sizes - _WORD}xQI").unpack_from
        #: where sizes are that the object holds itself
        self._inline = layout.sizes + 2 * _WORD
        self._read_sizes: tuple[Callable[..., tuple[int, ...]], ...] = tuple(
            struct.Struct(f"={n}q").unpack_from for n in range(_DIMENSIONS + 1)
        )
        #: dtype and device, by the word of options that says so
        self._kinds: dict[int, tuple[torch.dtype, torch.device]] = {}

    def expects(self, node: Any, input_nr: int, grad: Tensor) -> int:
        """How many inputs the node has, if ``grad`` is just what input ``input_nr`` expects; 0 if
        it is not, or if that is not known."""
        pointer = read_word(MEMORY, id(node) + self._offsets[type(node)])[0]
        begin: int
        count: int
        begin, count = self._read_vector(MEMORY, pointer)
        at = begin + input_nr * self._stride
        options, sizes, dimensions = self._read_input(MEMORY, at)
        if (
            sizes == at + self._inline
            and dimensions <= _DIMENSIONS
            and grad.shape == self._read_sizes[dimensions](MEMORY, sizes)
            and grad.layout is _strided
        ):
            kind = self._kinds.get(options)
            if kind is None:
                kind = self._remember(node, input_nr, options)
            if grad.dtype is kind[0] and grad.device == kind[1]:
                return count
        return 0

    def shapes(self, node: Any) -> tuple[tuple[int, ...], ...] | None:
        """The shapes of the node's inputs; None if that is not known."""
        pointer = read_word(MEMORY, id(node) + self._offsets[type(node)])[0]
        begin, count = self._read_vector(MEMORY, pointer)
        if count == 1:  # as of most nodes
            _, sizes, dimensions = self._read_input(MEMORY, begin)
            if sizes == begin + self._inline and dimensions <= _DIMENSIONS:
                return (self._read_sizes[dimensions](MEMORY, sizes),)
            return None
        found = []
        for at in range(begin, begin + count * self._stride, self._stride):
            _, sizes, dimensions = self._read_input(MEMORY, at)
            if sizes != at + self._inline or dimensions > _DIMENSIONS:
                return None
            found.append(self._read_sizes[dimensions](MEMORY, sizes))
        return tuple(found)

    def _remember(self, node: Any, input_nr: int, options: int) -> tuple[torch.dtype, torch.device]:
        metadata = node._input_metadata[input_nr]
        kind = metadata.dtype, metadata.device
        if len(self._kinds) < _KINDS_MAX:
            self._kinds[options] = kind
        return kind


def _find_layout(abi: NodeAbi) -> _Layout | None:
    """None if it is not found, or not without doubt."""
    counts = (1, 3, 5, 7)
    scratch = torch.zeros(1, requires_grad=True)
    outputs = [scratch.expand(n, _MAGIC).unbind() for n in counts]
    nodes: list[Any] = [of_one[0].grad_fn for of_one in outputs]
    words = [safe_words(abi.pointer(node), _NODE_WORDS) for node in nodes]
    vectors = [
        i
        for i in range(_NODE_WORDS - 1)
        if all(w[i + 1] & 0xFFFFFFFF == n for w, n in zip(words, counts, strict=True))
    ]
    if len(vectors) != 1:
        return None
    begin = words[-1][vectors[0]]
    inputs = safe_words(begin, counts[-1] * _METADATA_WORDS)
    first, second, *_ = places = [i for i, word in enumerate(inputs) if word == _MAGIC] + [0, 0]
    stride = second - first
    # A vector of sizes is {begin, how many, the sizes themselves}.
    if (
        not 2 < first < stride
        or places[: counts[-1]] != [first + n * stride for n in range(counts[-1])]
        or inputs[first - 2] != begin + first * _WORD
        or inputs[first - 1] & 0xFFFFFFFF != 1
    ):
        return None
    return _Layout(vectors[0] * _WORD, stride * _WORD, (first - 2) * _WORD)


@functools.cache
def input_abi() -> InputAbi | None:
    """None if this process's torch keeps metadata in another way."""
    with torch.enable_grad():
        abi = node_abi()
        try:
            layout = _find_layout(abi)
        except OSError:  # what was taken for a pointer is none
            return None
        return None if layout is None else InputAbi(abi, layout)
