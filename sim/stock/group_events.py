"""What a profiler records of an operation of ProcessGroupGloo."""

from __future__ import annotations

from typing import Any

from torch import Tensor

#: one event: its name, and the tensors whose shapes it has
Event = tuple[str, list[Tensor]]


def events(what: str, args: tuple[Any, ...]) -> list[Event]:
    """Of the operation ``what`` of real/native/group.cpp, one for each that gloo makes of it."""
    name, inputs = what, list[Tensor]()
    match what:
        case "barrier":
            pass
        case "reduce_scatter":  # gloo reduces all, and takes its part
            return [("gloo:all_reduce", [each]) for each in args[1][0]]
        case "reduce_scatter_tensor":
            return [("gloo:all_reduce", [each]) for each in args[1]]
        case "scatter":
            inputs = [each for part in args[1] for each in part]
        case "all_to_all_single":
            name, inputs = "all_to_all", [args[1]]
        case "gather" | "all_to_all":
            inputs = args[1]
        case "all_gather" | "all_gather_coalesced" | "all_gather_into_tensor":
            name, inputs = "all_gather", args[1]
        case _:
            inputs = args[0]
    if what == "all_reduce" and any(each.is_sparse for each in inputs):
        name = "sparse_all_reduce"
    if what == "recv" and args[1] < 0:
        name = "recvAnySource"
    return [(f"gloo:{name}", inputs)]
