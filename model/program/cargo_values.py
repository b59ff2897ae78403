"""What cargo is made of, how it is described, and what is written to it.

Ordinary PyTorch code that knows nothing of RPC: it runs on workers, in scripts (``squall export``)
and, to say what must come, where nothing travels. Parts are plain dictionaries here
(:meth:`squall.model.program.cargo.Cargo.plain`).
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: a storage is sent whole, unless it has so many bytes and twice as many as the elements of its
#: tensor (torch/csrc/distributed/rpc/utils.cpp, cloneSparseTensors)
LARGE_BYTES = 8 * 1024
#: elements of a large storage
LARGE = 2048
#: lists within each other in a deep one
DEPTH = 30


class Named(namedtuple("Named", ["first", "rest"])):
    """A named tuple."""

    __slots__ = ()


@dataclass
class Data:
    """A dataclass."""

    items: list[Any]
    count: int = 0


class Reduced:
    """Says itself how it is pickled."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __reduce__(self) -> Any:
        return Reduced, (self.items,)


class Stateful:
    """What is sent of it is not what it has in its dictionary."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.unsent: Any = lambda: 0

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.items}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.items = state["kept"]
        self.unsent = None


class Slots:
    """Has no dictionary."""

    __slots__ = ("items",)

    def __init__(self, items: list[Any]) -> None:
        self.items = items


class Made:
    """Is made with what it has, by name."""

    items: list[Any]

    def __new__(cls, *, items: list[Any]) -> Made:
        made = object.__new__(cls)
        made.items = items
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), {"items": self.items}

    def __getstate__(self) -> None:
        return None


#: objects with items
OBJECTS = (Data, Reduced, Stateful, Slots, Made)


# -- making it --------------------------------------------------------------------------------------


def build(
    parts: tuple[dict[str, Any], ...], refer: Callable[[int, int], Any], arrived: bool = False
) -> list[Any]:
    """The message of these parts: a list of what is in no container.

    ``refer(worker, number)`` gives a reference to ``number`` on ``worker``. ``arrived``: as it is
    where it arrives, where a tensor that requires grad shares its memory with no other, and a
    large storage is not there for a few elements.
    """
    stack: list[Any] = []
    tensors: list[Tensor] = []
    sources: list[dict[str, Any]] = []
    detached: dict[int, Tensor] = {}
    for part in parts:
        kind = part["kind"]
        back = min(part["back"], len(tensors))
        before = tensors[-back] if tensors else None
        if kind == "same" and before is not None:
            stack.append(before)
        elif kind == "view" and before is not None and may_be_viewed(before, sources[-back]):
            stack.append(view_of(before))
            tensors.append(stack[-1])
            sources.append(sources[-back])
        elif kind == "detached" and type(before) is Tensor and before.requires_grad:
            if arrived:  # what is detached of one tensor shares memory, but not with that one
                again = {**sources[-back], "grad": False}
                base = detached.setdefault(len(tensors) - back, tensor_of(again))
                stack.append(without_gaps(base.detach()))
            else:
                stack.append(before.detach())
        elif kind in ("tensor", "same", "view", "detached"):
            made = tensor_of(part)
            stack.append(without_gaps(made) if arrived else made)
            tensors.append(stack[-1])
            sources.append(part)
        elif kind == "plain":
            stack.append(plain_of(part["seed"]))
        elif kind == "reference":
            stack.append(refer(part["worker"], part["seed"]))
        else:
            start = max(0, len(stack) - part["take"])
            stack[start:] = [contained(kind, stack[start:])]
    return stack


def without_gaps(tensor: Tensor) -> Tensor:
    """The tensor as it arrives, which is without its storage if that is large and mostly gaps."""
    if tensor.layout != torch.strided:
        if not tensor.is_coalesced() or tensor.requires_grad:
            return tensor
        parts = tensor._indices(), tensor._values()  # nobody says that it is
        return torch.sparse_coo_tensor(*parts, tensor.shape, check_invariants=False)
    if tensor.untyped_storage().nbytes() < max(LARGE_BYTES, 2 * tensor.nbytes):
        return tensor
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def plain_of(seed: int) -> Any:
    options = (None, seed, -(2**70), 0.1 * seed, "", "text\u00e9\n\x00", b"\x00\xff", 1j, True)
    more = (torch.float16, torch.Size([2, 3]), frozenset([1]), Data, may_be_viewed, float("inf"))
    every = options + more
    return every[seed % len(every)]


def contained(kind: str, items: list[Any]) -> Any:
    """A container with these items."""
    if kind == "tuple":
        return tuple(items)
    if kind == "dict":
        return {f"key{at}": item for at, item in enumerate(items)}
    if kind == "ordered":
        return OrderedDict((at, item) for at, item in reversed(list(enumerate(items))))
    if kind == "named":
        return Named(items[0] if items else None, tuple(items[1:]))
    if kind == "data":
        return Data(items, len(items))
    if kind == "reduced":
        return Reduced(items)
    if kind == "stateful":
        return Stateful(items)
    if kind == "slots":
        return Slots(items)
    if kind == "made":
        return Made(items=items)
    if kind == "ring":
        # Of nothing else: what is in a cycle is there until somebody looks for garbage.
        ring: list[Any] = []
        ring.append(ring)
        items.append(ring)
    if kind == "deep":
        for _ in range(DEPTH):
            items = [items]
    return items


def numbers(count: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Small integers in a row, of a dtype; of complex ones the imaginary part is one more."""
    row = (torch.arange(count) * 5 + seed) % 11 - 4
    if dtype == torch.bool:
        return row > 0
    if dtype == torch.uint8:
        return (row + 4).to(dtype)
    return (
        torch.complex(row.double(), row.double() + 1).to(dtype)
        if dtype.is_complex
        else row.to(dtype)
    )


