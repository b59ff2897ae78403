"""Collectives of ``torch.distributed``: PyTorch's own functions, and the methods of a group that they call, in which
members send each other copies of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor

from squall.sim.scripts.collectives import Operation, Values, hear_of_all
from squall.sim.scripts.compat import groups, point_to_point, rebound
from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.groups import Group, resolve
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.rebound import member_meant
from squall.sim.scripts.compat.work import Work, in_background
from squall.sim.world.places import tell_as


def _collective(
    own: Group, operation: Operation, args: Sequence[Any] = (), is_async: bool = False
) -> Work | None:
    """What a group's members call with ``args``. The number that they meet under is taken at the call, so that
    overlapping collectives are matched in the order of the calls."""
    number = own.next_number()
    own.compare(operation, number, args)
    end = own.begin(operation, (operation.kind, number))
    if is_async:
        return in_background(end)
    end()
    return None


def _method(what: str, options: Mapping[str, str]) -> Callable[..., Work | None]:
    """A method of groups that is one of their ``operations``. ``options``: by argument, which option says it."""

    def method(own: Group, *given: Any, opts: Any = None) -> Work | None:
        *tensors, opts = given if opts is None else (*given, opts)
        if what != "all_to_all_single":
            tensors = [[each] if isinstance(each, Tensor) else each for each in tensors]
        about = {name: getattr(opts, option) for name, option in options.items()}
        operation: Operation = getattr(own.operations, what)(*tensors, **about)
        return _collective(own, operation, given, opts.asyncOp)

    return method


def _monitored_barrier(own: Group, timeout: timedelta, wait_all_ranks: bool) -> None:
    tag = "monitored_barrier", own.next_number()

    def done(tells: list[int], wants: list[int], timeout_s: float) -> str | None:
        operation = Operation(tag[0], pieces={each: [] for each in tells}, wants=wants)
        try:
            own.begin(operation, tag, timeout_s)()
        except RuntimeError as error:
            return str(error)
        return None

    now = current_process().group.runtime.now
    hear_of_all(own.rank(), own.size(), timeout.total_seconds(), wait_all_ranks, now, done)


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
    "barrier": _method("barrier", {}),
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


def _member_of(group: Any) -> Group | None:
    """None for who is no member."""
    return None if group == groups.NON_MEMBER else resolve(group)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    def finish(values: Values) -> None:
        object_list[:] = [parcel.open() for (parcel,) in values.values()]

    _exchange_objects("all_gather_object", obj, group, finish)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    def finish(values: Values) -> None:
        if resolve(group).rank() == root and object_gather_list is not None:
            object_gather_list[:] = [parcel.open() for (parcel,) in values.values()]

    if _member_of(group) is not None:
        root = member_meant(group, dst, group_dst)
        _exchange_objects("gather_object", obj, group, finish, root)


def _exchange_objects(
    kind: str, obj: Any, group: Any, finish: Callable[[Values], object], root: int | None = None
) -> None:
    """All wait for all, since they tell each other first how large the objects are."""
    own = _member_of(group)
    if own is not None:
        operation = own.operations.exchange(kind, [], [_parcel(obj)], finish, root=root)
        _collective(own, operation)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    **_: Any,
) -> None:
    def finish(sent: list[Parcel]) -> None:
        object_list[:] = sent[0].open()

    own = _member_of(group)
    if own is not None:
        root = member_meant(group, src, group_src)
        given = [_parcel(list(object_list))] if own.rank() == root else []
        operation = Operation("broadcast_object_list", root=root)
        operation = own.operations.from_root(
            operation, dict.fromkeys(range(own.size()), given), finish
        )
        _collective(own, operation)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    def finish(sent: list[Parcel]) -> None:
        scatter_object_output_list[0] = sent[0].open()

    own = _member_of(group)
    if own is not None:
        root = member_meant(group, src, group_src)
        is_root = own.rank() == root
        parcels = [_parcel(obj) for obj in scatter_object_input_list or ()] if is_root else []
        operation = own.operations.from_root(
            Operation("scatter_object_list", root=root),
            {member: [parcel] for member, parcel in enumerate(parcels)},
            finish,
        )
        _collective(own, operation)
        if is_root:
            finish([parcels[root]])


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
