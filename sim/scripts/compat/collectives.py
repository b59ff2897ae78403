"""Collectives of ``torch.distributed``: PyTorch's own functions, and the methods of a group that they call, in which
members send each other copies of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor

from squall.sim.scripts.collectives import Operation, hear_of_all
from squall.sim.scripts.compat import groups, point_to_point, rebound
from squall.sim.scripts.compat.groups import GroupHandle
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.work import Work, in_background
from squall.sim.world.places import tell_as


def _collective(
    own: GroupHandle, operation: Operation, args: Sequence[Any] = (), is_async: bool = False
) -> Work | None:
    """What a group's members call with ``args``. The number that they meet under is taken at the call, so that
    overlapping collectives are matched in the order of the calls."""
    begun = own.begin(operation, (operation.kind, own.next_number()), args=args)

    def end() -> list[Tensor]:
        begun.end()
        return operation.outputs

    if is_async:
        return in_background(end)
    end()
    return None


def _method(what: str, options: Mapping[str, str]) -> Callable[..., Work | None]:
    """A method of groups that is one of their ``operations``. ``options``: by argument, which option says it."""

    def method(own: GroupHandle, *given: Any, opts: Any = None) -> Work | None:
        *tensors, opts = given if opts is None else (*given, opts)
        if what != "all_to_all_single":
            tensors = [[each] if isinstance(each, Tensor) else each for each in tensors]
        about = {name: getattr(opts, option) for name, option in options.items()}
        operation: Operation = getattr(own.operations, what)(*tensors, **about)
        return _collective(own, operation, given, opts.asyncOp)

    return method


def _monitored_barrier(own: GroupHandle, timeout: timedelta, wait_all_ranks: bool) -> None:
    tag = "monitored_barrier", own.next_number()

    def done(tells: list[int], wants: list[int], timeout_s: float) -> str | None:
        operation = Operation(tag[0], pieces={each: [] for each in tells}, wants=wants)
        try:
            own.begin(operation, tag, timeout_s).end()
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
    setattr(GroupHandle, _name, _function)


globals().update(rebound.NAMES)
tell_as(__name__, "torch.distributed.distributed_c10d")
NAMES: dict[str, Any] = {
    **groups.NAMES,
    **rebound.NAMES,
    **point_to_point.NAMES,
    "Work": Work,
}
