"""Collectives of ``torch.distributed``: members send each other copies of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp, distributed_c10d

from squall.sim.scripts.compat import groups, point_to_point
from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.groups import Group, resolve
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.work import Work, copy, in_background, member_meant
from squall.sim.scripts.moved import assign, check_alike, put
from squall.sim.scripts.reductions import reduced

_ensure_same_dtype: Any = vars(distributed_c10d)["_ensure_all_tensors_same_dtype"]


def _collective(
    kind: str,
    group: Any,
    contribution: Any,
    finish: Callable[[Group, list[Any]], Any],
    async_op: bool,
) -> Work | None:
    """Give ``contribution``, get everybody's, and let ``finish`` put the result in its place.

    The number that members meet under is taken at the call, so that overlapping collectives
    are matched in the order of the calls.
    """
    if group is not None and not isinstance(group, Group) and group == groups.NON_MEMBER:
        return None
    own = resolve(group)
    number = own.next_number()
    operation = own.operation(kind, number, own.put(kind, number, contribution))

    def end() -> None:
        with operation:
            finish(own, own.take(number))

    if async_op:
        return in_background(end)
    with torch.no_grad():
        end()
    return None


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [copy(tensor) for tensor in tensors]


# -- collectives of tensors ----------------------------------------------------------------------


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    def finish(_: Group, tensors: list[Tensor]) -> None:
        assign(tensor, reduced(tensors, op))

    return _collective("all_reduce", group, copy(tensor), finish, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    root = member_meant(group, src, group_src)

    def finish(own: Group, tensors: list[Tensor | None]) -> None:
        sent = tensors[root]
        if own.rank() != root and sent is not None:
            put([tensor], [sent])

    contribution = copy(tensor) if resolve(group).rank() == root else None
    return _collective("broadcast", group, contribution, finish, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    root = member_meant(group, dst, group_dst)

    def finish(own: Group, tensors: list[Tensor]) -> None:
        result = reduced(
            tensors, op, to_one=True
        )  # also where it is not wanted: it may not be possible
        if own.rank() == root:
            assign(tensor, result)

    return _collective("reduce", group, copy(tensor), finish, async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    _ensure_same_dtype(tensor_list, tensor)
    check_alike(tensor_list, tensor)

    def finish(_: Group, tensors: list[Tensor]) -> None:
        put(tensor_list, tensors)

    return _collective("all_gather", group, copy(tensor), finish, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    check_alike(output_tensor.chunk(resolve(group).size()), input_tensor)

    def finish(_: Group, tensors: list[Tensor]) -> None:
        output_tensor.detach().copy_(torch.stack(tensors).reshape(output_tensor.shape))

    return _collective("all_gather_into_tensor", group, copy(input_tensor), finish, async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    root = member_meant(group, dst, group_dst, default=0)
    if resolve(group).rank() == root and gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")

    def finish(own: Group, tensors: list[Tensor]) -> None:
        if own.rank() == root and gather_list is not None:
            put(gather_list, tensors)

    return _collective("gather", group, copy(tensor), finish, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    root = member_meant(group, src, group_src, default=0)
    is_root = resolve(group).rank() == root
    if is_root and scatter_list is None:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")

    def finish(own: Group, lists: list[list[Tensor]]) -> None:
        put([tensor], [lists[root][own.rank()]])

    contribution = _copies(scatter_list) if is_root and scatter_list else []
    return _collective("scatter", group, contribution, finish, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    return _scattered(output, input_list, op, group, async_op, as_one=False)


def _scattered(
    output: Tensor, parts: list[Tensor], op: Any, group: Any, async_op: bool, *, as_one: bool
) -> Work | None:
    """``as_one``: all parts are reduced for all as one tensor, of which each takes its own."""

    def finish(own: Group, lists: list[list[Tensor]]) -> None:
        size = output.numel()
        at, of = (own.rank() * size, own.size() * size) if as_one else (0, size)
        output.detach().copy_(reduced([each[own.rank()] for each in lists], op, at=at, of=of))

    return _collective("reduce_scatter", group, _copies(parts), finish, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    parts = list(input.reshape(resolve(group).size(), *output.shape).unbind(0))
    return _scattered(output, parts, op, group, async_op, as_one=True)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    def finish(own: Group, lists: list[list[Tensor]]) -> None:
        put(output_tensor_list, [sent[own.rank()] for sent in lists])

    return _collective("all_to_all", group, _copies(input_tensor_list), finish, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    size = resolve(group).size()
    outs = torch.split(output, output_split_sizes or output.size(0) // size)
    ins = torch.split(input, input_split_sizes or input.size(0) // size)
    return all_to_all(list(outs), list(ins), group, async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    return _collective("barrier", group, True, lambda own, values: None, async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    barrier(group)


# -- collectives of objects ----------------------------------------------------------------------


def _parcel(obj: Any) -> Parcel:
    return Parcel(obj, current_process().space, share=False)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    def finish(_: Group, parcels: list[Parcel]) -> None:
        object_list[:] = [parcel.open() for parcel in parcels]

    _collective("all_gather_object", group, _parcel(obj), finish, False)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    root = member_meant(group, dst, group_dst, default=0)

    def finish(own: Group, parcels: list[Parcel]) -> None:
        if own.rank() == root and object_gather_list is not None:
            object_gather_list[:] = [parcel.open() for parcel in parcels]

    _collective("gather_object", group, _parcel(obj), finish, False)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    **_: Any,
) -> None:
    root = member_meant(group, src, group_src, default=0)

    def finish(own: Group, parcels: list[Parcel | None]) -> None:
        sent = parcels[root]
        if own.rank() != root and sent is not None:
            object_list[:] = sent.open()

    is_root = resolve(group).rank() == root
    _collective(
        "broadcast_object_list",
        group,
        _parcel(list(object_list)) if is_root else None,
        finish,
        False,
    )


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    root = member_meant(group, src, group_src, default=0)

    def finish(own: Group, lists: list[list[Parcel]]) -> None:
        scatter_object_output_list[0] = lists[root][own.rank()].open()

    is_root = resolve(group).rank() == root
    parcels = [_parcel(obj) for obj in scatter_object_input_list or ()] if is_root else []
    _collective("scatter_object_list", group, parcels, finish, False)


_PUBLIC: tuple[Callable[..., Any], ...] = (
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
)
NAMES: dict[str, Any] = {
    **groups.NAMES,
    **point_to_point.NAMES,
    **{function.__name__: function for function in _PUBLIC},
    "Work": Work,
}