def tensor_of(part: dict[str, Any]) -> Tensor:
    """The tensor that a part says."""
    layout, seed = part["layout"], part["seed"]
    dtype: torch.dtype = getattr(torch, part["dtype"])
    if layout in ("conjugate", "negative", "negated", "real"):
        dtype = torch.complex64 if dtype.itemsize <= 4 else torch.complex128
        complex_numbers = numbers(6, dtype, seed).reshape(2, 3)
        if layout == "real":
            return complex_numbers.real
        if layout == "conjugate":
            return complex_numbers.conj()
        imaginary = complex_numbers.conj().imag
        return imaginary if layout == "negative" else imaginary.as_strided((2, 6), (6, 1), 0)
    if layout in ("coo", "coalesced"):
        dtype = dtype if dtype in (torch.float32, torch.complex128) else torch.float64
        indices = torch.tensor([[0, 1, 1], [2, 0, 0]])
        sparse = torch.sparse_coo_tensor(
            indices, numbers(3, dtype, seed), (2, 3), check_invariants=False
        )
        return sparse.coalesce() if layout == "coalesced" else sparse
    made = strided_of(layout, dtype, seed)
    floating = dtype.is_floating_point or dtype.is_complex
    if layout == "parameter":
        return torch.nn.Parameter(made, requires_grad=part["grad"] and floating)
    if part["grad"] and floating and layout != "overlapping":
        made = made.detach().requires_grad_()
    return made


def strided_of(layout: str, dtype: torch.dtype, seed: int) -> Tensor:
    """Numbers that lie in memory so."""
    if layout == "narrowed":
        return numbers(8, dtype, seed)[2:5]
    if layout == "strided":
        return numbers(9, dtype, seed)[1::2]
    if layout == "transposed":
        return numbers(6, dtype, seed).reshape(2, 3).t()
    if layout == "scalar":
        return numbers(1, dtype, seed).reshape(())
    if layout == "element":
        return numbers(5, dtype, seed)[3]
    if layout == "expanded":
        return numbers(3, dtype, seed).reshape(3, 1).expand(3, 4)
    if layout == "overlapping":
        return numbers(9, dtype, seed).as_strided((3, 4), (2, 1), 1)
    if layout == "empty":
        return numbers(0, dtype, seed).reshape(0, 2)
    if layout == "nothing":
        return numbers(6, dtype, seed).reshape(2, 3)[:, 3:]
    if layout == "gaps":
        return numbers(LARGE, dtype, seed)[5:8]
    if layout == "parameter":
        return numbers(4, dtype, seed)[1:3]
    return numbers(6, dtype, seed).reshape(2, 3)


def may_be_viewed(tensor: Tensor, source: dict[str, Any]) -> bool:
    """Whether another tensor may share its memory, and both be written to."""
    return (
        type(tensor) is Tensor
        and tensor.layout == torch.strided
        and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
        and source["layout"] != "gaps"
    )


def view_of(tensor: Tensor) -> Tensor:
    """Another tensor that shares its memory."""
    if tensor.dim() and tensor.shape[0] > 1:
        return tensor[1:]
    return tensor.detach()


# -- describing it ------------------------------------------------------------------------------------


def facts(value: Any) -> list[str]:
    """Lines that say all that can be seen of a message: what has come may be compared with what
    was sent. References are fetched."""
    lines: list[str] = []
    describe(value, "", lines, {}, {})
    return lines


