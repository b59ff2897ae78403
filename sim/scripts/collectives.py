"""What the members of a process group give each other in an operation, and what each makes of what it gets, on either
engine: as gloo has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import increment_version

from squall.sim.scripts.group_results import (
    as_it_lies,
    assign,
    check_alike,
    check_count,
    check_dense,
    put,
)
from squall.sim.scripts.reductions import operator_name, reduced
from squall.sim.world.pieces import POINT_TO_POINT

#: in what the two calls of a message have to agree: gloo takes the bytes for what the receiver says that they are
BYTES = "bytes"
#: what gloo says of an operation once another one of that member has run into its limit
ABORTED = "Application timeout caused pair closure"
#: by member: what it has given this one
Values = dict[int, list[Tensor]]


@dataclass
class Operation:
    """One member's part. ``alike``: what all members have to give alike, as they do ``root`` and ``op``; of a message
    only how many bytes that is."""

    kind: str
    #: what the work gives as its result
    outputs: list[Tensor] = field(default_factory=list)
    alike: list[Tensor] | None = None
    root: int | None = None
    op: Any = None
    #: by member: what it is sent; and what this one gives itself
    pieces: Values = field(default_factory=dict)
    own: list[Tensor] | None = None
    wants: list[int] = field(default_factory=list)
    #: those who wait until this one is there; and those whom this one waits for
    tells: list[int] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)
    finish: Callable[[Values], object] = lambda values: None
    #: elements for each member, and expected of each, where they differ by member
    parts: tuple[tuple[int, ...], tuple[int, ...]] | tuple[()] = ()

    @property
    def agreed(self) -> dict[str, str]:
        """What all members have to give alike, in words."""
        tensors = self.alike
        if tensors is None:
            return {}
        about = {
            "type": ", ".join(dict.fromkeys(str(each.dtype) for each in tensors)),
            "elements": str(sum(each.numel() for each in tensors)),
            "shape": ", ".join(dict.fromkeys(str([*each.shape]) for each in tensors)),
        }
        if self.kind == POINT_TO_POINT:
            about[BYTES] = str(sum(each.numel() * each.element_size() for each in tensors))
        if self.root is not None:
            about["root"] = str(self.root)
        if self.op is not None:
            about["op"] = operator_name(self.op)
        return about


class Operations:
    """Those of member ``rank`` of ``size``, with the arguments of real/native/group.cpp.

    Who waits for whom is as in gloo: each for all where everybody's data makes the result, a sender for
    its receiver to be there (``broadcast``, ``scatter``, ``gather`` and ``send``).
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._others = [member for member in range(size) if member != rank]

    def _exchange(
        self,
        kind: str,
        outputs: list[Tensor],
        given: list[Tensor] | list[list[Tensor]],
        finish: Callable[[Values], object],
        *,
        in_parts: bool = False,
        **about: Any,
    ) -> Operation:
        """What everybody has ``given``, all of it or, ``in_parts``, the part of it that is for this one, goes to
        ``finish``, by member."""
        parts: Any = given if in_parts else [given] * self._size
        pieces = {member: parts[member] for member in self._others}
        return Operation(
            kind, outputs, pieces=pieces, own=parts[self._rank], wants=self._others, finish=finish,
            **about,
        )  # fmt: skip

    # -- collectives ----------------------------------------------------------------------

    def all_reduce(self, tensors: list[Tensor], op: Any, root: int | None = None) -> Operation:
        outputs, tensors = tensors, [*map(as_it_lies, tensors)]
        # Several are reduced as one, one behind the other.
        begin = [0, *accumulate(map(Tensor.numel, tensors))]
        left_at = None if root in (None, self._rank) else self._rank
        # Where gloo adds up what lies elsewhere, or PyTorch divides it.
        is_written_to = len(tensors) > 1 or operator_name(op) == "AVG"

        def finish(values: Values) -> None:
            for n, tensor in enumerate(tensors):
                each = [sent[n] for sent in values.values()]
                total = reduced(
                    each, op, into=tensor, at=begin[n], of=begin[-1],
                    to_one=root is not None, left_at=left_at,
                )  # fmt: skip
                assign(tensor, total)
                if is_written_to:
                    increment_version(outputs[n])

        return self._exchange("all_reduce", outputs, tensors, finish, alike=tensors, op=op)

    def _check_root(self, root: int, what_for: str) -> None:
        if not 0 <= root < self._size:
            raise RuntimeError(f"ProcessGroupGloo::{what_for}: invalid root rank: {root}")

    def reduce(self, tensors: list[Tensor], op: Any, root: int) -> Operation:
        self._check_root(root, "reduce")
        operation = self.all_reduce(tensors, op, root)
        operation.kind, operation.root = "reduce", root
        return operation

    def broadcast(self, tensors: list[Tensor], root: int) -> Operation:
        self._check_root(root, "broadcast")
        operation = Operation("broadcast", tensors, tensors, root)
        tensors = [*map(as_it_lies, tensors)]
        given = dict.fromkeys(range(self._size), tensors)
        return self._from_root(operation, given, lambda sent: put(tensors, sent))

    def _from_root(
        self, operation: Operation, given: Values, finish: Callable[[list[Tensor]], object]
    ) -> Operation:
        """What the root has ``given`` each member goes to ``finish``, but for its own."""
        root = operation.root
        assert root is not None
        if self._rank != root:
            return self._awaits(operation, [root], lambda values: finish(values[root]))
        operation.pieces = {member: given[member] for member in self._others}
        operation.readers = self._others
        return operation

    def all_gather(self, outputs: list[list[Tensor]], inputs: list[Tensor]) -> Operation:
        (into,) = outputs
        check_count(into, self._size, "allgather")
        check_alike(into, inputs[0])

        def finish(values: Values) -> None:
            put(into, [each[0] for each in values.values()])

        return self._exchange("all_gather", into, inputs, finish, alike=inputs)

    def all_gather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor]) -> Operation:
        def finish(values: Values) -> None:
            for into, sent in zip(outputs, values.values(), strict=True):
                put(into, sent)

        into = [each for into in outputs for each in into]
        return self._exchange("all_gather", into, inputs, finish)

    def all_gather_into_tensor(self, outputs: list[Tensor], inputs: list[Tensor]) -> Operation:
        if len(outputs) == 1:
            check_alike(outputs[0].chunk(self._size), inputs[0])

        def finish(values: Values) -> None:
            for at, output in enumerate(outputs):
                parts = [each[at].reshape(-1) for each in values.values()]
                put(output.detach().view(-1).chunk(self._size), parts)

        return self._exchange("all_gather_into_tensor", outputs, inputs, finish, alike=inputs)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], root: int) -> Operation:
        self._check_root(root, "gather")
        operation = Operation("gather", [], inputs, root)
        if self._rank != root:
            operation.pieces, operation.readers = {root: inputs}, [root]
            return operation
        (into,) = outputs
        check_count(into, self._size, "gather")
        operation.outputs, operation.own = into, inputs

        def finish(values: Values) -> None:
            put(into, [each[0] for each in values.values()])

        return self._awaits(operation, self._others, finish)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], root: int) -> Operation:
        self._check_root(root, "scatter")
        operation = Operation("scatter", outputs, outputs, root)
        for parts in inputs if self._rank == root else ():
            check_count(parts, self._size, "scatter")
        outputs = [*map(as_it_lies, outputs)]
        given = {
            member: [as_it_lies(part)] for parts in inputs for member, part in enumerate(parts)
        }
        self._from_root(operation, given, lambda sent: put(outputs, sent))
        if self._rank == root:
            operation.own, operation.finish = given[root], lambda values: put(outputs, values[root])
        return operation

    def _awaits(
        self, operation: Operation, members: list[int], finish: Callable[[Values], object]
    ) -> Operation:
        operation.wants, operation.tells, operation.finish = members, members, finish
        return operation

    def reduce_scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], op: Any
    ) -> Operation:
        check_count(inputs[0], self._size, "reduce_scatter")
        operation = self._scattered(outputs, [[part] for part in inputs[0]], op, as_one=False)
        # What goes to others is copied first, which keeps the order of dimensions in memory.
        operation.pieces = {
            member: [as_it_lies(each if each.is_contiguous() else each.detach().clone())]
            for member, (each,) in operation.pieces.items()
        }
        return operation

    def reduce_scatter_tensor(
        self, outputs: list[Tensor], inputs: list[Tensor], op: Any
    ) -> Operation:
        for output, each in zip(outputs, inputs, strict=True):
            if output.dim() and each.dim() and output.shape[0] * self._size != each.shape[0]:
                raise RuntimeError(
                    "Check failed: outputShape[0] * worldSize == inputShape[0] "
                    f"({output.shape[0] * self._size} vs. {each.shape[0]}). "
                )
        split = [
            each.reshape(self._size, *output.shape).unbind(0)
            for output, each in zip(outputs, inputs, strict=True)
        ]
        return self._scattered(outputs, [*map(list, zip(*split, strict=True))], op, as_one=True)

    def _scattered(
        self, outputs: list[Tensor], parts: list[list[Tensor]], op: Any, *, as_one: bool
    ) -> Operation:
        """``as_one``: all parts are reduced for all as one tensor, of which each takes its own."""

        def finish(values: Values) -> None:
            for n, output in enumerate(outputs):
                if output.layout is torch.strided:  # it is written to once
                    increment_version(output)
                    output = output.data
                if not as_one and output.layout is torch.strided and not output.is_contiguous():
                    # What this one gives itself is put there before all is reduced where it lies.
                    assign(output, values[self._rank][n])
                    output = as_it_lies(output)
                    values[self._rank][n] = output.clone()
                each, size = [sent[n] for sent in values.values()], output.numel()
                at, of = (self._rank * size, self._size * size) if as_one else (0, size)
                assign(output, reduced(each, op, into=output, at=at, of=of))

        alike = [each for part in parts for each in part]
        return self._exchange(
            "reduce_scatter", outputs, parts, finish, in_parts=True, alike=alike, op=op
        )

    def all_to_all(self, outputs: list[Tensor], inputs: list[Tensor]) -> Operation:
        for which, each in (("input", inputs), ("output", outputs)):
            check_count(each, self._size, "alltoall", which)
            check_alike(each, each[0], "alltoall")
        if outputs[0].shape != inputs[0].shape:
            raise RuntimeError(
                "ProcessGroupGloo::alltoall: input and output tensors must have the same size"
            )
        return self._exchange_parts(outputs, inputs)

    def _exchange_parts(self, outputs: list[Tensor], inputs: list[Tensor]) -> Operation:
        def finish(values: Values) -> None:
            put(outputs, [each[0] for each in values.values()])

        given = [[each] for each in inputs]
        operation = self._exchange("all_to_all", outputs, given, finish, in_parts=True)
        operation.parts = tuple(map(Tensor.numel, inputs)), tuple(map(Tensor.numel, outputs))
        return operation

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_sizes: list[int] | None,
        input_sizes: list[int] | None,
    ) -> Operation:
        check_dense(input, ValueError, "Tensors must be contiguous")
        outs, ins = (
            list(whole.split(sizes or whole.size(0) // self._size))
            for whole, sizes in ((as_it_lies(output), output_sizes), (input, input_sizes))
        )
        operation = self._exchange_parts(outs, ins)
        operation.outputs = [output]
        return operation

    def barrier(self) -> Operation:
        return self._exchange("barrier", [], [], lambda values: None)

    # -- point to point -------------------------------------------------------------------

    def _check_message(self, tensors: list[Tensor], peer: int, tag: int) -> None:
        if tag < 0:
            raise RuntimeError("Tag must be nonnegative")
        if not -1 <= peer < self._size:
            raise RuntimeError(
                f"there is no rank {peer} in this process group of {self._size}, in which gloo would end the process "
                "with a segmentation fault"
            )
        for each in tensors:
            check_dense(each, RuntimeError, "input tensor has to be contiguous")

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Operation:
        self._check_message(tensors, dst, tag)
        return Operation(POINT_TO_POINT, alike=tensors, pieces={dst: tensors}, readers=[dst])

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Operation:
        """``src``: -1 for anybody, who is told when it turns out who it is."""
        self._check_message(tensors, src, tag)
        if src == self._rank:
            raise RuntimeError(
                "[enforce fail at gloo/transport/tcp/pair.cc] state_ >= CONNECTED: "
                f"rank {src} has no connection to itself"
            )

        def finish(values: Values) -> None:
            (sent,) = values.values()
            put([*map(as_it_lies, tensors)], sent)

        tells = [] if src < 0 else [src]
        return Operation(POINT_TO_POINT, tensors, tensors, wants=[src], tells=tells, finish=finish)


def too_late(what: str, timeout_s: float) -> str:
    """What gloo says of a ``send`` or ``recv`` operation that is not over in time."""
    return (
        "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc] Timed out waiting "
        f"{round(timeout_s * 1000)}ms for {what} operation to complete"
    )


def never_formed(timeout_s: float, come: int, size: int) -> dist.DistStoreError:
    """What a member raises for whose group others do not come in time: gloo looks for them in a store."""
    told = f"wait timeout after {round(timeout_s * 1000)}ms: {come} of {size} ranks have come"
    return dist.DistStoreError(told)


def watchdog(kind: str, number: int, timeout_s: float) -> str:
    """What NCCL's watchdog says of an operation that is not over in time."""
    took_ms = round(timeout_s * 1000)
    return (
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, "
        f"OpType={kind.upper()}, Timeout(ms)={took_ms}) ran for {took_ms} milliseconds before timing out."
    )


def hear_of_all(
    rank: int,
    size: int,
    timeout_s: float,
    wait_all_ranks: bool,
    now: Callable[[], float],
    done: Callable[[list[int], list[int], float], str | None],
) -> None:
    """A monitored barrier as ProcessGroupGloo has it: rank 0 hears of each other one, and lets them go on.

    ``done`` tells members that this one is there, and waits for others so many seconds: what went wrong. ``now``:
    seconds of virtual time.

    Raises RuntimeError on rank 0 that names who did not come (the first one, or all), or that no time is left.
    """
    if rank != 0:
        problem = done([0], [0], timeout_s)
        if problem is not None:
            raise RuntimeError(
                f"Rank {rank} successfully reached monitoredBarrier, but received errors "
                "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty "
                f"rank.\n Original exception: \n{problem}"
            )
        return
    others = list(range(1, size))
    limit = f"monitoredBarrier {{}} {round(timeout_s * 1000)} ms"
    end_s, missing, why = now() + timeout_s, [], ""
    for member in others:
        left_s = max(0.0, end_s - now())
        if left_s or wait_all_ranks:
            problem = done([], [member], left_s)
        else:
            came = ", ".join(map(str, others[: others.index(member)]))
            problem = f"Rank 0 timed out in {limit.format('after')}.\n" + (
                f"Successfully processed ranks: {came}"
                if came
                else "No ranks successfully processed in monitoredBarrier."
            )
        if problem is not None:
            missing.append(member)
            if not wait_all_ranks:
                why = f"\n Original exception: \n{problem}"
                break
    if missing:
        who = ", ".join(map(str, missing))
        raise RuntimeError(
            f"[Rank 0]: Rank{'s' if wait_all_ranks else ''} {who} failed to pass "
            f"{limit.format('in')}{why}"
        )
    done(others, [], timeout_s)
