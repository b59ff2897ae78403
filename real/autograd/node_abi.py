"""What Python is not told about a C++ autograd node, read from the node's memory.

Three things are missing from torch's Python bindings: whether a node has hooks and which, a way
to release its saved variables without running it, and how a custom ``autograd.Function`` was
called (its ``set_materialize_grads`` flag, which of its inputs were tensors). All are plain
members of ``torch::autograd::Node`` (torch/csrc/autograd/function.h) and ``THPFunction``
(python_function.h). Their places are found at first use by changing scratch objects through
torch's own API and looking at what changed; nothing is hard-coded, and a build of torch in which
the search does not come out exactly as expected is refused with :class:`UnknownNodeLayoutError`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import torch
from torch.autograd import Function

_WORD = 8
#: how many words of a node are looked at
_NODE_WORDS = 40
#: how many scratch nodes a search must agree on
_SAMPLES = 8
#: one readable view of the whole address space; unpack_from(MEMORY, address) reads a word of it
MEMORY = memoryview((ctypes.c_ubyte * (1 << 62)).from_address(0)).cast("B")

read_word = struct.Struct("Q").unpack_from
_FunctionBase = torch._C._FunctionBase


class UnknownNodeLayoutError(RuntimeError):
    """This build of torch lays out autograd nodes in a way that was not recognised."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"cannot find {what} in the autograd nodes of torch {torch.__version__}; "
            "the engine supports the Linux builds of torch that constraints.txt names"
        )


class HookDict:
    """The hooks of one C++ hook object: Python callables in call order, and the input they see."""

    __slots__ = ("hooks", "index")

    def __init__(self, hooks: OrderedDict[int, Callable[..., Any]], index: int) -> None:
        self.hooks = hooks
        self.index = index