def describe(
    value: Any, where: str, lines: list[str], seen: dict[int, str], storages: dict[int, int]
) -> None:
    if isinstance(value, (Tensor, list, dict, *OBJECTS)):
        if id(value) in seen:
            lines.append(f"{where}: the same as {seen[id(value)]}")
            return
        seen[id(value)] = where
    name = type(value).__name__
    if isinstance(value, Tensor):
        lines.append(f"{where}: {name} {tensor_facts(value, storages)}")
    elif isinstance(value, list | tuple | dict) and not isinstance(value, torch.Size):
        keys = f" {list(value)}" if isinstance(value, dict) else ""
        lines.append(f"{where}: {name}{keys} of {len(value)}")
        for at, each in enumerate(value.values() if isinstance(value, dict) else value):
            describe(each, f"{where}.{at}", lines, seen, storages)
    elif isinstance(value, OBJECTS):
        lines.append(f"{where}: {name}")
        describe(value.items, f"{where}.items", lines, seen, storages)
    elif hasattr(value, "to_here"):
        lines.append(f"{where}: refers to {value.to_here()}")
    elif isinstance(value, type) or callable(value):
        lines.append(f"{where}: {value.__name__}")
    else:
        lines.append(f"{where}: {name} {value!r}")


def tensor_facts(tensor: Tensor, storages: dict[int, int]) -> str:
    """What can be seen of a tensor; ``storages`` numbers those that tensors share."""
    said = f"{tensor.dtype} {tuple(tensor.shape)} grad {tensor.requires_grad}"
    if tensor.layout != torch.strided:
        indices, values = tensor._indices(), tensor._values()
        coalesced = "coalesced " * tensor.is_coalesced()
        return f"{said} {coalesced}sparse {indices.tolist()} {values.tolist()}"
    numbers = tensor.detach().tolist()
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    shared = storages.setdefault(address, len(storages)) if storage.nbytes() else "-"
    bits = f"{'conjugate ' * tensor.is_conj()}{'negative ' * tensor.is_neg()}"
    return (
        f"{said} {bits}strides {tensor.stride()} at {tensor.storage_offset()} of storage {shared} "
        f"with {storage.nbytes()} bytes: {numbers}"
    )


def difference(wanted: list[str], got: list[str]) -> str | None:
    """The first line that is not as it must be; None if all are."""
    for one, other in zip([*wanted, "the end"], [*got, "the end"], strict=False):
        if one != other:
            return f"{other}; expected {one}"
    return None


# -- writing to it --------------------------------------------------------------------------------------


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors in a message, each once, in the order in which they are described."""
    found: list[Tensor] = []
    collect(value, found, set())
    return found


def collect(value: Any, found: list[Tensor], seen: set[int]) -> None:
    if id(value) in seen:
        return
    if isinstance(value, Tensor):
        seen.add(id(value))
        found.append(value)
    elif isinstance(value, OBJECTS):
        seen.add(id(value))
        collect(value.items, found, seen)
    elif isinstance(value, list | tuple | dict):
        if not isinstance(value, tuple):
            seen.add(id(value))
        for each in value.values() if isinstance(value, dict) else value:
            collect(each, found, seen)


def write(value: Any) -> None:
    """Write to the memory of all tensors that do not require grad, also to what lies between
    their elements."""
    for tensor in tensors_in(value):
        if not tensor.requires_grad and tensor.numel():
            bump(tensor)


def bump(tensor: Tensor) -> None:
    """Add one to each element, in place; change each boolean."""
    if tensor.layout != torch.strided:
        tensor._indices().zero_()
        tensor = tensor._values()
    elif not tensor.is_conj() and not tensor.is_neg():
        sides = zip(tensor.shape, tensor.stride(), strict=True)
        tensor = tensor.detach().as_strided((1 + sum((n - 1) * s for n, s in sides),), (1,))
    if tensor.dtype == torch.bool:
        tensor.logical_not_()
    else:
        tensor.add_(1)


# -- computing with it ----------------------------------------------------------------------------------


def computed(value: Any) -> list[Tensor]:
    """Something of each tensor that requires grad."""
    return [each * 2 for each in tensors_in(value) if each.requires_grad and type(each) is Tensor]


def loss_of(results: list[Tensor]) -> Tensor:
    """A scalar that all results are in, each with a factor of its own."""
    total = torch.zeros((), dtype=torch.float64)
    for at, each in enumerate(results):
        real = each.real if each.is_complex() else each
        total = total + real.sum().double() * (at + 1)
    return total
