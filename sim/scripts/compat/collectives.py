"""Collectives of ``torch.distributed``: PyTorch's own functions, and the methods of a group that they call, in which
members send each other copies of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from squall.sim.scripts.collectives import Operation, hear_of_all
from squall.sim.scripts.compat import groups, point_to_point, rebound
from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.group_messages import IN_PARTS
from squall.sim.scripts.compat.groups import Group, resolve
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.rebound import member_meant
from squall.sim.scripts.compat.work import Work, copy, in_background
from squall.sim.world.places import tell_as


def _collective(
    operation: Operation,
    group: Any,
    contribution: Any,
    finish: Callable[[Group, list[Any]], Any],
    async_op: bool = False,
    args: Sequence[Any] = (),
) -> Work | None:
    """What a group's members call with ``args``: give ``contribution``, get everybody's, and let ``finish`` put the result in its place.

    The number that members meet under is taken at the call, so that overlapping collectives
    are matched in the order of the calls.
    """
    if group is not None and not isinstance(group, Group) and group == groups.NON_MEMBER:
        return None
    own = resolve(group)
    number, kind = own.next_number(), operation.kind
    own.compare(operation, number, args)
    begun = own.operation(kind, number, own.put(kind, number, contribution))

    def end() -> None:
        with begun:
            finish(own, own.take(kind, number))

    if async_op:
        return in_background(end)
    with torch.no_grad():
        end()
    return None


# -- collectives of tensors ----------------------------------------------------------------------


def _method(what: str, options: Mapping[str, str]) -> Callable[..., Work | None]:
    """A method of groups that is one of their ``operations``. Each member sends something to all others, if only that
    it is there. ``options``: by argument, which option says it."""

    def method(own: Group, *given: Any) -> Work | None:
        *tensors, opts = given
        if what != "all_to_all_single":
            tensors = [[each] if isinstance(each, Tensor) else each for each in tensors]
        about = {name: getattr(opts, option) for name, option in options.items()}
        operation: Operation = getattr(own.operations, what)(*tensors, **about)
        pieces = dict(operation.pieces)
        if operation.own is not None:
            pieces[own.rank()] = operation.own
        in_parts = operation.kind in IN_PARTS
        contribution: Any = None
        if in_parts:
            contribution = [_copies(pieces.get(member, [])) for member in range(own.size())]
        elif pieces:
            contribution = _copies(next(iter(pieces.values())))

        def finish(_: Group, contributions: list[Any]) -> None:
            if in_parts:
                contributions = [parts[own.rank()] for parts in contributions]
            operation.finish({src: sent for src, sent in enumerate(contributions) if sent})

        return _collective(operation, own, contribution, finish, opts.asyncOp, given)

    return method


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [copy(tensor) for tensor in tensors]


def _barrier(own: Group, opts: Any) -> Work | None:
    return _collective(Operation("barrier"), own, True, lambda own, values: None, opts.asyncOp)


def _monitored_barrier(own: Group, timeout: timedelta, wait_all_ranks: bool) -> None:
    number, rank, kind = own.next_number(), own.rank(), "monitored_barrier"

    def done(tells: list[int], wants: list[int], timeout_s: float) -> str | None:
        begun = own.operation(kind, number, 0)
        for member in tells:
            own.messages.tell(rank, member, kind, number)
        try:
            with begun:
                for member in wants:
                    own.from_member(member, f"{rank}/{kind}/{number}/{member}", timeout_s)
        except RuntimeError as error:
            return str(error)
        return None

    now = current_process().group.runtime.now
    hear_of_all(rank, own.size(), timeout.total_seconds(), wait_all_ranks, now, done)


_OP, _ROOT = {"op": "reduceOp"}, {"root": "rootRank"}
_METHODS = {
    "allreduce": _method("all_reduce", _OP),
    "broadcast": _method("broadcast", _ROOT),
    "reduce": _method("reduce", _OP | _ROOT),
    "allgather": _method("all_gather", {}),
    "gather": _method("gather", _ROOT),
    "scatter": _method("scatter", _ROOT),
    "reduce_scatter": _method("reduce_scatter", _OP),
    "alltoall": _method("all_to_all", {}),
    "barrier": _barrier,
    "monitored_barrier": _monitored_barrier,
    # by the names of several versions of PyTorch
    **dict.fromkeys(
        ("all_gather_single", "_allgather_base"), _method("all_gather_into_tensor", {})
    ),
    **dict.fromkeys(
        ("reduce_scatter_single", "_reduce_scatter_base"), _method("reduce_scatter_tensor", _OP)
    ),
    **dict.fromkeys(("all_to_all_single", "alltoall_base"), _method("all_to_all_single", {})),
}
for _name, _function in _METHODS.items():
    setattr(Group, _name, _function)


# -- collectives of objects ----------------------------------------------------------------------


def _parcel(obj: Any) -> Parcel:
    return Parcel(obj, current_process().space, share=False)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    def finish(_: Group, parcels: list[Parcel]) -> None:
        object_list[:] = [parcel.open() for parcel in parcels]

    _collective(Operation("all_gather_object"), group, _parcel(obj), finish)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    root = member_meant(group, dst, group_dst)

    def finish(own: Group, parcels: list[Parcel]) -> None:
        if own.rank() == root and object_gather_list is not None:
            object_gather_list[:] = [parcel.open() for parcel in parcels]

    _collective(Operation("gather_object"), group, _parcel(obj), finish)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    **_: Any,
) -> None:
    root = member_meant(group, src, group_src)

    def finish(own: Group, parcels: list[Parcel | None]) -> None:
        sent = parcels[root]
        if own.rank() != root and sent is not None:
            object_list[:] = sent.open()

    is_root = resolve(group).rank() == root
    given = _parcel(list(object_list)) if is_root else None
    _collective(Operation("broadcast_object_list"), group, given, finish)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    root = member_meant(group, src, group_src)

    def finish(own: Group, lists: list[list[Parcel]]) -> None:
        scatter_object_output_list[0] = lists[root][own.rank()].open()

    is_root = resolve(group).rank() == root
    parcels = [_parcel(obj) for obj in scatter_object_input_list or ()] if is_root else []
    _collective(Operation("scatter_object_list"), group, parcels, finish)


globals().update(rebound.NAMES)
_OF_OBJECTS: tuple[Callable[..., Any], ...] = (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    scatter_object_list,
)
tell_as(__name__, "torch.distributed.distributed_c10d")
NAMES: dict[str, Any] = {
    **groups.NAMES,
    **rebound.NAMES,
    **point_to_point.NAMES,
    **{function.__name__: function for function in _OF_OBJECTS},
    "Work": Work,
}