class NodeAbi:
    """Where things are in a node. Get the one instance from :func:`node_abi`."""

    def __init__(self) -> None:
        scratch = torch.zeros(3, requires_grad=True)
        self._find_pointers(scratch)
        self._find_hooks(scratch)
        self._find_function_fields(scratch)
        self._find_release()
        self._check_release(scratch)

    # -- finding things -----------------------------------------------------------------

    def _find_pointers(self, scratch: torch.Tensor) -> None:
        """Python object -> Node*: the word whose target holds the node's sequence number.

        What a word points to may lie beside a node by accident, so only a place that is right
        for several nodes counts.
        """
        cpp = _common_targets([scratch * 2 for _ in range(_SAMPLES)])
        python = _common_targets([_scratch(scratch) for _ in range(_SAMPLES)])
        found = [(c, p) for c, at in cpp for p, also_at in python if at == also_at]
        if len(found) != 1:
            raise UnknownNodeLayoutError("the pointer to the C++ node")
        self.cpp_offset = found[0][0] * _WORD
        self.python_offset = found[0][1] * _WORD

    def _find_hooks(self, scratch: torch.Tensor) -> None:
        """The words of a node that are not zero while it has hooks of each kind."""
        first, second = (scratch * 2).unbind()[:2]
        node = _node(second)
        before = self._words(node)
        handle = node.register_prehook(_no_hook)
        self._pre = _new_vector(before, self._words(node), "pre-hooks")
        self._pre_type, *pre = self._first_hook(node, self._pre, 2)
        before = self._words(node)
        post_handle = node.register_hook(_no_hook)
        self._post = _new_vector(before, self._words(node), "post-hooks")
        self._post_type, *post = self._first_hook(node, self._post, 2)
        before = self._words(node)
        cast(Any, second).register_hook(_no_hook)
        self._tensor_pre = _new_vector(before, self._words(node), "tensor pre-hooks")
        self._tensor_pre_type, *tensor_pre = self._first_hook(node, self._tensor_pre, 3)
        before = self._words(node)
        first.retain_grad()
        after = self._words(node)
        counts = [i for i, (old, new) in enumerate(zip(before, after, strict=True))
                  if (old, new) == (0, 1)]  # fmt: skip
        if (
            len(counts) != 1
            or pre != [id(handle.hooks_dict_ref())]
            or post != [id(post_handle.hooks_dict_ref())]
            or tensor_pre != [id(second._backward_hooks), 1]
        ):
            raise UnknownNodeLayoutError("the hooks")
        places = {"vtable": 0, "pre": self._pre, "post": self._post,
                  "tensor_pre": self._tensor_pre, "retain": counts[0]}  # fmt: skip
        # One read gives the vtable and, for each kind of hook, a word that is zero without any.
        self._order = sorted(places, key=lambda name: places[name])
        layout, at = "", 0
        for name in self._order:
            layout += f"{(places[name] - at) * _WORD}xQ"
            at = places[name] + 1
        self.read_node = struct.Struct("=" + layout).unpack_from
        if self._order[0] != "vtable":
            raise UnknownNodeLayoutError("the vtable")

    def _first_hook(self, node: Any, vector: int, words: int) -> tuple[int, ...]:
        hook = safe_words(self._words(node)[vector], 1)[0]
        return safe_words(hook, words)

    def _find_function_fields(self, scratch: torch.Tensor) -> None:
        """materialize_grads and is_variable_input of a custom Function's node."""
        size = _FunctionBase.__basicsize__
        result = _scratch(scratch, 1, scratch)  # a node may live no longer than its tensor
        function = _node(result)
        before = _safe_bytes(id(function), size)
        function.set_materialize_grads(False)
        after = _safe_bytes(id(function), size)
        changed = [i for i in range(size) if before[i] != after[i]]
        if len(changed) != 1 or (before[changed[0]], after[changed[0]]) != (1, 0):
            raise UnknownNodeLayoutError("materialize_grads")
        self.materialize_offset = changed[0]
        # std::vector<bool> is {begin, 0, end, length % 64, end of storage}: look for the length.
        longer = _scratch(scratch, 1, scratch, 2, 3)
        five = _safe_bytes(id(_node(longer)), size)
        places = [
            i
            for i in range(4 * _WORD, size - _WORD, _WORD)
            if struct.unpack_from("I", before, i)[0] == 3
            and struct.unpack_from("I", five, i)[0] == 5
            and before[i - _WORD : i] == before[i - 3 * _WORD : i - 2 * _WORD]
        ]
        if len(places) != 1:
            raise UnknownNodeLayoutError("is_variable_input")
        self.variable_bits_offset = places[0] - 3 * _WORD
        if self.is_variable_input(function, 3) != (True, False, True):
            raise UnknownNodeLayoutError("is_variable_input")

    def _find_release(self) -> None:
        """The slot of ``release_variables`` in a node's vtable, from one class that exports it."""
        try:
            library = ctypes.CDLL(
                os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
            )
            table = ctypes.addressof(
                ctypes.c_char.in_dll(library, "_ZTVN5torch8autograd10CopySlicesE")
            )
            method = ctypes.cast(
                library["_ZN5torch8autograd10CopySlices17release_variablesEv"], ctypes.c_void_p
            ).value
        except (OSError, ValueError, AttributeError) as error:
            raise UnknownNodeLayoutError("release_variables") from error
        entries = safe_words(table + 2 * _WORD, 32)
        if method not in entries:
            raise UnknownNodeLayoutError("release_variables")
        self.release = _Release(entries.index(method))

    def _check_release(self, scratch: torch.Tensor) -> None:
        results = scratch.exp(), _scratch(scratch)
        node, function = map(_node, results)
        uses: list[tuple[Any, Callable[[], object]]] = [
            (node, lambda: node(torch.ones(3))),
            (function, lambda: function.saved_tensors),
        ]
        for scratch_node, use in uses:
            self.release_variables(scratch_node)
            try:
                use()
            except RuntimeError as error:
                if "second time" in str(error):
                    continue
            raise UnknownNodeLayoutError("release_variables")

    # -- using them ---------------------------------------------------------------------

    def pointer(self, node: Any) -> int:
        """The address of the C++ node behind a Python object."""
        offset = self.python_offset if isinstance(node, _FunctionBase) else self.cpp_offset
        return cast(int, read_word(MEMORY, id(node) + offset)[0])

    def _words(self, node: Any) -> tuple[int, ...]:
        return safe_words(self.pointer(node), _NODE_WORDS)

    def release_variables(self, node: Any) -> None:
        """Free what the node saved in the forward pass. Using it again is torch's own error."""
        pointer = self.pointer(node)
        self.release[read_word(MEMORY, pointer)[0]](pointer)

    def pre_hooks(self, pointer: int) -> list[HookDict]:
        """Hooks of ``register_prehook``. Raises RuntimeError if some are not Python's."""
        return self._python_hooks(pointer, self._pre, self._pre_type, "pre-hooks")

    def post_hooks(self, pointer: int) -> list[HookDict]:
        """Hooks of ``register_hook`` of a node. Raises RuntimeError if some are not Python's."""
        return self._python_hooks(pointer, self._post, self._post_type, "post-hooks")

    def _python_hooks(self, pointer: int, place: int, type: int, what: str) -> list[HookDict]:
        hooks = self._hooks(pointer, place, type)
        if hooks is None:
            raise RuntimeError(f"{what} that were registered from C++ are not supported")
        return hooks

    def tensor_pre_hooks(self, pointer: int) -> list[HookDict] | None:
        """Hooks of tensors; each sees one input of the node. None if some are not Python's."""
        hooks = self._hooks(pointer, self._tensor_pre, self._tensor_pre_type)
        if hooks is not None:
            begin = read_word(MEMORY, pointer + self._tensor_pre * _WORD)[0]
            for i, hook in enumerate(hooks):
                address = read_word(MEMORY, begin + i * _WORD)[0]
                hook.index = read_word(MEMORY, address + 2 * _WORD)[0]
        return hooks

    def retains_grad(self, pointer: int) -> bool:
        """Whether ``retain_grad`` was called on an output of the operation."""
        at = self._order.index("retain")
        return bool(self.read_node(MEMORY, pointer)[at])

    def _hooks(self, pointer: int, place: int, type: int) -> list[HookDict] | None:
        begin = read_word(MEMORY, pointer + place * _WORD)[0]
        end = read_word(MEMORY, pointer + (place + 1) * _WORD)[0]
        found = []
        for at in range(begin, end, _WORD):
            hook = read_word(MEMORY, at)[0]
            if read_word(MEMORY, hook)[0] != type:
                return None
            hooks = ctypes.cast(read_word(MEMORY, hook + _WORD)[0], ctypes.py_object).value
            found.append(HookDict(hooks, 0))
        return found

    def materializes_grads(self, function: Any) -> bool:
        """False after ``ctx.set_materialize_grads(False)``."""
        return MEMORY[id(function) + self.materialize_offset] != 0

    def is_variable_input(self, function: Any, inputs: int) -> tuple[bool, ...]:
        """For each of the ``inputs`` arguments of a custom Function: was it a tensor?"""
        begin = read_word(MEMORY, id(function) + self.variable_bits_offset)[0]
        return tuple(
            bool(read_word(MEMORY, begin + i // 64 * _WORD)[0] >> (i % 64) & 1)
            for i in range(inputs)
        )


class _Release(dict[int, Callable[[int], None]]):
    """vtable address -> the callable that releases the variables of a node with that vtable."""

    def __init__(self, slot: int) -> None:
        super().__init__()
        self._slot = slot

    def __missing__(self, vtable: int) -> Callable[[int], None]:
        # PYFUNCTYPE keeps the interpreter lock, which the destructors of saved tensors need.
        method = read_word(MEMORY, vtable + self._slot * _WORD)[0]
        release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(method)
        self[vtable] = release
        return release


@functools.cache
def node_abi() -> NodeAbi:
    """The layout of this process's torch. Raises UnknownNodeLayoutError."""
    with torch.enable_grad():
        return NodeAbi()


class _Scratch(Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> torch.Tensor:
        ctx.save_for_backward(args[0])
        return cast(torch.Tensor, args[0].clone())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


def _scratch(*args: object) -> Any:
    return cast(Any, _Scratch).apply(*args)


def _no_hook(*_: object) -> None:
    pass


def _node(tensor: Any) -> Any:
    return tensor.grad_fn


def _new_vector(before: tuple[int, ...], after: tuple[int, ...], what: str) -> int:
    """The only three words in a row that were zero and are {begin, end, end of storage} now."""
    places = [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    first = places[0] if places else 0
    begin, end, limit = after[first : first + 3]
    if places != [first, first + 1, first + 2] or any(before[first : first + 3]) or not (
        begin + _WORD == end == limit
    ):  # fmt: skip
        raise UnknownNodeLayoutError(what)
    return first


def _common_targets(results: list[Any]) -> list[tuple[int, int]]:
    """(word of a Python node, word of what it points to) where the latter is its sequence number,
    for the nodes of several tensors, all of one kind. A node may live no longer than its tensor."""
    common: dict[tuple[int, int], int] = {}
    for number, owner in enumerate(map(_node, results)):
        magic = 0x5EC5_EED5_0000 + number
        owner._set_sequence_nr(magic)
        base = _FunctionBase if isinstance(owner, _FunctionBase) else type(owner)
        for i, address in enumerate(safe_words(id(owner), base.__basicsize__ // _WORD)):
            try:
                target = safe_words(address, _NODE_WORDS)
            except OSError:
                continue
            for j, word in enumerate(target):
                if word == magic:
                    common[i, j] = common.get((i, j), 0) + 1
    return [place for place, count in common.items() if count == len(results)]


def safe_words(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"{count}Q", _safe_bytes(address, count * _WORD))


def _safe_bytes(address: int, count: int) -> bytes:
    """``count`` bytes at an address that may be nonsense. Raises OSError if it is."""
    if not 0 < address < 1 << 62:
        raise OSError(f"no memory at {address:#x}")
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY)
    except FileNotFoundError:
        raise UnknownNodeLayoutError("anything (no /proc/self/mem)") from None
    try:
        read = os.pread(memory, count, address)
    finally:
        os.close(memory)
    if len(read) < count:  # the last page before a hole
        read += bytes(count - len(read))
    return read
